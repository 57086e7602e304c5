# SPDX-License-Identifier: Apache-2.0
"""Comparison of two means when the rows behind them are not at hand.

Where both runs saw the same examples this is weaker than `compare_paired`: it takes the two means
as independent.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import attrs

from lmeval.statistics.distributions import (
    fisher_exact_p_value,
    t_critical_value,
    t_two_sided_p_value,
)
from lmeval.statistics.intervals import Interval, combined_interval, wilson_interval
from lmeval.statistics.power import minimal_detectable_difference
from lmeval.statistics.summary import Summary

UnpairedTest: TypeAlias = Literal["fisher exact", "welch t"]


@attrs.frozen
class UnpairedComparison:
    """How the second of two independent means differs from the first.

    Attributes:
      difference: second minus first; None when one mean is missing.
      stderr: sqrt(stderr_a^2 + stderr_b^2); None when one of them is missing.
      ci95: the 95% interval, from the intervals of the two means; None when one of them is missing.
      p_value: two-sided, never 0; None when the standard errors do not allow a test.
      test: the test behind `p_value`.
      detectable: the difference that would show with 80% power at the 5% level; None without a
        standard error.
    """

    difference: float | None
    stderr: float | None
    ci95: Interval | None
    p_value: float | None
    test: UnpairedTest | None
    detectable: float | None


def compare_unpaired(a: Summary, b: Summary) -> UnpairedComparison:
    """Compares two means as if their rows were independent: b - a, error, interval and test.

    Two means of zeros and ones are compared by Fisher's exact test, others by Welch's t test.
    """
    if a.mean is None or b.mean is None:
        return UnpairedComparison(None, None, None, None, None, None)
    ci95 = None
    if a.ci95 is not None and b.ci95 is not None:
        ci95 = combined_interval((-1.0, 1.0), (a.mean, b.mean), (a.ci95, b.ci95))
    difference = b.mean - a.mean
    if a.stderr is None or b.stderr is None:
        return UnpairedComparison(difference, None, ci95, None, None, None)
    stderr = math.hypot(a.stderr, b.stderr)
    p_value: float | None = None
    test: UnpairedTest | None = None
    if is_zero_one(a) and is_zero_one(b):
        test = "fisher exact"
        p_value = fisher_exact_p_value(round(a.mean * a.n), a.n, round(b.mean * b.n), b.n)
    elif stderr > 0.0:
        test = "welch t"
        p_value = t_two_sided_p_value(difference / stderr, _welch_degrees_of_freedom(a, b))
    detectable = minimal_detectable_difference(stderr) if stderr else None
    return UnpairedComparison(difference, stderr, ci95, p_value, test, detectable)


def is_zero_one(summary: Summary) -> bool:
    """Whether a mean with its standard error can only come from independent rows of 0 and 1.

    Among all scores in [0, 1] with mean p, only zeros and ones reach the variance p * (1 - p), so
    the standard error gives them away: sqrt(p * (1 - p) / (n - 1)). Where it is 0, the interval
    tells independent rows from clusters.
    """
    if summary.mean is None or summary.stderr is None or summary.n < 2:
        return False
    if not 0.0 <= summary.mean <= 1.0:
        return False
    largest = math.sqrt(summary.mean * (1.0 - summary.mean) / (summary.n - 1))
    if not math.isclose(summary.stderr, largest, rel_tol=1e-9):
        return False
    ends = zip(summary.ci95 or (), wilson_interval(summary.mean, summary.n), strict=False)
    return all(math.isclose(end, wilson, abs_tol=1e-9) for end, wilson in ends)


def _welch_degrees_of_freedom(a: Summary, b: Summary) -> float:
    """Welch's (1947), from those of each mean; at least one standard error is above 0."""
    squares = 0.0
    for own, other in ((a, b), (b, a)):
        if own.stderr:
            # As a share of both, so that nothing overflows.
            share = own.stderr / math.hypot(own.stderr, other.stderr or 0.0)
            squares += share**4 / _degrees_of_freedom(own)
    return 1.0 / squares


def _degrees_of_freedom(summary: Summary) -> float:
    """Those of a standard error above 0: n - 1, or fewer if the interval knows of clusters.

    The number of clusters is stated nowhere, but the interval is mean ± t * stderr.
    """
    rows = float(summary.n - 1)
    if summary.ci95 is None or not summary.stderr or summary.mean is None:
        return rows
    below, above = summary.mean - summary.ci95[0], summary.ci95[1] - summary.mean
    if not math.isclose(below, above, rel_tol=1e-6):
        return rows
    t = min(below, above) / summary.stderr
    fewer, more = 1.0, rows
    if t <= t_critical_value(rows) * (1.0 + 1e-9):
        return rows
    for _ in range(50):
        middle = (fewer + more) / 2.0
        fewer, more = (middle, more) if t_critical_value(middle) > t else (fewer, middle)
    return fewer
