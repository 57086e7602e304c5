# SPDX-License-Identifier: Apache-2.0
"""Error and interval of a number that is computed over all rows at once (corpus BLEU, macro F1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.intervals import Interval
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

    Source: Efron and Tibshirani 1993, chapters 6 and 13. The independent units (rows, unless
    `units` says otherwise) are drawn anew, with replacement, `resamples` times.

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
    draws = _redrawn(statistic, unit_numbers(units, rows), generator, resamples)
    if draws is None:
        return Summary(n=rows, mean=value, stderr=None, ci95=None, method=None)
    stderr, ci95 = error_of_draws(draws, abs(value))
    return Summary(rows, value, stderr, ci95, "bootstrap" if ci95 else None)


def error_of_draws(draws: FloatArray, size: float) -> tuple[float, Interval | None]:
    """The standard error and the 95% percentile interval that bootstrap draws tell of.

    Draws that are all equal, but for rounding of numbers as large as `size`, have the error 0 and
    no interval: one of no width would say that nothing else can ever come out.
    """
    if float(np.ptp(draws)) <= ROUNDING * size:
        return 0.0, None
    lower, upper = np.quantile(draws, (0.025, 0.975)).tolist()
    return float(draws.std(ddof=1)), (lower, upper)


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
