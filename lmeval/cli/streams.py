# SPDX-License-Identifier: Apache-2.0
"""What passes between lmeval and the terminal, pipe or file behind it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO, cast

from lmeval.api.errors import LmevalError


class OutputError(LmevalError):
    """Standard output that takes no more.

    Attributes:
      is_closed: whether its reader went away, as `| head` does.
    """

    exit_code = 1

    def __init__(self, error: OSError) -> None:
        self.is_closed = isinstance(error, BrokenPipeError)
        super().__init__(f"Standard output cannot be written: {error.strerror or error}.")


class StandardOutput:
    """Standard output, with faults of its own kind: no other file's fault is mistaken for one."""

    def __init__(self, stream: TextIO | None) -> None:
        """Make it from `sys.stdout`, which is None where the process has none."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text.

        Raises:
          OutputError: it cannot be written.
        """
        try:
            return 0 if self._stream is None else self._stream.write(text)
        except OSError as error:
            self._give_up()
            raise OutputError(error) from error

    def flush(self) -> None:
        """Pass on what was written.

        Raises:
          OutputError: it cannot be written.
        """
        try:
            if self._stream is not None:
                self._stream.flush()
        except OSError as error:
            self._give_up()
            raise OutputError(error) from error

    def _give_up(self) -> None:
        # What is still buffered would fail again, and loudly, when Python ends.
        if self._stream is not None:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


class Messages:
    """Standard error for messages that must not end a run: what it cannot take is lost."""

    def __init__(self, stream: TextIO | None) -> None:
        """Make it from `sys.stderr`, which is None where the process has none."""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, if that can be done."""
        with contextlib.suppress(OSError):
            return 0 if self._stream is None else self._stream.write(text)
        return 0

    def flush(self) -> None:
        """Pass on what was written, if that can be done."""
        with contextlib.suppress(OSError):
            if self._stream is not None:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether a person sees the messages at once."""
        return self._stream is not None and self._stream.isatty()


def messages() -> TextIO:
    """Where messages and progress go: standard error, safely."""
    safe = Messages(sys.stderr)
    # A terminal does not run full, and bars need to know it.
    return sys.stderr if safe.isatty() else cast(TextIO, safe)


def speak_utf8() -> None:
    """Read and print UTF-8 whatever the locale; what a terminal cannot show must not end a run."""
    for stream, errors in (
        (sys.stdin, "strict"),
        (sys.stdout, "backslashreplace"),
        (sys.stderr, "backslashreplace"),
    ):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors)


def restart_in_utf8_mode() -> None:
    """Run this program again in Python's UTF-8 mode, if its locale is of another encoding.

    Arguments and file names would otherwise hold surrogates, and a task other names than elsewhere.
    """
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode and sys.executable:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def tell(message: str) -> None:
    """Print a message as one line on standard error, if that takes it."""
    from lmeval.cli.tables import printable

    line = " ".join(part.strip() for part in message.splitlines() if part.strip())
    print(f"lmeval: {printable(line)}", file=messages(), flush=True)
