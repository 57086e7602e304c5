# SPDX-License-Identifier: Apache-2.0
"""The errors that lmeval raises for what a user can mend.

The text of each is one sentence: what is wrong, where, and what to do about it. The command line
prints it without a traceback and exits with the class's `exit_code`: 2 for wrong usage, 1 for what
went wrong in a run.
"""

from __future__ import annotations

import os
from typing import Any


class LmevalError(Exception):
    """A fault that the user of the library or of the command line can mend.

    Attributes:
      exit_code: what the command line ends with.
    """

    exit_code = 2


class UsageError(LmevalError):
    """A flag, an argument or a combination of them that cannot be carried out."""


class TaskError(LmevalError):
    """A task that cannot be loaded, found or evaluated as it stands."""


class FailedTaskError(TaskError):
    """A task that broke while it was being evaluated."""

    exit_code = 1


class TaskFileError(TaskError):
    """A fault in a task's file.

    Attributes:
      path: the file.
      line: the physical line, counted from 1 with comments and blank lines, or None.
      column: the character in that line, counted from 1, or None.
      reason: what was found and what was expected.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        reason: str,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.reason = reason
        self.line = line
        self.column = column
        place = self.path
        if line is not None:
            place += f", line {line}"
        if column is not None:
            place += f", column {column}"
        super().__init__(f"{place}: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.reason, self.line, self.column)


class ExampleError(TaskError):
    """An example of a task that cannot be used.

    Attributes:
      example: the example.
      reason: what is wrong with it, without a full stop.
    """

    def __init__(self, example: Any, reason: str) -> None:
        self.example = example
        self.reason = reason
        super().__init__(f"The example {example.id!r}: {reason}.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.example, self.reason)


class InvalidValueError(LmevalError, ValueError):
    """A value that a contract class refuses; the text names the class's field."""


class MetricError(LmevalError):
    """A metric that is unknown, or registered twice."""


class FailedMetricError(MetricError):
    """A metric that broke, or gave something that is no score."""

    exit_code = 1


class ModelError(LmevalError):
    """A model that cannot be built, or that broke the contract of its answers."""

    exit_code = 1


class UnsupportedByModel(ModelError):
    """Something that this model cannot do; raised before any call is spent."""

    exit_code = 2


class FatalModelError(ModelError):
    """A fault that every further request would meet too: a wrong key, a model that is not there."""


class AnswerCountError(ModelError):
    """A model gave another number of answers than it was asked for."""


class TransientModelError(ModelError):
    """A fault that may pass by itself, such as a rate limit or a reset connection.

    Attributes:
      retry_after: how many seconds the model asks to wait, or None.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnreachableModelError(TransientModelError):
    """Nobody is there to ask: no connection, so that no request can have been received.

    When it has not passed after all attempts, the engine ends the run.
    """


class ResultsError(LmevalError):
    """A leaderboard or sample file that cannot be read, or must not be overwritten."""


class MissingExtraError(LmevalError):
    """An optional package that a chosen part needs; the text holds the pip line."""

    def __init__(self, purpose: str, extra: str) -> None:
        super().__init__(
            f"{purpose} needs packages that are not installed: pip install 'lmeval[{extra}]'."
        )
        self.purpose = purpose
        self.extra = extra

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.purpose, self.extra)
