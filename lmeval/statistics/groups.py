# SPDX-License-Identifier: Apache-2.0
"""Means over groups of rows: sub-tasks of a task, tasks of a suite."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lmeval.statistics.intervals import combined_interval
from lmeval.statistics.summary import Summary, summarize
from lmeval.statistics.values import FloatArray


def macro_mean(groups: Sequence[Summary]) -> Summary:
    """The plain mean of K group means: every group counts the same, however many rows it has.

    Its standard error is sqrt(sum of the groups' squared standard errors) / K, for groups of
    different rows. The interval is `combined_interval` of the groups' intervals. What one group
    lacks, the whole lacks: with one standard error missing there is none.
    """
    n = sum(group.n for group in groups)
    means = [group.mean for group in groups if group.mean is not None]
    if not groups or len(means) < len(groups):
        return Summary(n=n, mean=None, stderr=None, ci95=None, method=None)
    if len(groups) == 1:
        return groups[0]
    share = 1.0 / len(groups)
    errors = [group.stderr for group in groups if group.stderr is not None]
    intervals = [group.ci95 for group in groups if group.ci95 is not None]
    stderr = ci95 = None
    if len(errors) == len(groups):
        stderr = share * math.sqrt(math.fsum(error * error for error in errors))
    if len(intervals) == len(groups):
        ci95 = combined_interval([share] * len(groups), means, intervals)
    return Summary(
        n=n,
        mean=math.fsum(means) / len(groups),
        stderr=stderr,
        ci95=ci95,
        method="combined" if ci95 else None,
    )


def micro_mean(groups: Sequence[Sequence[float] | FloatArray]) -> Summary:
    """The mean over the pooled rows of all groups: every row counts the same.

    Its standard error and interval are those of the pooled rows, as `summarize` computes them.

    Raises:
      StatisticsError: a score is no finite number.
    """
    return summarize([score for group in groups for score in group])
