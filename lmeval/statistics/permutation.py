# SPDX-License-Identifier: Apache-2.0
"""The paired permutation (sign-flip) test."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import attrs
import numpy as np

from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.values import FloatArray

PermutationKind: TypeAlias = Literal["permutation exact", "permutation sampled"]

# 2^20 sums are 8 MB and take milliseconds; beyond that sampling is as good and cheaper.
_EXACT_LIMIT = 20
# Signs held at a time: 8 MB as float64, whatever the number of rows or resamples (one resample at
# least).
_SIGNS_AT_ONCE = 1 << 20


@attrs.frozen
class PermutationResult:
    """A p-value and how it was found.

    Attributes:
      p_value: two-sided; never 0.
      kind: "permutation exact" or "permutation sampled".
    """

    p_value: float
    kind: PermutationKind


def sign_flip_test(
    differences: FloatArray, generator: np.random.Generator, resamples: int = 10_000
) -> PermutationResult:
    """Tests whether paired differences are symmetric around 0.

    If it makes no difference which of two models gave which answer, every difference could as well
    have the other sign. The p-value is the share of sign patterns whose sum is at least as far from
    0 as the observed
    one: over all patterns up to 20 differences that are not 0, else over `resamples` random ones,
    as (b + 1) / (m + 1), which is never 0 and keeps the test valid (Phipson and Smyth 2010).

    Only the sizes of the differences enter, in sorted order: the order of rows, the names of files
    and which model comes first do not change the result.

    Args:
      differences: one an independent unit; a row, or the sum over a cluster of rows.
      generator: where the random signs come from; the global random state is not touched.
      resamples: how many random sign patterns to draw, at least 1.

    Raises:
      StatisticsError: `resamples` is below 1.
    """
    if resamples < 1:
        raise StatisticsError(f"resamples must be at least 1 (got {resamples!r}).")
    sizes = np.sort(np.abs(differences[differences != 0.0]))
    # Sums that are equal on paper may differ by rounding; they count as equally far.
    tolerance = 1e-12 * float(sizes.sum())
    observed = abs(math.fsum(differences.tolist())) - tolerance
    if len(sizes) <= _EXACT_LIMIT:
        sums = _all_sums(sizes)
        return PermutationResult(float(np.mean(np.abs(sums) >= observed)), "permutation exact")
    beyond = _count_beyond(sizes, observed, generator, resamples)
    return PermutationResult((beyond + 1) / (resamples + 1), "permutation sampled")


def _all_sums(sizes: FloatArray) -> FloatArray:
    """The sums of all sign patterns whose first sign is plus; the others mirror them."""
    sums = np.array([0.0 if sizes.size == 0 else sizes[0]])
    for size in sizes[1:]:
        sums = np.concatenate((sums + size, sums - size))
    return sums


def _count_beyond(
    sizes: FloatArray, observed: float, generator: np.random.Generator, resamples: int
) -> int:
    total = float(sizes.sum())
    bytes_needed = -(-len(sizes) // 8)
    at_once = max(1, _SIGNS_AT_ONCE // len(sizes))
    beyond = 0
    for start in range(0, resamples, at_once):
        patterns = min(at_once, resamples - start)
        # One random bit a sign costs an eighth of the random bytes that drawing whole signs would.
        random_bytes = np.frombuffer(generator.bytes(patterns * bytes_needed), dtype=np.uint8)
        is_plus = np.unpackbits(
            random_bytes.reshape(patterns, bytes_needed), axis=1, count=len(sizes)
        )
        sums = 2.0 * (is_plus.astype(np.float64) @ sizes) - total
        beyond += int(np.count_nonzero(np.abs(sums) >= observed))
    return beyond
