# SPDX-License-Identifier: Apache-2.0
"""The mean of a task's scores with its standard error and its 95% interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import attrs
import numpy as np

from lmeval.statistics.intervals import Interval, t_interval, wilson_interval
from lmeval.statistics.values import (
    FloatArray,
    Labels,
    average_samples,
    label_numbers,
    score_array,
    sums_by_number,
)

# Relative to the largest score. A spread below it is rounding: 0.1 three times averages to another
# number than 0.1. It would give an interval as narrow as if everything were known.
_ROUNDING = 1e-12

Method: TypeAlias = Literal["wilson", "t", "clustered t", "combined", "bootstrap"]


@attrs.frozen
class Summary:
    """A mean and how far it can be trusted. What is undefined is None, never 0 and never NaN.

    Attributes:
      n: how many examples the mean is taken over; repeated samples of one example count once.
      mean: the mean score; None without examples.
      stderr: the standard error of the mean; None below two examples, or below two clusters.
      ci95: the lower and upper end of the 95% interval; None where it is undefined.
      method: how `ci95` was made: "wilson" (scores of 0 and 1, and scores in [0, 1] that are all
        equal), "t", "clustered t", "combined" (a macro mean, from the intervals of its groups),
        "bootstrap"; None without an interval.
    """

    n: int
    mean: float | None
    stderr: float | None
    ci95: Interval | None
    method: Method | None


@attrs.frozen
class MeanWithError:
    """A mean before its interval is chosen.

    Attributes:
      mean: the mean of the values.
      stderr: its standard error; None below two units; exactly 0 where no spread shows.
      units: how many independent units there are: clusters, or else values.
      effective_units: how many units of one size are worth as much: n^2 / (sum of squared sizes).
    """

    mean: float
    stderr: float | None
    units: int
    effective_units: float

    @property
    def degrees_of_freedom(self) -> float:
        """Those of t: effective units less 1, at least 1.

        Where one cluster holds most rows, the mean is nearly its own, so that its deviations say
        little of how far the mean is off; t(C - 1) would give an interval much too narrow.
        """
        return max(1.0, self.effective_units - 1.0)


def summarize(
    scores: Sequence[float] | FloatArray,
    *,
    examples: Labels | None = None,
    clusters: Labels | None = None,
) -> Summary:
    """Mean, standard error and 95% interval of a task's scores.

    The standard error is that of the sample: s / sqrt(n), s with n - 1 in the denominator; with
    clusters it is the one of `mean_with_error`. The result is the same to the last bit in any order
    of rows.

    Args:
      scores: one a row.
      examples: the example of each row, when examples were sampled several times: scores are
        averaged per example first, so that the error is over examples. None: every row is an
        example of its own.
      clusters: a label for each row; rows that share one are not independent (questions on one
        text). A row with None stands alone.

    Raises:
      StatisticsError: a score is no finite number, or lengths differ.
    """
    values, clusters = average_samples(score_array(scores), examples, clusters)
    if values.size == 0:
        return Summary(n=0, mean=None, stderr=None, ci95=None, method=None)
    result = mean_with_error(values, clusters)
    clustered = result.units < values.size
    ci95: Interval | None = None
    method: Method | None = None
    within_unit = bool(np.all((values >= 0.0) & (values <= 1.0)))
    zero_one = bool(np.all((values == 0.0) | (values == 1.0)))
    if (zero_one and not clustered) or (within_unit and result.stderr == 0.0):
        # Where no spread shows there is nothing to compute with; but in [0, 1] it has a bound.
        ci95, method = wilson_interval(result.mean, result.effective_units), "wilson"
    elif result.stderr:
        ci95 = t_interval(result.mean, result.stderr, result.degrees_of_freedom)
        method = "clustered t" if clustered else "t"
    return Summary(int(values.size), result.mean, result.stderr, ci95, method)


def mean_with_error(values: FloatArray, clusters: Labels | None = None) -> MeanWithError:
    """The mean of at least one value and its standard error.

    With clusters: sqrt(C / (C - 1) * sum over clusters of (sum of deviations from the mean)^2) / n
    for C clusters, which for clusters of one row is s / sqrt(n). Values 1, 1 | 0, 0 give 0.5.

    Source: the cluster-robust variance of Liang and Zeger 1986 for a mean, with the factor C / (C -
    1) for few clusters (called CR1; for a mean alone this is the whole of Stata's and statsmodels'
    correction); for the effective number of clusters Carter, Schnepel and Steigerwald 2017.
    """
    n = int(values.size)
    lowest, highest = float(values.min()), float(values.max())
    largest = max(abs(lowest), abs(highest))
    if highest - lowest <= _ROUNDING * largest:
        mean, deviations = lowest, np.zeros(n)
    else:
        mean = math.fsum(values.tolist()) / n
        deviations = values - mean
    units, effective_units = n, float(n)
    if clusters is not None:
        numbers = label_numbers(clusters, n, "clusters")
        deviations = sums_by_number(deviations, numbers)
        sizes = np.bincount(numbers)
        units, effective_units = len(sizes), n * n / int(sizes @ sizes)
    if units < 2:
        return MeanWithError(mean, None, units, effective_units)
    # A power of two rounds nothing, and keeps squares of tiny and of huge numbers within range.
    scale = math.ldexp(1.0, math.frexp(largest)[1])
    deviations = deviations / scale
    squares = math.fsum((deviations * deviations).tolist())
    stderr = math.sqrt(units / (units - 1) * squares) / n * scale
    is_rounding = stderr <= _ROUNDING * largest
    return MeanWithError(mean, 0.0 if is_rounding else stderr, units, effective_units)
