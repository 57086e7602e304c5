# SPDX-License-Identifier: Apache-2.0
"""Taking the answer out of what a chat model writes: a choice's letter, or the last number.

`extract_letter` first reduces the text to plain words and round brackets, then looks for what
states a conclusion, then for what only has the shape of an answer. Each rule stands for one way of
writing and says which; none can match a letter inside a word. The time is in proportion to the
length of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """A rule ready for use; compiled late, as all rules together take longer than a short run."""
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


# --- The text without its markup -----------------------------------------------------------------

_ANSWER_TAG = re.compile(r"<(/?)(?:final[ _]?)?answer>", re.IGNORECASE)
_HTML_TAG = re.compile(r"</?(?:b|strong|i|em|u|p|br|div|span)(?: ?/)?>")
_LATEX_FONT = re.compile(
    r"\\(?:text|textbf|textit|texttt|emph|mathrm|mathbf|mathit|mathsf|rm|bf)\b ?"
)
_LATEX_DELIMITER = re.compile(r"\\[()\[\],;! ]")
_LINE_MARK = re.compile(r"^[ \t]*(?:[#>•\-]+ ?)+", re.MULTILINE)
# What means "answer" becomes one mark, so that no rule lists languages or looks past the next one.
_ANSWER_WORD = re.compile(
    r"\b(?:ans(?:wer)?(?! choices| options)"
    r"|(?:correct|right|best|final|my) (?:option|choice|letter|one)|solution"
    r"|antwort|réponse|respuesta|resposta|risposta|antwoord|svar|odpowiedź|cevap|jawaban"
    r"|đáp án|ответ)\b|答案|回答|正解|答え|정답|답|คำตอบ|उत्तर|الإجابة|الجواب",
    re.IGNORECASE,
)
_ANSWER = "\x01"
_NESTED_BRACKETS = re.compile(r"\((?: ?\()+")
_PLAIN = {
    **str.maketrans("{[<【〔}]>】〕", "(((((" + ")))))"),
    **str.maketrans("’‘。、", "''.,"),
    **dict.fromkeys(map(ord, '*`$_~"“”„«»「」『』\u200b\u200c\u200d\u2060\ufeff' + _ANSWER), None),
}
# A fullwidth sign becomes what its ASCII form becomes.
_PLAIN.update((code, _PLAIN.get(code - 0xFEE0, code - 0xFEE0)) for code in range(0xFF01, 0xFF5F))


# Thai, Lao, kana, ideographs and Hangul stand beside letters and digits without a blank: 答案是B
# and 정답은 B입니다 name the choice B. A blank before the letter and a joiner after it set it free.
_UNSPACED = r"[\u0e01-\u0e4e\u0e81-\u0ece\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_BEFORE_SEAM = rf"(?<={_UNSPACED})(?=[A-Za-z\d])"
_AFTER_SEAM = rf"(?<=[A-Za-z\d])(?={_UNSPACED})"
_JOINER = "\u2060"


def _spaced(text: str) -> str:
    if text.isascii():
        return text
    return _compiled(_AFTER_SEAM).sub(_JOINER, _compiled(_BEFORE_SEAM).sub(" ", text))


def _without_markup(text: str) -> str:
    """The text with markdown, LaTeX, quotes and doubled blanks gone, and only round brackets."""
    text = _ANSWER_TAG.sub(lambda tag: "\n" if tag[1] else "\nAnswer: ", text)
    text = _LINE_MARK.sub("", _HTML_TAG.sub("", text))
    text = _LATEX_DELIMITER.sub("", _LATEX_FONT.sub("", text))
    text = _spaced(text.translate(_PLAIN))
    lines = (" ".join(line.split()) for line in text.splitlines())
    text = _NESTED_BRACKETS.sub("(", "\n".join(line for line in lines if line))
    return _ANSWER_WORD.sub(_ANSWER, text)


# --- One letter that stands for a choice ---------------------------------------------------------

_WORD = r"[\w\u0300-\u036f]"  # what makes a neighbouring letter part of a word
_WHOLE = rf"(?!{_WORD}|['\-]{_WORD}|\.[A-Za-z]\.|[+#])"  # not B's, X-ray, U.S., C++, C#
# "a man" and "I think" are words, unless what follows speaks about the choice.
_NO_ARTICLE = r"(?:(?<![AaIi])|(?! [^\W\d_])|(?= (?:is|as|because|since|but|and|or|due|which)\b))"
# Several letters in a row name no single choice: "A, B and C", "(A) or (B)", "A/B", "A B".
_SECOND = rf"\(?(?-i:[A-HJ-Z]|(?<=[dr] )[b-hj-z])(?!{_WORD}|'|\.\w)"
_AND = r"(?:and|or|und|oder|et|ou) "
_NO_LIST = rf"(?!(?:\)? ?[,/&+] ?(?:{_AND})?|\)? {_AND}|\) ?(?=\()| (?!\()){_SECOND})"
_LETTER = rf"(?:\( ?)?'?(?<!{_WORD})(?P<letter>[A-Za-z]){_WHOLE}{_NO_ARTICLE}{_NO_LIST}"
_NO_ALTERNATIVE = r"(?!,? (?:and|or) [^\n.()]{0,60}\( ?[A-Z] ?\))"  # not "tips (A) or roots (B)"
_BRACKETED = rf"\( ?(?P<letter>[A-Z])(?= ?\){_NO_ALTERNATIVE}){_NO_LIST}"

_IS = (
    r"(?:\b(?:is|was|must be|should be|would be|will be|has to be)\b"
    r"|\b(?:ist|lautet|est|es|é|è|är|adalah|là)\b|[:=]|->|→| [-–—] |是|为|為|は|은|คือ|है|هي|هو)"
)
_BEFORE_LETTER = (
    r"\s?(?:(?:the|a|la|le|el|die|option|choice|letter|statement|lettre|letra|lettera"
    r"|clearly|definitely|probably|likely|most likely|therefore|thus|also|indeed|simply):? ){0,3}"
)
_FILLER = rf"[^\n.:={_ANSWER}]{{0,60}}?"


# What states a conclusion; the last of all these decides.
_CONCLUSIONS = (
    # \boxed{B}, \boxed{\text{(B) Paris}}
    (rf"\\f?box(?:ed)? ?\( ?{_LETTER}"),
    # Answer: B / the correct answer is most likely (B) / 答案是B
    (_ANSWER + _FILLER + _IS + _BEFORE_LETTER + _LETTER),
    # A: B
    (rf"^A: {_LETTER}[).]*$"),
    # The answer is shoot tips (B).
    (
        rf"{_ANSWER}(?={_FILLER}{_IS})(?:(?!\bnot\b|n't)(?:[^\n.(){_ANSWER}]|\.(?=\d))){{1,120}}"
        + _BRACKETED
    ),
    # B is correct / option (B) is the right answer
    (
        rf"(?<!['\-]){_LETTER} ?\)?,? (?:is|must be|seems|looks)"
        r"(?: clearly| probably| most likely)?(?: the)?(?: most| only)?"
        rf" (?:correct\b|right\b|best {_ANSWER}|{_ANSWER})"
    ),
    # I choose B / I would go with option B / 选B
    (
        rf"(?:\b(?:choose|chose|pick|select|go with|going with|opt for)\b|[选選][择擇]?)"
        rf"{_BEFORE_LETTER}{_LETTER}"
    ),
    # I think it's D. / it must be (D) / my guess is D
    (
        r"\b(?:(?:think|believe|guess|say)(?: that| is)?(?: it's| it is)?"
        rf"|it's|it is|it must be|that's)\b:?{_BEFORE_LETTER}{_LETTER}"
    ),
    # Therefore, B.
    (rf"\b(?:therefore|thus|hence|so|conclusion)\b[,:]?{_BEFORE_LETTER}{_LETTER}\)?[.!]?$"),
)
# A line that is nothing but a letter; all such lines must agree.
_LONE_LINES = ((rf"^{_LETTER} ?\)?'?[.:!]?$"),)
# What has the shape of an answer; where these disagree the model was listing, not answering.
_SHAPES = (
    # B) Paris / (B) Paris / B. Paris / B: Paris / B - Paris
    (rf"^{_LETTER} ?(?:[).:]| [-–—] )"),
    # B, because ...
    (rf"^{_LETTER},? (?:because|since)\b"),
    # option B / Choice: B
    (rf"(?:\b(?:option|choice|letter)|{_ANSWER}):? {_LETTER}"),
    # Shoot tips (B). - as the last words
    (rf"^(?!.*(?:\bnot\b|n't))[^()\n]*{_BRACKETED} ?\)[.!]?\Z"),
)
# Words before a match that deny it or only suppose it: "the wrong answer is", "if you choose",
# "I don't think it's", "one might say the answer is".
_NOT_MEANT = (
    r"(?:(?:n't|\b(?:not|never|cannot|wrong|incorrect|rather than|instead of))"
    r"(?: think| believe| say)?"
    r"|\b(?:if|whether|why|suppose|assume|assuming|unless)(?: you| one| we| i)?"
    r"|\b(?:might|may|could)(?: think| say| believe| argue)?)"
    r"(?: that)?(?: the)?(?: correct| right)? $"
)


def _found(rules: tuple[str, ...], text: str, allowed: str) -> list[str]:
    """The letters that any of the rules finds, in the order of the text."""
    found = []
    for rule in rules:
        for match in _compiled(rule).finditer(text):
            letter = match["letter"].upper()
            if letter in allowed and not _is_denied(text, match.start()):
                found.append((match.start("letter"), letter))
    return [letter for _, letter in sorted(found)]


def _is_denied(text: str, position: int) -> bool:
    before = text[max(0, position - 40) : position]
    return before.endswith(" ") and _compiled(_NOT_MEANT).search(before) is not None


def extract_letter(text: str, allowed: str | None = None) -> str | None:
    """The letter of the choice that a text concludes with, or None where it names no single one.

    The last stated conclusion wins ("Answer: A. No, wait. Answer: C" gives "C"). Without one, a
    letter that stands alone on a line, begins the text as a label or closes it in brackets counts,
    provided that the text holds no other in that shape. "A" as an article, "I" as a pronoun and
    lists such as "A, B and C" are no answers.

    Args:
      text: what the model wrote.
      allowed: the letters that name choices, such as "ABCD"; None allows A to Z.

    Returns:
      One upper-case letter, or None: no answer, which is not the same as a wrong one.
    """
    allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if allowed is None else allowed.upper()
    plain = _without_markup(text)
    if stated := _found(_CONCLUSIONS, plain, allowed):
        return stated[-1]
    for rules in (_LONE_LINES, _SHAPES):
        if letters := set(_found(rules, plain, allowed)):
            return letters.pop() if len(letters) == 1 else None
    return None


# --- The last number -----------------------------------------------------------------------------

# A minus after a word, bracket, percent or currency sign is a dash or a subtraction, no sign.
_NUMBER = re.compile(
    rf"(?<!{_WORD})(?:(?<![)\]%.$\-\u2212])(?P<sign>[-+\u2212]))?"
    r"(?:[$€£¥₹] ?(?P<late_sign>[-+\u2212])?)?"
    r"(?=\.?\d)(?P<whole>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?)"
    rf"(?:\.(?P<fraction>\d+))?(?:[eE](?P<exponent>[-+]?\d{{1,4}})(?!{_WORD}))?"
)
_LATEX_THOUSANDS = re.compile(r"\{,\}|\\[,!](?=\d)")
_NUMBER_EDGES = " \t\r\n\"'()[]{}*`_=:"


def extract_number(text: str) -> str | None:
    """The last number in a text as plain digits, or None where there is no number.

    Thousands separators, a currency sign, a plus sign, units, a full stop at the end, leading zeros
    and zeros that end a decimal part are dropped: "A: 1,234", "$1,234.00." and "+1234 eggs" all
    give "1234". Digits of any script become ASCII. Digits inside a word ("B12") are no number;
    fractions are not worked out ("1/2" gives "2").
    """
    last = None
    for match in _NUMBER.finditer(_LATEX_THOUSANDS.sub(",", _spaced(text))):
        last = match
    return None if last is None else _plain_number(last)


def number_value(text: str) -> Decimal | None:
    """The exact value of a text that is one number, None for any other text.

    Brackets, quotes and markup around the number, a currency or percent sign and closing
    punctuation do not count; "50%" is 50. Thousands separators must stand before groups of three.
    """
    core = text.lstrip(_NUMBER_EDGES).rstrip(_NUMBER_EDGES + ".,;!?%$€£¥₹")
    match = _NUMBER.fullmatch(core)
    return None if match is None else Decimal(_plain_number(match))


def _plain_number(match: re.Match[str]) -> str:
    whole = _ascii_digits(match["whole"].replace(",", "")).lstrip("0") or "0"
    fraction = _ascii_digits(match["fraction"] or "").rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    minus = {match["sign"], match["late_sign"]} & {"-", "\u2212"} and number != "0"
    exponent = "e" + _ascii_digits(match["exponent"]) if match["exponent"] else ""
    return f"{'-' if minus else ''}{number}{exponent}"


def _ascii_digits(digits: str) -> str:
    if digits.isascii():
        return digits
    return "".join(str(int(digit)) if digit.isdecimal() else digit for digit in digits)


# --- The extractions by name ---------------------------------------------------------------------

ANSWER_EXTRACTIONS: Mapping[str, Callable[[str], str | None]] = {
    "letter": extract_letter,
    "number": extract_number,
}
"""What a task may name in `answer_extraction`: from the text to the answer, None for no answer."""


def unreachable_targets(
    extraction: str,
    metric: Callable[[str, Sequence[str], Mapping[str, object]], float],
    targets: Sequence[str],
    extras: Mapping[str, object],
) -> str | None:
    """Why no extracted answer can reach the full score of 1, or None when one can.

    An extraction changes what it finds ("1,234" becomes "1234"), so that a target which is not
    written as the extraction writes would make every answer wrong.

    Args:
      extraction: a name in `ANSWER_EXTRACTIONS`.
      metric: the function of a metric of the kind "example".
      targets: the row's targets.
      extras: the row's extras.
    """
    answers = [ANSWER_EXTRACTIONS[extraction](target) for target in targets]
    if any(answer is not None and metric(answer, targets, extras) == 1 for answer in answers):
        return None
    return (
        f"the answer extraction {extraction!r} takes {answers!r} from the targets "
        f"{list(targets)!r}, which the metric does not count as right"
    )
