# SPDX-License-Identifier: Apache-2.0
"""What a user's program raised, told in one sentence with the place in the user's own code."""

from __future__ import annotations

import functools
import sysconfig
import traceback
from pathlib import Path


def describe_failure(error: BaseException, program: Path | None = None) -> str:
    """What a user's program raised, and the line of the program where it did, in one sentence.

    Args:
      error: what was raised.
      program: the program's file, if it is known; else the innermost line counts that is neither
        lmeval's nor that of an installed package.
    """
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}."
    place = _place(error, program)
    where = f"{place.filename}, line {place.lineno}: " if place else ""
    return f"{where}{what_was_raised(error)}".rstrip(".") + "."


def what_was_raised(error: BaseException) -> str:
    """The exception's class and words, on one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def place_of(error: BaseException) -> str | None:
    """The innermost line of the user's own code, by the file's name; None without one."""
    own = _own_frames(error)
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else None


def _place(error: BaseException, program: Path | None) -> traceback.FrameSummary | None:
    frames = traceback.extract_tb(error.__traceback__)
    file = program.resolve() if program else None
    in_program = [frame for frame in frames if Path(frame.filename).resolve() == file]
    return next(reversed(in_program or _own_frames(error) or frames), None)


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames that are neither lmeval's, nor an installed package's, nor Python's own."""
    foreign = _foreign_folders()
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
        and foreign.isdisjoint(Path(frame.filename).resolve().parents)
    ]


@functools.cache
def _foreign_folders() -> frozenset[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = (Path(sysconfig.get_path(name)).resolve() for name in names)
    return frozenset({Path(__file__).resolve().parents[1], *installed})
