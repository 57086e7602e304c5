# SPDX-License-Identifier: Apache-2.0
"""From what callers hold (lists of scores, ids, cluster labels) to checked arrays."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lmeval.statistics.errors import StatisticsError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]
Labels: TypeAlias = Sequence[Hashable]
"""One label a row: an example's id, the name of its cluster or of its group."""

_NUMBERS = (float, int, np.number, np.bool_)

# Beyond this the squares of scores overflow; no metric gives such a value.
_LARGEST_SCORE = 1e150


def score_array(scores: Sequence[float] | FloatArray, name: str = "scores") -> FloatArray:
    """The scores as a one-dimensional array of float64.

    Args:
      scores: numbers or booleans, one a row.
      name: what error messages call them.

    Raises:
      StatisticsError: a score is None, text, NaN or infinite, or the input is nested.
    """
    if not isinstance(scores, np.ndarray):
        for index, score in enumerate(scores):
            # numpy would read "0.5" as a number and None as NaN.
            if not isinstance(score, _NUMBERS):
                raise StatisticsError(f"{name}[{index}] must be a number (got {score!r}).")
    array = np.asarray(scores)
    if array.size == 0:
        return np.zeros(0)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise StatisticsError(f"{name} must be one row of numbers (got {array.dtype} values).")
    array = array.astype(np.float64)
    usable = np.abs(array) <= _LARGEST_SCORE
    if not usable.all():
        index = int(np.argmin(usable))
        raise StatisticsError(f"{name}[{index}] must be a finite number (got {array[index]}).")
    return array


def label_numbers(labels: Labels, rows: int, name: str) -> IntArray:
    """Numbers the labels from 0 by first appearance.

    Args:
      labels: one a row. None is no label: such a row stands alone.
      rows: how many labels there must be.
      name: what error messages call them.

    Raises:
      StatisticsError: the number of labels is not `rows`.
    """
    if len(labels) != rows:
        raise StatisticsError(f"{name} must have one entry a row ({rows}; got {len(labels)}).")
    numbers: dict[Hashable, int] = {}
    return np.fromiter(
        (
            numbers.setdefault(object() if label is None else label, len(numbers))
            for label in labels
        ),
        dtype=np.intp,
        count=rows,
    )


def sums_by_number(values: FloatArray, numbers: IntArray) -> FloatArray:
    """Sums the values of each number 0, 1, ...; the same to the last bit in any order of rows."""
    if values.size == 0:
        return np.zeros(0)
    # Rounding depends on the order of addition, so every sum is taken over sorted values.
    order = np.lexsort((values, numbers))
    ordered_numbers = numbers[order]
    starts = np.flatnonzero(np.diff(ordered_numbers, prepend=-1))
    return np.add.reduceat(values[order], starts)


def average_samples(
    values: FloatArray, examples: Labels | None, clusters: Labels | None
) -> tuple[FloatArray, Labels | None]:
    """Averages repeated samples of one example, because their errors are not independent.

    Args:
      values: one a row.
      examples: the id of each row's example; None when every row is an example of its own.
      clusters: the cluster of each row, or None.

    Returns:
      One value and one cluster an example, examples in order of first appearance.

    Raises:
      StatisticsError: lengths differ, or the rows of one example are in several clusters.
    """
    if clusters is not None and len(clusters) != len(values):
        raise StatisticsError(
            f"clusters must have one entry a row ({len(values)}; got {len(clusters)})."
        )
    if examples is None:
        return values, clusters
    numbers = label_numbers(examples, len(values), "examples")
    means = sums_by_number(values, numbers) / np.bincount(numbers)
    if clusters is None:
        return means, None
    cluster_of: dict[int, Hashable] = {}
    for number, cluster, example in zip(numbers.tolist(), clusters, examples, strict=True):
        if cluster_of.setdefault(number, cluster) != cluster:
            raise StatisticsError(f"example {example!r} is in more than one cluster.")
    return means, list(cluster_of.values())
