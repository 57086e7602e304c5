# SPDX-License-Identifier: Apache-2.0
"""JSON as the standard has it: no duplicate keys, no NaN or Infinity, only real Unicode text.

`parse` finds faults that Python's `json` lets through and says where they are; `dump_bytes` writes
only what every parser reads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class JsonFault(ValueError):
    """Text that is no strict JSON.

    Attributes:
      reason: what was found and what was expected, without the place.
      index: the character where it was found, from 0; None when unknown.
    """

    def __init__(self, reason: str, index: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.index = index

    def line_and_column(self, text: str) -> tuple[int | None, int | None]:
        """The fault's line and column in `text`, both from 1."""
        if self.index is None:
            return None, None
        line_start = text.rfind("\n", 0, self.index) + 1
        return text.count("\n", 0, self.index) + 1, self.index - line_start + 1


class Refused(ValueError):
    """Raised by `DECODER` on what strict JSON has not; its hooks don't know where they are."""


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Refused
    return made


def _refuse_constant(name: str) -> float:
    raise Refused(name)


def _finite_float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise Refused(literal)
    return value


DECODER = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates,
    parse_constant=_refuse_constant,
    parse_float=_finite_float,
)
"""Decodes strict JSON, but does not say where a fault is, nor look for lone surrogates."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def parse(text: str, *, lone_surrogates: bool = False) -> Any:
    """Decode `text`.

    Args:
      text: a JSON value.
      lone_surrogates: whether to let half surrogate pairs through, as a model may write them.

    Raises:
      JsonFault: it is no JSON, or JSON with a duplicate key, a number that is not finite, a lone
        surrogate, more nesting than Python can follow or an integer of thousands of digits.
    """
    try:
        value = DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise _syntax_fault(text, error) from None
    except Refused as refused:
        raise _refused_fault(text, str(refused)) from None
    except RecursionError:
        raise JsonFault("values are nested too deeply", None) from None
    except ValueError:
        raise JsonFault("an integer has too many digits", None) from None
    if "\\u" in text and not lone_surrogates:
        _refuse_lone_surrogates(text, value)
    return value


def _syntax_fault(text: str, error: json.JSONDecodeError) -> JsonFault:
    before = text[: error.pos].rstrip()
    if text[error.pos : error.pos + 1] in ("}", "]") and before.endswith(","):
        return JsonFault("trailing comma: nothing may stand after the last comma", len(before) - 1)
    if error.msg.startswith("Illegal trailing comma"):
        return JsonFault("trailing comma: nothing may stand after the last comma", error.pos)
    if error.msg == "Extra data":
        return JsonFault("text after the end of the JSON value", error.pos)
    found = repr(text[error.pos : error.pos + 1]) if error.pos < len(text) else "the end"
    return JsonFault(
        f"no valid JSON: {error.msg[0].lower()}{error.msg[1:]}, found {found}", error.pos
    )


def _refused_fault(text: str, literal: str) -> JsonFault:
    if literal:
        index = next((at for at, token in _tokens(text) if token.lstrip("-") == literal), None)
        if index is None:
            index = next((at for at, token in _tokens(text) if token == literal), None)
        return JsonFault(f"{literal} is no finite number, and JSON has none that is not", index)
    key, index = _second_key(text)
    return JsonFault(f"the key {key} stands twice in one object", index)


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    for found in _TOKEN.finditer(text):
        yield found.start(), found.group()


def _second_key(text: str) -> tuple[str, int | None]:
    """The first key that stands twice in one object, and where it stands again."""
    open_objects: list[set[str] | None] = []
    previous, previous_at = "", 0
    for at, token in _tokens(text):
        if token == "{":
            open_objects.append(set())
        elif token == "[":
            open_objects.append(None)
        elif token in ("}", "]"):
            open_objects.pop()
        elif token == ":" and open_objects and (keys := open_objects[-1]) is not None:
            key = json.loads(previous)
            if key in keys:
                return previous, previous_at
            keys.add(key)
        previous, previous_at = token, at
    return "(unknown)", None


def _refuse_lone_surrogates(text: str, value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        index = text.lower().find(escape)
        raise JsonFault(
            f"{escape} is half a surrogate pair, so the text is no Unicode",
            index if index >= 0 else None,
        ) from None


def dumps(value: Any) -> str:
    """`value` as strict JSON on one line; keys keep their order, text stays readable.

    Raises:
      ValueError: a number is not finite.
      TypeError: something is no JSON value.
    """
    return _ENCODER.encode(value)


def encode_text(text: str) -> bytes:
    """JSON text as UTF-8; a lone surrogate, which UTF-8 cannot hold, becomes its JSON escape."""
    return text.encode("utf-8", "backslashreplace")


def dump_bytes(value: Any, indent: int | None = None) -> bytes:
    """`value` as strict JSON in UTF-8, on one line unless indented; raises as `dumps` does."""
    if indent is None:
        return encode_text(dumps(value))
    return encode_text(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent))
