# SPDX-License-Identifier: Apache-2.0
"""95% confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from lmeval.statistics.distributions import normal_quantile, t_critical_value
from lmeval.statistics.errors import StatisticsError

Interval: TypeAlias = tuple[float, float]
"""The lower and the upper end."""

CONFIDENCE = 0.95


def wilson_interval(mean: float, n: float) -> Interval:
    """The Wilson score interval of a proportion.

    It stays inside [0, 1] and has a width where every row is wrong or every row is right: 0 of 25
    gives (0, 0.1332).

    Source: Wilson 1927, without continuity correction. For values between 0 and 1 that are no zeros
    and ones it is too wide rather than too narrow, because their variance is at most mean * (1 -
    mean).

    Args:
      mean: the proportion, between 0 and 1.
      n: the number of rows, at least 1; an effective number need not be whole.

    Raises:
      StatisticsError: `mean` or `n` is out of range.
    """
    if n < 1 or not 0.0 <= mean <= 1.0:
        raise StatisticsError(f"a proportion of {mean!r} in {n!r} rows is not possible.")
    z = normal_quantile(0.5 + CONFIDENCE / 2)
    shrink = 1.0 + z * z / n
    centre = (mean + z * z / (2 * n)) / shrink
    half_width = z * math.sqrt(mean * (1.0 - mean) / n + z * z / (4.0 * n * n)) / shrink
    # The ends at 0 and at 1 are exact; only rounding moves them, and the mean is always inside.
    lower = 0.0 if mean == 0.0 else min(mean, max(0.0, centre - half_width))
    upper = 1.0 if mean == 1.0 else max(mean, min(1.0, centre + half_width))
    return lower, upper


def t_interval(mean: float, stderr: float, degrees_of_freedom: float) -> Interval:
    """The interval mean ± t * stderr, with the Student t of the given degrees of freedom.

    The ends are not cut at the ends of the metric's scale.
    """
    half_width = t_critical_value(degrees_of_freedom, CONFIDENCE) * stderr
    return mean - half_width, mean + half_width


def combined_interval(
    weights: Sequence[float], means: Sequence[float], intervals: Sequence[Interval]
) -> Interval:
    """The interval of a weighted sum of independent means, from the interval of each.

    The distance of each end from its mean takes the place of a standard error: for 0/1 scores this
    keeps what Wilson's interval knows near 0 and 1, where a standard error says 0.

    Source: Zou and Donner 2008 (the method of variance estimates recovery); for the difference of
    two proportions it is Newcombe 1998, method 10.
    """
    total = math.fsum(weight * mean for weight, mean in zip(weights, means, strict=True))
    below, above = [], []
    for weight, mean, (lower, upper) in zip(weights, means, intervals, strict=True):
        ends = (weight * (lower - mean), weight * (upper - mean))
        below.append(min(ends))
        above.append(max(ends))
    return total - root_of_squares(below), total + root_of_squares(above)


def root_of_squares(values: Sequence[float]) -> float:
    """The root of the sum of squares, whatever the values' size; the same in any order of them."""
    return math.hypot(*sorted(values))
