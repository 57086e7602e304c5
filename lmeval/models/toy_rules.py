# SPDX-License-Identifier: Apache-2.0
"""How the toy model finds its answers.

It looks for the last command in the prompt and follows it:

  `compute: EXPRESSION`
      whole numbers, `+ - * /` and brackets; answers with the value.
  `summarize: PASSAGE`
      answers with the first sentence.
  `choose A, B, C or D: QUESTION` and one line `A) OPTION` for each option
      compares the options (see `CHOICE_RULES`); answers with the letter.
  `python: write a function f that PHRASE`
      looks the phrase up in `PYTHON_RULES`; answers with one line of Python.
  `write: a sentence with THING`
      works the thing out (see `WRITING_RULES`); answers with a sentence that holds it.
  `edit: INSTRUCTION: SENTENCE`
      answers with the sentence edited (see `EDITING_RULES`).

A query ends with its line (with its options for `choose`); an answer prefix such as `A:` at its end
is dropped. So solved examples, prefixes before the query and lines after it change nothing. To all
else the answer is `UNKNOWN`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

RULES_VERSION = 1
"""Goes into the model's fingerprint; to be raised with every change of a rule, so that stored
answers of older rules are not used again."""

UNKNOWN = "I do not know."
"""The answer to everything that no rule covers."""

_COMMAND = re.compile(
    r"\b(compute|summarize|choose A, B, C or D|python|write|edit):", re.IGNORECASE
)
_ANSWER_PREFIX = re.compile(r"\w+:")
_OPTION_LINE = re.compile(r"^[ \t]*([A-D])\)(.*)$", re.MULTILINE)
_EXPRESSION = re.compile(r"[0-9+\-*/() ]{1,200}")
_LONGEST_QUERY = 10_000  # characters; some rules take time in proportion to the square
_FIRST_SENTENCE = re.compile(r".*?[.!?](?=\s|$)")


def answer_by_rule(prompt: str) -> str:
    """What the toy writes after `prompt`; `UNKNOWN` where no rule fits."""
    commands = list(_COMMAND.finditer(prompt))
    if not commands:
        return UNKNOWN
    command, query = commands[-1].group(1).lower(), prompt[commands[-1].end() :]
    if command.startswith("choose"):
        return _choose(query[:_LONGEST_QUERY]) or UNKNOWN
    line = _without_answer_prefix(query.split("\n", 1)[0].strip())
    return (len(line) <= _LONGEST_QUERY and _LINE_RULES[command](line)) or UNKNOWN


def _without_answer_prefix(line: str) -> str:
    parts = line.rsplit(None, 1)
    return parts[0] if len(parts) == 2 and _ANSWER_PREFIX.fullmatch(parts[1]) else line


def _compute(expression: str) -> str | None:
    if not _EXPRESSION.fullmatch(expression):
        return None
    try:
        value = _value_of(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return None
    return str(value)


_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _value_of(node: ast.expr) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return Fraction(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value_of(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value_of(node.left), _value_of(node.right))
    raise ValueError("no arithmetic on whole numbers")


def _summarize(passage: str) -> str | None:
    sentence = _FIRST_SENTENCE.match(passage)
    return sentence.group() if sentence else None


def _choose(query: str) -> str | None:
    question, _, below = query.partition("\n")
    options: dict[str, str] = {
        option.strip(): letter for letter, option in _OPTION_LINE.findall(below)
    }
    for pattern, pick in CHOICE_RULES:
        found = re.search(pattern, question)
        if found and options:
            try:
                picked: str = pick(list(options), *found.groups())
                return options[picked]
            except (ValueError, ZeroDivisionError, StopIteration):  # no numbers; none that fits
                return None
    return None


def _only(fits: Callable[[str], bool], options: Sequence[str]) -> str:
    return next(option for option in options if fits(option))


_Rules = Sequence[tuple[str, Callable[..., str]]]

CHOICE_RULES: _Rules = (
    (r"number is the largest", lambda options: max(options, key=int)),
    (r"number is the smallest", lambda options: min(options, key=int)),
    (r"number is even", lambda options: _only(lambda o: int(o) % 2 == 0, options)),
    (r"number is odd", lambda options: _only(lambda o: int(o) % 2 == 1, options)),
    (
        r"number can be divided by (\d+)",
        lambda options, by: _only(lambda o: int(o) % int(by) == 0, options),
    ),
    (r"number equals (.+)\?", lambda options, sum_: _only(lambda o: o == _compute(sum_), options)),
    (r"word has the most letters", lambda options: max(options, key=len)),
    (r"word has the fewest letters", lambda options: min(options, key=len)),
    (r"word comes first in the alphabet", lambda options: min(options, key=str.lower)),
    (r"word comes last in the alphabet", lambda options: max(options, key=str.lower)),
    (
        r"word contains the letters? '(\w+)'",
        lambda options, part: _only(lambda o: part in o.lower(), options),
    ),
    (
        r"word ends with the letters? '(\w+)'",
        lambda options, end: _only(lambda o: o.lower().endswith(end), options),
    ),
    (
        r"word is '(\w+)' spelt backwards",
        lambda options, word: _only(lambda o: o == word[::-1], options),
    ),
    (
        r"word reads the same backwards",
        lambda options: _only(lambda o: o.lower() == o.lower()[::-1], options),
    ),
)
"""What a question asks, and which of the options answers it."""


PYTHON_RULES: Mapping[str, str] = {
    r"doubles its input": "2 * x",
    r"triples its input": "3 * x",
    r"halves its input": "x / 2",
    r"squares its input": "x * x",
    r"cubes its input": "x * x * x",
    r"negates its input": "-x",
    r"adds (\d+) to its input": "x + {0}",
    r"subtracts (\d+) from its input": "x - {0}",
    r"multiplies its input by (\d+)": "x * {0}",
    r"returns the absolute value of its input": "abs(x)",
    r"returns the remainder of its input divided by (\d+)": "x % {0}",
    r"returns True if its input is even and False otherwise": "x % 2 == 0",
    r"returns True if its input is greater than (\d+) and False otherwise": "x > {0}",
    r"returns the factorial of its input": "1 if x < 2 else x * f(x - 1)",
    r"returns the sum of the digits of its input": "sum(map(int, str(x)))",
    r"turns degrees Celsius into degrees Fahrenheit": "x * 9 / 5 + 32",
    r"returns the length of its input": "len(x)",
    r"returns its input in upper case": "x.upper()",
    r"reverses its input": "x[::-1]",
    r"returns the number of words in its input": "len(x.split())",
    r"returns the number of vowels in its input": "sum(c in 'aeiou' for c in x.lower())",
    r"returns True if its input is a palindrome and False otherwise": "x == x[::-1]",
    r"repeats its input (\d+) times": "x * {0}",
    r"returns the first (\d+) characters of its input": "x[:{0}]",
    r"returns the sum of a list of numbers": "sum(x)",
    r"returns the largest number in a list": "max(x)",
    r"returns a list in ascending order": "sorted(x)",
    r"returns the last item of a list": "x[-1]",
    r"keeps only the even numbers of a list": "[n for n in x if n % 2 == 0]",
    r"removes duplicates from a list and keeps the order": "list(dict.fromkeys(x))",
}
"""What a function is to do, and the expression in `x` that does it; {0} is the phrase's number."""


