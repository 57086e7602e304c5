# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of given text out of a completions reply with `echo` and `logprobs`.

The server sends its tokens, not where they lie in the text that was asked about. They are laid
along the text by their bytes, or by the offsets that the server states where that fails (some
servers send no bytes for tokens that are parts of a character). Nothing is scored that does not
line up.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from lmeval.models.faults import RefusedRequest

_ESCAPED_BYTES = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class NoNumberAtBeginning(RefusedRequest):
    """The part to be scored holds the first token of a text, for which there is no number."""


@attrs.frozen
class TokenScore:
    """A token of a reply and its log-probability given everything before it."""

    text: bytes
    """The token's UTF-8 bytes, as far as the server states them."""
    log_prob: float | None
    """None where the server gives none: nothing stands before the first token of a text."""
    offset: int | None = None
    """The character of the text at which the token begins, or None."""


def token_scores(logprobs: Any) -> list[TokenScore]:
    """The tokens in a choice's `logprobs`, in either of the two shapes in use.

    Completions send parallel lists (`tokens`, `token_logprobs`, `text_offset`), chat sends a list
    of objects under `content`; some servers send one where the other is due.

    Raises:
      RefusedRequest: there are none, or they have neither shape.
    """
    if not isinstance(logprobs, Mapping):
        raise RefusedRequest("the server's reply holds no log-probabilities")
    entries = logprobs.get("content")
    tokens: list[tuple[Any, Any, int | None, Any]]
    if isinstance(entries, list) and all(isinstance(entry, Mapping) for entry in entries):
        tokens = [(e.get("token"), e.get("logprob"), None, e.get("bytes")) for e in entries]
    else:
        tokens = _from_parallel_lists(logprobs)
    return [
        TokenScore(_token_bytes(token, stated), _number(value), offset)
        for token, value, offset, stated in tokens
    ]


def target_log_prob(tokens: Sequence[TokenScore], text: str, boundary: int) -> tuple[float, int]:
    """The log-probability of the end of a text.

    Tokens that begin at or after the end of the text are the model's own and do not count; a token
    that spans the boundary counts in full.

    Args:
      tokens: the reply's tokens for `text`.
      text: what was asked about.
      boundary: the character at which the part to be scored begins.

    Returns:
      The natural logarithm, and the number of tokens that it is the sum over.

    Raises:
      NoNumberAtBeginning: a token to be counted has no number.
      RefusedRequest: the tokens do not line up with the text.
    """
    if tokens and tokens[0].log_prob is None and not tokens[0].text:
        tokens = tokens[1:]  # a start token that the server shows as nothing
    spans = _spans_by_bytes(tokens, text)
    cut, end = len(_utf8(text[:boundary])), len(_utf8(text))
    if spans is None:
        spans = _spans_by_offsets(tokens, text)
        cut, end = boundary, len(text)
    if spans is None:
        raise RefusedRequest("the server's tokens do not line up with the text that it was given")
    values = [
        token.log_prob
        for token, (first, last) in zip(tokens, spans, strict=True)
        if first < end and (last > cut or first >= cut)
    ]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        raise NoNumberAtBeginning(
            "the server gives no log-probability for the first token of a text, so that nothing "
            "can be scored without a context (start_text can hold the model's start token)"
        )
    return math.fsum(known), len(known)


def spells(tokens: Sequence[TokenScore], text: str) -> bool:
    """Whether `tokens` line up with `text`."""
    return bool(_spans_by_bytes(tokens, text) or _spans_by_offsets(tokens, text))


def context_end(context: str) -> int:
    """Where the part to be scored begins: spaces at the end of a context go with the target.

    Tokenizers put a space before a word into the word's token, so that "A: " and "B" are cut as
    "A:" and " B". A context of nothing but spaces stays as it is.
    """
    return len(context.rstrip()) or len(context)


def _utf8(text: str) -> bytes:
    return text.encode(errors="replace")  # a lone surrogate, which no server gives back as it was


def _spans_by_bytes(tokens: Sequence[TokenScore], text: str) -> list[tuple[int, int]] | None:
    """Where each token begins and ends in the UTF-8 bytes of `text`, if their bytes spell it.

    A start token before the text is laid before its beginning, and so is the space that some
    tokenizers put there.
    """
    spelled = b"".join(token.text for token in tokens)
    for before in (b"", tokens[0].text if tokens else b"", b" "):
        if spelled.startswith(before + _utf8(text)):
            ends = list(itertools.accumulate(len(token.text) for token in tokens))
            starts = [0, *ends[:-1]]
            return [(a - len(before), b - len(before)) for a, b in zip(starts, ends, strict=True)]
    return None


def _spans_by_offsets(tokens: Sequence[TokenScore], text: str) -> list[tuple[int, int]] | None:
    """Where each token begins and ends in the characters of `text`, if the offsets fit it."""
    starts = [token.offset for token in tokens if token.offset is not None]
    if not starts or len(starts) < len(tokens) or starts[0] != 0 or sorted(starts) != starts:
        return None
    words = [token.text.decode(errors="replace") for token in tokens]
    for start, word in zip(starts, words, strict=True):
        rest = text[start : start + len(word)]
        if _REPLACEMENT not in word and not word.startswith(rest):
            return None
    reaches_end = _REPLACEMENT not in words[-1] and starts[-1] + len(words[-1]) == len(text)
    if len(text) not in starts and not reaches_end:
        return None  # tokens may be missing at the end
    return list(zip(starts, [*starts[1:], starts[-1] + len(words[-1])], strict=True))


def _from_parallel_lists(logprobs: Mapping[str, Any]) -> list[tuple[Any, Any, int | None, Any]]:
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or len(tokens) != len(values):
        raise RefusedRequest("the server's log-probabilities have neither of the two known shapes")
    offsets = logprobs.get("text_offset")
    if not isinstance(offsets, list) or len(offsets) != len(tokens):
        offsets = [None] * len(tokens)
    places = [one if isinstance(one, int) else None for one in offsets]
    return [
        (token, value, place, None)
        for token, value, place in zip(tokens, values, places, strict=True)
    ]


def _token_bytes(token: Any, stated: Any) -> bytes:
    if isinstance(stated, list) and all(isinstance(b, int) and 0 <= b < 256 for b in stated):
        return bytes(stated)
    if not isinstance(token, str):
        raise RefusedRequest(f"the server gave {token!r:.60} where a token is due")
    escaped = _ESCAPED_BYTES.fullmatch(token)
    if escaped:
        return bytes.fromhex(escaped[1].replace("\\x", ""))
    return _utf8(token)


def _number(value: Any) -> float | None:
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not value < 1:  # NaN too; the room above 0 is for rounding
        raise RefusedRequest(f"the server gave {value!r:.60} where a log-probability is due")
    return float(value) if value > -sys.float_info.max else -math.inf
