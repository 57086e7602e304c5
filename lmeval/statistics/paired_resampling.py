# SPDX-License-Identifier: Apache-2.0
"""Comparison of two models by a number that is computed over all rows at once."""

from __future__ import annotations

import math

import numpy as np

from lmeval.statistics.bootstrap import (
    RESAMPLES,
    ROUNDING,
    RowsStatistic,
    draw_rows,
    error_of_draws,
    unit_numbers,
)
from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.paired import PairedComparison
from lmeval.statistics.power import minimal_detectable_difference
from lmeval.statistics.values import FloatArray, IntArray, Labels


def compare_resampled(
    statistic: RowsStatistic,
    rows: int,
    *,
    generator: np.random.Generator,
    units: Labels | None = None,
    resamples: int = 10_000,
) -> PairedComparison:
    """Compares two models on the same rows by a statistic that is no mean of row scores.

    The p-value is that of approximate randomization (Noreen 1989; Riezler and Maxwell 2005 for
    BLEU): if it makes no difference which model gave which answer, the two answers of a unit can be
    exchanged. It is (b + 1) / (m + 1) for b of m random exchanges whose difference is at least as
    far from 0 as the one found, and so never 0. Standard error and interval come from the paired
    bootstrap (Koehn 2004; percentiles as in Efron and Tibshirani 1993, chapter 13): both models are
    scored on the same redrawn units, 1,000 times.

    Args:
      statistic: over 2 n rows: the first model's n, then the second's in the same order.
      rows: n.
      generator: source of the draws; the global random state is not touched.
      units: a label for each of the n rows; rows that share one stand together.
      resamples: how many exchanges to draw, at least 1.

    Returns:
      The comparison, with test "randomization" and the number of rows as n. The counts of rows
      that scored higher or lower are 0: a row has no score of its own. Error and interval are None
      below two units, or where a resample has no statistic. An exchange without a statistic counts
      as far from 0.

    Raises:
      StatisticsError: `resamples` is below 1, the statistic of a model is NaN or infinite, or
        there are not as many labels as rows.
    """
    if resamples < 1:
        raise StatisticsError(f"resamples must be at least 1 (got {resamples!r}).")
    if rows == 0:
        return PairedComparison(0, None, None, None, None, None, None, None, 0, 0, None)
    unit_of_row = unit_numbers(units, rows)
    none, all_rows = np.zeros(rows, dtype=np.intp), np.ones(rows, dtype=np.intp)

    def of_first(counts: IntArray) -> float:
        return statistic(np.concatenate((counts, none)))

    def of_second(counts: IntArray) -> float:
        return statistic(np.concatenate((none, counts)))

    mean_a, mean_b = float(of_first(all_rows)), float(of_second(all_rows))
    if not math.isfinite(mean_a) or not math.isfinite(mean_b):
        raise StatisticsError(f"the statistic of all rows is no finite number: {mean_a}, {mean_b}.")
    exchanged = _exchanged_differences(statistic, unit_of_row, generator, resamples)
    size = max(abs(mean_a), abs(mean_b))
    difference = mean_b - mean_a if abs(mean_b - mean_a) > ROUNDING * size else 0.0
    near = np.abs(exchanged) < abs(difference) - ROUNDING * size
    redrawn = _redrawn_differences(of_first, of_second, unit_of_row, generator)
    n_units = int(unit_of_row.max()) + 1
    stderr, ci95 = (None, None) if redrawn is None else error_of_draws(redrawn, size, n_units)
    return PairedComparison(
        n=rows,
        mean_a=mean_a,
        mean_b=mean_b,
        difference=difference,
        stderr=stderr,
        ci95=ci95,
        p_value=float((np.count_nonzero(~near) + 1) / (resamples + 1)),
        test="randomization",
        higher_in_b=0,
        lower_in_b=0,
        detectable=minimal_detectable_difference(stderr, units=n_units) if stderr else None,
    )


def _exchanged_differences(
    statistic: RowsStatistic, unit_of_row: IntArray, generator: np.random.Generator, resamples: int
) -> FloatArray:
    """The differences after each unit's two answers were exchanged or not, at random."""
    n_units = int(unit_of_row.max()) + 1
    differences = np.empty(resamples)
    for index in range(resamples):
        kept = generator.integers(0, 2, size=n_units)[unit_of_row]
        exchanged = 1 - kept
        first = statistic(np.concatenate((kept, exchanged)))
        second = statistic(np.concatenate((exchanged, kept)))
        differences[index] = second - first
    return differences


def _redrawn_differences(
    of_first: RowsStatistic,
    of_second: RowsStatistic,
    unit_of_row: IntArray,
    generator: np.random.Generator,
) -> FloatArray | None:
    """The differences on redrawn units; None where one is undefined."""
    if int(unit_of_row.max()) < 1:
        return None
    differences = np.empty(RESAMPLES)
    for index in range(RESAMPLES):
        counts = draw_rows(unit_of_row, generator)
        differences[index] = of_second(counts) - of_first(counts)
        if not math.isfinite(differences[index]):
            return None
    return differences
