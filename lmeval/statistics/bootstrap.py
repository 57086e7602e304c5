# SPDX-License-Identifier: Apache-2.0
"""Error and interval of a number that is computed over all rows at once (corpus BLEU, macro F1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from lmeval.statistics.distributions import t_critical_value
from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.intervals import CONFIDENCE, Interval
from lmeval.statistics.summary import Summary
from lmeval.statistics.values import FloatArray, IntArray, Labels, label_numbers

RowsStatistic: TypeAlias = Callable[[IntArray], float]
"""A number over rows, from how often each of them counts: n integers, 0 or more.

Ones give the number of all rows, (0, 2, 1) that of the second row twice and the third. It may be
NaN for rows that have no such number.
"""

RESAMPLES = 1000
ROUNDING = 1e-12
"""Relative to a number's size: differences below it are none."""


def bootstrap_summary(
    statistic: RowsStatistic,
    rows: int,
    *,
    generator: np.random.Generator,
    units: Labels | None = None,
    resamples: int = RESAMPLES,
) -> Summary:
    """The statistic of all rows, its bootstrap standard error and its 95% percentile interval.

    The independent units (rows, unless `units` says otherwise) are drawn anew, with replacement,
    `resamples` times; what that tells is in `error_of_draws`.

    Source: Efron and Tibshirani 1993, chapters 6 and 13.

    Args:
      statistic: from how often each row counts to the number.
      rows: how many rows there are.
      generator: source of the draws; the global random state is not touched.
      units: a label for each row; rows that share one are drawn together (samples of one example,
        questions on one text). A row with None stands alone. None: every row stands alone.
      resamples: how many times to draw, at least 2.

    Returns:
      A Summary with method "bootstrap", whose n is the number of rows. Without rows everything is
      None. Error and interval are None below two units, or when the statistic of a resample is NaN
      or infinite: leaving such resamples out would bias both. Where all resamples give one number
      the error is 0, and there is no interval.

    Raises:
      StatisticsError: `resamples` is below 2, the statistic of all rows is NaN or infinite, or
        there are not as many labels as rows.
    """
    if resamples < 2:
        raise StatisticsError(f"resamples must be at least 2 (got {resamples!r}).")
    if rows == 0:
        return Summary(n=0, mean=None, stderr=None, ci95=None, method=None)
    value = float(statistic(np.ones(rows, dtype=np.intp)))
    if not math.isfinite(value):
        raise StatisticsError(f"the statistic of all {rows} rows is no finite number ({value}).")
    unit_of_row = unit_numbers(units, rows)
    draws = _redrawn(statistic, unit_of_row, generator, resamples)
    if draws is None:
        return Summary(n=rows, mean=value, stderr=None, ci95=None, method=None)
    stderr, ci95 = error_of_draws(draws, abs(value), int(unit_of_row.max()) + 1)
    return Summary(rows, value, stderr, ci95, "bootstrap" if ci95 else None)


def error_of_draws(draws: FloatArray, size: float, units: int) -> tuple[float, Interval | None]:
    """The standard error and the 95% interval that bootstrap draws of `units` units tell of.

    Draws vary as if the variance of the units had n in its denominator, and know nothing of t. Both
    are made up for: the standard error by sqrt(n / (n - 1)), the interval by quantiles further out,
    at the level of Phi(-sqrt(n / (n - 1)) * t(n - 1)). From a hundred units on it makes no
    difference; with 5 plain percentiles would cover the truth in 81% of the cases instead of 88%.

    Draws that are all equal, but for rounding of numbers as large as `size`, have the error 0 and
    no interval: one of no width would say that nothing else can ever come out.

    Source: Hesterberg 2015, "What Teachers Should Know About the Bootstrap" (the expanded
    percentile interval).
    """
    if float(np.ptp(draws)) <= ROUNDING * size:
        return 0.0, None
    narrowness = math.sqrt(units / (units - 1))
    tail = NormalDist().cdf(-narrowness * t_critical_value(units - 1, CONFIDENCE))
    lower, upper = np.quantile(draws, (tail, 1.0 - tail)).tolist()
    return float(draws.std(ddof=1)) * narrowness, (lower, upper)


def unit_numbers(units: Labels | None, rows: int) -> IntArray:
    """The number of each row's independent unit, from 0."""
    return np.arange(rows) if units is None else label_numbers(units, rows, "units")


def draw_rows(unit_of_row: IntArray, generator: np.random.Generator) -> IntArray:
    """How often each row counts when as many units as there are are drawn with replacement."""
    n_units = int(unit_of_row.max()) + 1
    drawn = np.bincount(generator.integers(0, n_units, size=n_units), minlength=n_units)
    return drawn[unit_of_row]


def _redrawn(
    statistic: RowsStatistic, unit_of_row: IntArray, generator: np.random.Generator, resamples: int
) -> FloatArray | None:
    """The statistics of the resamples; None where one of them is undefined."""
    if int(unit_of_row.max()) < 1:
        return None
    draws = np.empty(resamples)
    for index in range(resamples):
        draws[index] = statistic(draw_rows(unit_of_row, generator))
        if not math.isfinite(draws[index]):
            return None
    return draws
