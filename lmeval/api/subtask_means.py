# SPDX-License-Identifier: Apache-2.0
"""How a task's score can follow from the scores of its sub-tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from lmeval.api.results import SubtaskResult
    from lmeval.statistics import Summary


@attrs.frozen
class ScaleChange:
    """From the scale of a sub-task's score to that of the whole task: what was low stays low."""

    low: float
    """The sub-task's low score."""
    whole_low: float
    """The whole's low score."""
    factor: float
    """How long the whole's scale is, in lengths of the sub-task's."""

    @classmethod
    def between(cls, part: SubtaskResult, whole: SubtaskResult) -> ScaleChange | None:
        """The change that keeps normalized scores; None if the sub-task's scale has no length."""
        length = part.high_score - part.low_score
        if length == 0.0:
            return None
        factor = (whole.high_score - whole.low_score) / length
        return cls(part.low_score, whole.low_score, factor)

    def __call__(self, score: float) -> float:
        """The score on the whole's scale."""
        return self.whole_low + self.factor * (score - self.low)


def whole_summary(parts: Sequence[SubtaskResult], whole: SubtaskResult | None) -> Summary | None:
    """Error and interval of a task's score, if it is a mean over its sub-tasks.

    Args:
      parts: the sub-tasks, without any that sums up the others.
      whole: what sums them up; None if it is left to their plain mean.

    Returns:
      The macro mean, the micro mean, or the macro mean of the sub-tasks' scores on the scale of the
      whole (a mean of normalized scores), whichever the whole's score is; None if it is none.
    """
    from lmeval.statistics import macro_mean, micro_mean

    plain = [_summary(part) for part in parts]
    if whole is None:
        return macro_mean(plain)
    changes = [ScaleChange.between(part, whole) for part in parts]
    on_one_scale = [
        _rescaled(summary, change)
        for summary, change in zip(plain, changes, strict=True)
        if change is not None
    ]
    for mean in (
        macro_mean(plain),
        micro_mean(plain),
        macro_mean(on_one_scale if len(on_one_scale) == len(parts) else []),
    ):
        if mean.mean is not None and math.isclose(mean.mean, whole.score, abs_tol=1e-9):
            return mean
    return None


def _summary(part: SubtaskResult) -> Summary:
    from lmeval.statistics import Summary

    return Summary(part.n or 0, part.score, part.stderr, part.ci95, None)


def _rescaled(summary: Summary, change: ScaleChange) -> Summary:
    from lmeval.statistics import Summary

    if summary.mean is None:
        return summary
    stderr = None if summary.stderr is None else summary.stderr * abs(change.factor)
    ci95 = None
    if summary.ci95 is not None:
        first, second = map(change, summary.ci95)
        ci95 = min(first, second), max(first, second)
    return Summary(summary.n, change(summary.mean), stderr, ci95, summary.method)