def _program(request: str) -> str | None:
    wanted = re.fullmatch(r"write a function f that (.+?)\.?", request)
    if wanted is None:
        return None
    for phrase, expression in PYTHON_RULES.items():
        found = re.fullmatch(phrase, wanted.group(1))
        if found:
            return f"def f(x): return {expression.format(*found.groups())}"
    return None


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)


def _neighbour(direction: str, name: str) -> str:
    step = 1 if direction == "after" else -1
    cycle = _DAYS if name in _DAYS else _MONTHS
    return cycle[(cycle.index(name) + step) % len(cycle)]


def _total(first: str, second: str) -> str:
    return str(_NUMBER_WORDS.index(first) + _NUMBER_WORDS.index(second))


def _plural(word: str) -> str:
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def _past_tense(verb: str) -> str:
    return verb + ("d" if verb.endswith("e") else "ed")


WRITING_RULES: _Rules = (
    (r"the (?:day|month) (after|before) (\w+)", _neighbour),
    (r"the sum of (\w+) and (\w+) in digits", _total),
    (r"the plural of '(\w+)'", _plural),
    (r"the past tense of '(\w+)'", _past_tense),
    (r"the word '(\w+)' spelt backwards", lambda word: word[::-1]),
    (r"the word '(\w+)' with '(\w+)' in front", lambda word, prefix: prefix + word),
)
"""What a sentence is to hold, and how to work it out."""


def _write(request: str) -> str | None:
    for pattern, work_out in WRITING_RULES:
        found = re.search(pattern, request)
        if found:
            try:
                return f"Here it is: {work_out(*found.groups())}."
            except ValueError:  # a day, month or number that is none
                return None
    return None


def _swap(first: str, second: str, sentence: str) -> str:
    other = {first: second, second: first}
    pattern = rf"\b({re.escape(first)}|{re.escape(second)})\b"
    return re.sub(pattern, lambda found: other[found.group()], sentence)


EDITING_RULES: _Rules = (
    (r'replace "(.+?)" by "(.+?)": (.+)', lambda old, new, text: text.replace(old, new)),
    (r'leave out "(.+?)": (.+)', lambda part, text: " ".join(text.replace(part, "").split())),
    (r'swap "(.+?)" and "(.+?)": (.+)', _swap),
    (
        r'put "(.+?)" before "(.+?)": (.+)',
        lambda new, mark, text: text.replace(mark, f"{new} {mark}", 1),
    ),
)
"""How a sentence is to be edited, and the editing."""


def _edit(request: str) -> str | None:
    for pattern, edit in EDITING_RULES:
        found = re.fullmatch(pattern, request)
        if found:
            return edit(*found.groups())
    return None


_LINE_RULES: Mapping[str, Callable[[str], str | None]] = {
    "compute": _compute,
    "summarize": _summarize,
    "python": _program,
    "write": _write,
    "edit": _edit,
}
