# SPDX-License-Identifier: Apache-2.0
"""One row of a JSONL task, and the reading and checking of such files."""

from __future__ import annotations

import difflib
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, cast

import attrs

from lmeval.api import strict_json
from lmeval.api.errors import TaskFileError

ROW_KEYS = ("id", "prompt", "targets", "metric", "extras")
NO_EXTRAS: Mapping[str, Any] = MappingProxyType({})

_KNOWN_KEYS = frozenset(ROW_KEYS)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@attrs.frozen
class Example:
    """One question with its accepted answers."""

    id: str
    """Unique within the task."""
    prompt: str
    """What the model is asked, before any prefix or shot is added."""
    targets: tuple[str, ...]
    """The accepted answers; at least one, none blank."""
    metric: str
    """The name of the metric that scores the answer."""
    extras: Mapping[str, Any] = NO_EXTRAS
    """What the metric needs beyond the targets; `cluster` names a group of dependent rows."""
    line: int = 0
    """The line of the file that it was read from, counted from 1; 0 if it came from no file."""


def read_examples(
    path: str | os.PathLike[str], default_metric: str | None = None, unnamed: str = "row"
) -> Iterator[Example]:
    r"""Read a task file row by row, checking each.

    Only LF and CRLF end a line. Blank lines and lines that begin with `#` are skipped; a byte-order
    mark is allowed; a name in `.gz` is unpacked.

    Args:
      path: the file.
      default_metric: the metric of rows that name none.
      unnamed: rows without an id are called `unnamed`-1, `unnamed`-2 and so on, by position.

    Yields:
      The examples in the file's order; nothing but the seen ids and the current row is kept.

    Raises:
      TaskFileError: the file cannot be read, or a row is not as it must be.
    """
    ids: dict[str, int] = {}
    metric = default_metric
    for line, text in read_lines(path):
        example = parse_row(path, line, text, f"{unnamed}-{len(ids) + 1}", metric)
        if example.id in ids:
            raise TaskFileError(
                path,
                f"the id {example.id!r} stands in line {ids[example.id]} already; "
                "ids must be unique.",
                line,
            )
        if metric is not None and example.metric != metric:
            raise TaskFileError(
                path,
                f"metric {example.metric!r} after {metric!r}; all rows of a file share one metric.",
                line,
            )
        metric = example.metric
        ids[example.id] = line
        yield example


