# SPDX-License-Identifier: Apache-2.0
"""Error and interval of a number that is computed over all rows at once (corpus BLEU, macro F1)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.summary import Summary
from lmeval.statistics.values import IntArray


def bootstrap_summary(
    statistic: Callable[[IntArray], float],
    rows: int,
    *,
    generator: np.random.Generator,
    resamples: int = 1000,
) -> Summary:
    """The statistic of all rows, its bootstrap standard error and its 95% percentile interval.

    Source: Efron and Tibshirani 1993, chapters 6 and 13. The rows are drawn anew, with replacement,
    `resamples` times. For a result that does not depend on the order of rows, number them in a
    fixed order, by id say.

    Args:
      statistic: from the indices of the rows to use, 0 to rows - 1 and with repetitions, to the
        number.
      rows: how many rows there are.
      generator: source of the draws; the global random state is not touched.
      resamples: how many times to draw, at least 2.

    Returns:
      A Summary with method "bootstrap". Without rows everything is None. Error and interval are
      None below two rows, or when the statistic of a resample is NaN or infinite: leaving such
      resamples out would bias both.

    Raises:
      StatisticsError: `resamples` is below 2, or the statistic of all rows is NaN or infinite.
    """
    if resamples < 2:
        raise StatisticsError(f"resamples must be at least 2 (got {resamples!r}).")
    if rows == 0:
        return Summary(n=0, mean=None, stderr=None, ci95=None, method=None)
    value = float(statistic(np.arange(rows)))
    if not math.isfinite(value):
        raise StatisticsError(f"the statistic of all {rows} rows is no finite number ({value}).")
    undefined = Summary(n=rows, mean=value, stderr=None, ci95=None, method=None)
    if rows < 2:
        return undefined
    draws = np.empty(resamples)
    for index in range(resamples):
        draws[index] = statistic(generator.integers(0, rows, size=rows))
        if not math.isfinite(draws[index]):
            return undefined
    lower, upper = np.quantile(draws, (0.025, 0.975)).tolist()
    return Summary(rows, value, float(draws.std(ddof=1)), (lower, upper), "bootstrap")
