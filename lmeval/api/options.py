# SPDX-License-Identifier: Apache-2.0
"""What a run asks of every task: the command line's flags on their way to the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from lmeval.sandbox import Sandbox


def _as_counts(value: int | Iterable[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


@attrs.frozen(kw_only=True)
class TaskOptions:
    """How tasks are to be evaluated in one run; None leaves the choice to the task."""

    shots: tuple[int, ...] = attrs.field(default=(0,), converter=_as_counts)
    """Numbers of solved examples in the prompt (one number, or several); the task is evaluated once
    for each."""
    max_examples: int | None = None
    """The most examples to evaluate in each task."""
    seed: int | None = None
    """Seed of everything drawn: shots, generated examples."""
    max_length: int | None = None
    """The longest answer, in characters."""
    stop_string: str | None = None
    """Text that ends an answer, in place of the task's own."""
    output_regex: str | None = None
    """What to take out of an answer, in place of the task's own."""
    answer_extraction: str | None = None
    """A name from `answers.ANSWER_EXTRACTIONS`, in place of the task's own."""
    dialect_settings: Mapping[str, Any] = attrs.field(factory=dict)
    """What only the tasks of one dialect understand; others leave it alone."""
    sandbox: Sandbox | None = attrs.field(default=None, repr=False)
    """Where model-written code may run; None forbids it."""