def read_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """The lines of a JSON Lines file but for blanks and comments, each with its number from 1.

    Raises:
      TaskFileError: the file cannot be read, unpacked or decoded.
    """
    number = 0
    try:
        with _open_bytes(path) as file:
            for number, raw in enumerate(file, 1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                raw = raw.rstrip(b" \t\r\n")
                if raw and not raw.lstrip(b" \t").startswith(b"#"):
                    yield number, _decode(path, number, raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TaskFileError(path, f"the gzip data is damaged ({error}).", number + 1) from None
    except OSError as error:
        raise TaskFileError(path, f"cannot be read: {error.strerror or error}.") from None


def _open_bytes(path: str | os.PathLike[str]) -> IO[bytes]:
    if Path(path).suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return open(path, "rb")


def _decode(path: str | os.PathLike[str], line: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode(errors="replace")) + 1
        raise TaskFileError(
            path,
            f"the byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8.",
            line,
            column,
        ) from None


def parse_object(path: str | os.PathLike[str], line: int, text: str) -> dict[str, Any]:
    """The JSON object that is `text`, the line `line` of a JSON Lines file.

    Raises:
      TaskFileError: it is anything else.
    """
    try:
        row = strict_json.parse(text)
    except strict_json.JsonFault as fault:
        raise TaskFileError(path, _row_reason(text, fault), line, _column(fault)) from None
    if not isinstance(row, dict):
        found = "an array" if isinstance(row, list) else _described(row)
        raise TaskFileError(path, f"one JSON object per line expected, found {found}.", line, 1)
    return row


def _column(fault: strict_json.JsonFault) -> int | None:
    return None if fault.index is None else fault.index + 1


def _row_reason(text: str, fault: strict_json.JsonFault) -> str:
    if text.lstrip()[:1] in ("[", "{") and fault.index is not None and fault.index >= len(text):
        kind = "array" if text.lstrip()[0] == "[" else "object"
        return f"one JSON object per line expected; this {kind} does not end on its line."
    return f"{fault.reason}."


def parse_row(
    path: str | os.PathLike[str],
    line: int,
    text: str,
    default_id: str = "row-1",
    default_metric: str | None = None,
) -> Example:
    """Make an Example of one line of a task file.

    Args:
      path: the file, for error messages.
      line: the physical line, from 1.
      text: the line.
      default_id: the id of a row that states none.
      default_metric: the metric of a row that names none.

    Raises:
      TaskFileError: the row is not as it must be.
    """
    row = parse_object(path, line, text)
    if not _KNOWN_KEYS.issuperset(row):
        unknown = next(key for key in row if key not in _KNOWN_KEYS)
        raise TaskFileError(path, _unknown_key(unknown), line, _column_of(text, unknown))
    try:
        return Example(
            id=_row_id(row, default_id),
            prompt=_prompt(row),
            targets=_targets(row),
            metric=_metric(row, default_metric),
            extras=_extras(row),
            line=line,
        )
    except _RowFault as fault:
        raise TaskFileError(path, str(fault), line, _column_of(text, fault.key)) from None


class _RowFault(ValueError):
    """What is wrong with a row, and with which of its keys; `parse_row` adds the place."""

    def __init__(self, reason: str, key: str) -> None:
        super().__init__(reason)
        self.key = key


def _column_of(text: str, key: str) -> int | None:
    """Where the row's own key stands in its line; None if it doesn't."""
    found = re.search(rf'[{{,]\s*("{re.escape(key)}"\s*:)', text)
    return found.start(1) + 1 if found else None


def _unknown_key(key: str) -> str:
    close = difflib.get_close_matches(key, ROW_KEYS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "put what the metric needs under 'extras'."
    return f"unknown key {key!r}; {hint}"


def _described(value: object) -> str:
    """A JSON value as the file has it, shortened."""
    shown = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _row_id(row: dict[str, Any], default_id: str) -> str:
    value = row.get("id")
    if value is None and "id" not in row:
        return default_id
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise _RowFault(f"'id' must be a string or an integer, found {_described(value)}.", "id")
    return str(value)


def _prompt(row: dict[str, Any]) -> str:
    value = row.get("prompt")
    if not isinstance(value, str):
        found = _described(value) if "prompt" in row else "nothing"
        raise _RowFault(f"'prompt' must be a string, found {found}.", "prompt")
    return value


def _targets(row: dict[str, Any]) -> tuple[str, ...]:
    value = row.get("targets")
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        found = _described(value) if "targets" in row else "nothing"
        raise _RowFault(
            f"'targets' must be a list of at least one string, found {found}.", "targets"
        )
    for target in value:
        if not isinstance(target, str):
            raise _RowFault(
                f"every target must be a string, found {_described(target)}.", "targets"
            )
        if not target or target.isspace():
            raise _RowFault(
                "a target is blank, so that a silent model would be right; give text.", "targets"
            )
    return tuple(value)


def _metric(row: dict[str, Any], default_metric: str | None) -> str:
    value = row.get("metric", default_metric)
    if not isinstance(value, str) or not value:
        found = _described(value) if "metric" in row else "nothing"
        raise _RowFault(f"'metric' must be the name of a metric, found {found}.", "metric")
    return value


def _extras(row: dict[str, Any]) -> Mapping[str, Any]:
    value = row.get("extras")
    if value is None and "extras" not in row:
        return NO_EXTRAS
    if not isinstance(value, dict):
        raise _RowFault(f"'extras' must be an object, found {_described(value)}.", "extras")
    return value
