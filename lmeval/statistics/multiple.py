# SPDX-License-Identifier: Apache-2.0
"""Correction of p-values for the number of tests made."""

from __future__ import annotations

from collections.abc import Sequence

from lmeval.statistics.errors import StatisticsError


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values, in the order given.

    Calling significant what is below alpha after the adjustment keeps the chance of even one false
    alarm among all tests below alpha, whatever the tests have to do with each other. The k-th
    smallest of m is multiplied by m - k + 1, and none is smaller than one before it. None stands
    for no test: it stays None and does not count.

    Source: Holm 1979.

    Raises:
      StatisticsError: a p-value is not between 0 and 1.
    """
    tests = [(p, index) for index, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, index) in enumerate(sorted(tests)):
        if not 0.0 <= p <= 1.0:
            raise StatisticsError(f"p_values[{index}] must lie between 0 and 1 (got {p!r}).")
        largest = max(largest, min(1.0, (len(tests) - rank) * p))
        adjusted[index] = largest
    return adjusted
