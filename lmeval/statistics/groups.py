# SPDX-License-Identifier: Apache-2.0
"""Means over groups of rows: sub-tasks of a task, tasks of a suite."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lmeval.statistics.intervals import combined_interval, root_of_squares
from lmeval.statistics.summary import Summary


def macro_mean(groups: Sequence[Summary]) -> Summary:
    """The plain mean of K group means: every group counts the same, however many rows it has.

    Its standard error is sqrt(sum of the groups' squared standard errors) / K, for groups of
    different rows. The interval is `combined_interval` of the groups' intervals. What one group
    lacks, the whole lacks: with one standard error missing there is none.
    """
    return _weighted_mean(groups, [1] * len(groups))


def micro_mean(groups: Sequence[Summary]) -> Summary:
    """The mean over the rows of all groups: every row counts the same.

    Group k of n_k rows has the weight n_k / N, so that the standard error is sqrt(sum of (n_k *
    stderr_k)^2) / N: that of a stratified mean, for which groups and their sizes are given and the
    rows in them are drawn. Clusters and repeated samples count as they do in each group. The
    interval and what is missing are as in `macro_mean`.

    Source: Cochran 1977, Sampling Techniques, section 5.3 (stratified sampling).
    """
    return _weighted_mean(groups, [group.n for group in groups])


def _weighted_mean(groups: Sequence[Summary], weights: Sequence[int]) -> Summary:
    n = sum(group.n for group in groups)
    means = [group.mean for group in groups if group.mean is not None]
    total = sum(weights)
    if not total or len(means) < len(groups):
        return Summary(n=n, mean=None, stderr=None, ci95=None, method=None)
    if len(groups) == 1:
        return groups[0]
    errors = [group.stderr for group in groups if group.stderr is not None]
    intervals = [group.ci95 for group in groups if group.ci95 is not None]
    stderr = ci95 = None
    if len(errors) == len(groups):
        weighted = [weight * error for weight, error in zip(weights, errors, strict=True)]
        stderr = root_of_squares(weighted) / total
    if len(intervals) == len(groups):
        ci95 = combined_interval([weight / total for weight in weights], means, intervals)
    return Summary(
        n=n,
        mean=math.fsum(w * mean for w, mean in zip(weights, means, strict=True)) / total,
        stderr=stderr,
        ci95=ci95,
        method="combined" if ci95 else None,
    )
