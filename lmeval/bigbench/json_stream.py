# SPDX-License-Identifier: Apache-2.0
"""Reading a task.json front to back, with one example in memory at a time.

The largest task files hold tens of thousands of examples of which a run may need thirty. What is
kept of an example is where it stands; `read_at` reads it again.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import attrs

from lmeval.api.errors import TaskFileError
from lmeval.api.strict_json import DECODER

EXAMPLES = "examples"
LIST_BEGINS = object()
"""What `read_members` gives before the first example."""

_CHUNK = 1 << 16  # bytes
_ENDS_VALUE = frozenset(",:]} \t\n\r")
_BLANKS = re.compile(r"[ \t\n\r]*")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@attrs.frozen
class Place:
    """Where a value stands in a file, in bytes."""

    start: int
    length: int


def read_members(path: Path) -> Iterator[tuple[str, Any, Place]]:
    """Read the members of the one object that is a whole task.json.

    The member "examples" is given piece by piece: `LIST_BEGINS`, then each element of its list. All
    others are given whole. A key of this object may stand twice, as it does in one of BIG-bench's
    files; a key of a deeper object may not.

    Yields:
      Key, value, and where the value stands in the file.

    Raises:
      TaskFileError: the file cannot be read, is no strict JSON, or is no object; with line and
        column. What came before the fault has been given by then.
    """
    try:
        with path.open("rb") as file:
            yield from _Reader(path, file).members()
    except OSError as error:
        raise TaskFileError(path, f"cannot be read: {error.strerror or error}.") from None


def read_at(file: IO[bytes], place: Place) -> Any:
    """Read a value again.

    Args:
      file: the file from which `read_members` gave the place, unchanged since.
      place: where the value stands.
    """
    file.seek(place.start)
    return json.loads(file.read(place.length))


def line_and_column(path: Path, offset: int) -> tuple[int, int]:
    """The line and the column, both from 1, of the byte at `offset` in a UTF-8 file."""
    line, line_start = 1, b""
    with path.open("rb") as file:
        while offset > 0 and (block := file.read(min(offset, _CHUNK))):
            offset -= len(block)
            line += block.count(b"\n")
            line_start = block if b"\n" in block else line_start + block
            line_start = line_start[line_start.rfind(b"\n") + 1 :]
    return line, len(line_start.decode("utf-8-sig", "replace")) + 1


class _Reader:
    """A window of decoded text that moves over the file."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._is_ascii = True
        self._at_end = False
        # The byte offset of the character at `_measured` in the window.
        self._measured, self._measured_offset = 0, 0
        if file.peek(3)[:3] == _BYTE_ORDER_MARK:  # type: ignore[attr-defined]
            file.seek(3)
            self._measured_offset = 3

    def members(self) -> Iterator[tuple[str, Any, Place]]:
        self._take("{")
        if self._next() != "}":
            while True:
                if self._next() != '"':
                    self._fail()
                key = self._value()
                self._take(":")
                if key == EXAMPLES:
                    yield from self._elements()
                else:
                    self._next()
                    start = self._offset()
                    value = self._value()
                    yield key, value, Place(start, self._offset() - start)
                if self._next() != ",":
                    break
                self._at += 1
        self._take("}")
        if self._next():
            self._fail()

    def _elements(self) -> Iterator[tuple[str, Any, Place]]:
        if self._next() != "[":
            line, column = line_and_column(self._path, self._offset())
            raise TaskFileError(self._path, "'examples' must be a list.", line, column)
        yield EXAMPLES, LIST_BEGINS, Place(self._offset(), 1)
        self._at += 1
        if self._next() != "]":
            while True:
                self._next()
                start = self._offset()
                value = self._value()
                yield EXAMPLES, value, Place(start, self._offset() - start)
                if self._next() != ",":
                    break
                self._at += 1
        self._take("]")

    def _next(self) -> str:
        """Move to the next character that is not blank and give it; "" at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if self._at_end:
                return ""
            self._read_on()

    def _take(self, expected: str) -> None:
        if self._next() != expected:
            self._fail()
        self._at += 1

    def _value(self) -> Any:
        """Decode the value that begins here."""
        self._next()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
                # A number that reaches to the window's end may go on behind it.
                if self._at_end or self._text[end : end + 1] in _ENDS_VALUE:
                    self._check_surrogates(value, end)
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                # Near the end of the window it may only be cut off.
                cut_off = len(self._text) - error.pos < 16 or error.msg.startswith("Unterminated")
                if self._at_end or not cut_off:
                    self._fail()
            except (ValueError, RecursionError):
                self._fail()
            self._read_on()

    def _check_surrogates(self, value: Any, end: int) -> None:
        """Raise ValueError if the value from here to `end` holds half a surrogate pair."""
        escapes = ("\\ud", "\\uD")
        if any(self._text.find(escape, self._at, end) >= 0 for escape in escapes):
            json.dumps(value, ensure_ascii=False).encode()

    def _read_on(self) -> None:
        """Drop what is behind and read as much again as is ahead, at least a chunk."""
        offset = self._offset()
        ahead = self._text[self._at :]
        block = self._file.read(max(_CHUNK, len(ahead)))
        self._at_end = not block
        try:
            self._text = ahead + self._decoder.decode(block, final=self._at_end)
        except UnicodeDecodeError:
            self._fail()
        self._is_ascii = self._text.isascii()
        self._at = self._measured = 0
        self._measured_offset = offset

    def _offset(self) -> int:
        """The byte offset in the file of the current character."""
        if self._is_ascii:
            self._measured_offset += self._at - self._measured
        else:
            self._measured_offset += len(self._text[self._measured : self._at].encode())
        self._measured = self._at
        return self._measured_offset

    def _fail(self) -> NoReturn:
        # The strict parser, which wants the whole file, knows best what is wrong and where.
        from lmeval.api.settings import read_json_object

        read_json_object(self._path)
        line, column = line_and_column(self._path, self._offset())
        raise TaskFileError(self._path, "is no JSON that can be read.", line, column)
