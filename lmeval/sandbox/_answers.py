# SPDX-License-Identifier: Apache-2.0
"""How a child reports: one JSON object a line, on a descriptor of its own."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

ANSWER_DESCRIPTOR = 3

CODE_NAME = "<prediction>"
TESTS_NAME = "<tests>"
_MESSAGE_LENGTH = 200

# Bound before foreign code runs, which may replace what the modules hold.
_write = os.write
_encode = json.JSONEncoder().encode

# Freed when memory runs out, so that the report of it has room. Untouched pages cost nothing.
_ballast = [bytearray(1 << 20)]


class ForbiddenImport(ModuleNotFoundError):
    """A module outside the allow-list; an ImportError, so that code with a fallback takes it."""


def send(answer: dict[str, Any]) -> None:
    """Writes one answer line; blocks while the worker is behind."""
    data = (_encode(answer) + "\n").encode()
    while data:
        data = data[_write(ANSWER_DESCRIPTOR, data) :]


def describe(error: BaseException) -> list[Any]:
    """Kind, type, message and place of an exception."""
    kind = "error"
    if isinstance(error, MemoryError):
        _ballast.clear()
        kind = "memory"
    elif isinstance(error, ForbiddenImport) or (
        isinstance(error, PermissionError) and error.errno in (errno.EPERM, errno.EACCES)
    ):
        kind = "forbidden"
    try:
        message = str(error)[:_MESSAGE_LENGTH]
    except BaseException:
        message = "(its text can't be had)"
    return [kind, type(error).__name__, message, _place(error)]


def _place(error: BaseException) -> str:
    """Where it happened: the innermost line of the code or of its tests."""
    place = f"line {error.lineno}" if type(error) is SyntaxError else ""
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name == CODE_NAME:
            place = f"line {step.tb_lineno}"
        elif name == TESTS_NAME:
            place = f"line {step.tb_lineno} of the tests"
        step = step.tb_next
    return place
