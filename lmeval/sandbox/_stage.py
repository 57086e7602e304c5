# SPDX-License-Identifier: Apache-2.0
"""What foreign code finds around it: imports, streams, a seeded generator.

Nothing here is a wall. It gives honest code a familiar Python, and clear errors.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import random
import sys
from collections.abc import Callable
from typing import Any

from lmeval.sandbox._answers import ForbiddenImport, send

# Bound before foreign code runs, which may replace what the modules hold.
_real_import = builtins.__import__
_exit = os._exit

# C code imports through the `__import__` of whoever called it.
_IMPORTED_BY_C = frozenset(
    {
        "_strptime",
        "copyreg",
        "encodings",
        "linecache",
        "_io",
        "_warnings",
        "_collections_abc",
        "_weakrefset",
        "_pydatetime",
        "_pydecimal",
    }
)


class Stage:
    """What foreign code finds around it. Set up once, in the worker: each child then inherits it.

    Args:
      allowed: top-level modules that the prediction may import.
      trusted: names of the modules that are loaded; what they import in turn goes through.
      stdout_bytes: how much may be printed per pair where that is kept.
    """

    def __init__(self, allowed: frozenset[str], trusted: frozenset[str], stdout_bytes: int) -> None:
        self._captured = _Output(stdout_bytes)
        self._buffer = io.BufferedWriter(self._captured)
        self._text = _text_writer(self._buffer)
        sys.stdout = sys.__stdout__ = self._text  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _text_writer(io.BufferedWriter(_Output(0)))  # type: ignore[misc]
        sys.argv = ["prediction.py"]
        self.give_input("")
        builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
        builtins.__import__ = _guarded_import(allowed, trusted)
        builtins.open = io.open = _no_files
        seed()

    def give_input(self, text: str) -> None:
        """Sets what the code can read from standard input."""
        data = io.BytesIO(text.encode("utf-8", "surrogatepass"))
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(data, encoding="utf-8")  # type: ignore[misc]

    def start(self, pair: int) -> None:
        """Keeps what is printed from now on for this pair; what came before belongs to none."""
        self._flush()
        self._captured.start(pair)

    def take(self) -> str:
        """What was printed since `start`."""
        self._flush()
        return self._captured.take()

    def _flush(self) -> None:
        # Honest code puts other streams over this one's buffer, detaches or closes it.
        if sys.stdout is not self._text and sys.stdout is not None:
            sys.stdout.flush()
        for stream in (self._text, self._buffer):
            with contextlib.suppress(ValueError):
                stream.flush()


def seed() -> None:
    """The same prediction must get the same score each time."""
    random.seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)


def _text_writer(buffer: Any) -> io.TextIOWrapper:
    # Real text streams, since honest code writes to `sys.stdout.buffer`.
    return io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", newline="\n")


class _Output(io.RawIOBase):
    """What is printed: thrown away, or kept up to a limit beyond which the child ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: bytearray | None = None
        self._pair = 0

    def start(self, pair: int) -> None:
        self._kept, self._pair = bytearray(), pair

    def take(self) -> str:
        kept, self._kept = self._kept, None
        return (kept or b"").decode(errors="replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(data)
        if self._kept is not None:
            self._kept += data
            if len(self._kept) > self._limit:
                message = f"printed more than {self._limit} bytes"
                send({"i": self._pair, "e": ["output_limit", "", message, ""]})
                _exit(0)
        return size


def _guarded_import(allowed: frozenset[str], trusted: frozenset[str]) -> Callable[..., Any]:
    def guarded(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        importer = globals.get("__name__") if globals else None
        top = name.partition(".")[0]
        if importer in trusted or top in allowed or top in _IMPORTED_BY_C:
            return _real_import(name, globals, locals, fromlist, level)
        raise ForbiddenImport(f"importing {name!r} is not allowed", name=name)

    return guarded


def _no_files(file: Any, *_: Any, **__: Any) -> Any:
    raise PermissionError(errno.EPERM, "files are not available", str(file))
