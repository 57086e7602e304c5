# SPDX-License-Identifier: Apache-2.0
"""pass@k: the chance that at least one of k samples solves an example."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.summary import Summary, summarize
from lmeval.statistics.values import Labels


def pass_at_k(samples: int, correct: int, k: int) -> float | None:
    """The unbiased estimate of pass@k from one example with `correct` right ones of `samples`.

    1 - C(samples - correct, k) / C(samples, k), in exact integers. None with fewer samples than k:
    then it cannot be estimated, whatever the samples were.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    Raises:
      StatisticsError: `k` is below 1, or `correct` is below 0 or above `samples`.
    """
    if k < 1:
        raise StatisticsError(f"k must be at least 1 (got {k!r}).")
    if not 0 <= correct <= samples:
        raise StatisticsError(f"{correct!r} right ones of {samples!r} samples are not possible.")
    if samples < k:
        return None
    draws = math.comb(samples, k)
    return (draws - math.comb(samples - correct, k)) / draws


def mean_pass_at_k(
    counts: Sequence[tuple[int, int]], k: int, *, clusters: Labels | None = None
) -> Summary:
    """pass@k over examples, each with its own (samples, correct).

    The standard error is over examples, or over clusters of them as in `summarize`. If one example
    has fewer than k samples, the mean is not available.

    Raises:
      StatisticsError: as `pass_at_k` and `summarize`.
    """
    estimates = [pass_at_k(samples, correct, k) for samples, correct in counts]
    available = [estimate for estimate in estimates if estimate is not None]
    if len(available) < len(estimates):
        return Summary(n=len(estimates), mean=None, stderr=None, ci95=None, method=None)
    return summarize(available, clusters=clusters)
