# SPDX-License-Identifier: Apache-2.0
"""The rows of one task in two runs, A and B, matched by sub-task, id and sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import attrs
import numpy as np

from lmeval.api.errors import ResultsError
from lmeval.api.results import TaskResult
from lmeval.api.task import ExampleScore, is_finite_number
from lmeval.statistics import (
    PairedComparison,
    StatisticsError,
    compare_paired,
    macro_mean,
    pair_keys,
    summarize,
)

RowKey: TypeAlias = tuple[str, str, int]
"""A row's sub-task, id and sample."""
Rows: TypeAlias = Mapping[RowKey, ExampleScore]


@attrs.frozen
class RowPair:
    """One answer in both runs."""

    key: RowKey
    a: ExampleScore
    b: ExampleScore

    @property
    def change(self) -> float:
        """B's score minus A's; 0 where one of them has none."""
        if self.a.score is None or self.b.score is None:
            return 0.0
        return self.b.score - self.a.score


@attrs.frozen(kw_only=True)
class PairedRows:
    """The rows of a task that both runs have, and those that only one has."""

    pairs: tuple[RowPair, ...] = ()
    only_in_a: tuple[RowKey, ...] = ()
    only_in_b: tuple[RowKey, ...] = ()
    by_subtask: bool = False
    """Whether the reported scores are the means of the sub-tasks' means, not of all rows."""
    obstacle: str | None = None
    """Why the pairs cannot stand for the reported scores; None if they can."""


def pair_rows(first: TaskResult, second: TaskResult) -> PairedRows:
    """Match a task's rows in A with those in B.

    Raises:
      ResultsError: a row stands there twice, or its id is no text.
    """
    rows_a, rows_b = _rows_by_key(first, "A"), _rows_by_key(second, "B")
    without = [side for side, rows in (("A", rows_a), ("B", rows_b)) if not rows]
    if without:
        # Then the other's rows are not "only in" it: nobody knows what this one was asked.
        holders = f"{' and '.join(without)} {'holds' if len(without) == 1 else 'hold'}"
        return PairedRows(obstacle=f"{holders} no rows (--include_per_example writes them)")
    pairing = pair_keys(rows_a, rows_b)
    by_subtask = _is_mean(first, rows_a, True) and _is_mean(second, rows_b, True)
    obstacle = None
    if not pairing.common:
        obstacle = "A and B have no row in common"
    elif not by_subtask and not (
        _is_mean(first, rows_a, False) and _is_mean(second, rows_b, False)
    ):
        obstacle = "the reported score is not the mean of its rows"
    return PairedRows(
        pairs=tuple(RowPair(key, rows_a[key], rows_b[key]) for key in pairing.common),
        only_in_a=pairing.only_in_a,
        only_in_b=pairing.only_in_b,
        by_subtask=by_subtask,
        obstacle=obstacle,
    )


def _rows_by_key(result: TaskResult, side: str) -> dict[RowKey, ExampleScore]:
    rows: dict[RowKey, ExampleScore] = {}
    for subtask, row in result.per_example:
        if not isinstance(row.id, str) or not isinstance(row.cluster, str | None):
            raise ResultsError(
                f"{side}, task {result.task}: 'id' and 'cluster' of a row must be text "
                f"(got {row.id!r} and {row.cluster!r})."
            )
        if row.score is not None and not is_finite_number(row.score):
            raise ResultsError(
                f"{side}, task {result.task}, row {row.id!r}: 'score' must be a number or null "
                f"(got {row.score!r})."
            )
        key = subtask, row.id, row.sample
        if key in rows:
            raise ResultsError(
                f"{side}, task {result.task}: the row {row.id!r}, sample {row.sample}, stands "
                "there twice."
            )
        rows[key] = row
    return rows


def _is_mean(result: TaskResult, rows: Rows, by_subtask: bool) -> bool:
    """Whether the reported score is the mean of the rows' scores."""
    groups: dict[str, list[tuple[tuple[str, str], float]]] = {}
    for (subtask, example, _), row in rows.items():
        if row.score is None:
            return False
        group = groups.setdefault(subtask if by_subtask else "", [])
        group.append(((subtask, example), row.score))
    mean = macro_mean(
        [
            summarize([score for _, score in group], examples=[example for example, _ in group])
            for group in groups.values()
        ]
    ).mean
    return mean is not None and math.isclose(mean, result.score, rel_tol=1e-9, abs_tol=1e-9)


def compare_rows(task: str, rows: PairedRows, seed: int, resamples: int) -> PairedComparison:
    """Compare B with A on the rows that both have.

    Args:
      task: its name, for error messages.
      rows: with at least one pair, and no obstacle.
      seed: seeds the random signs of the permutation test.
      resamples: how many sign patterns it draws.

    Raises:
      ResultsError: samples of one example belong to different clusters.
    """
    clusters = [pair.a.cluster or pair.b.cluster for pair in rows.pairs]
    subtasks = [pair.key[0] for pair in rows.pairs]
    try:
        return compare_paired(
            [pair.a.score or 0.0 for pair in rows.pairs],
            [pair.b.score or 0.0 for pair in rows.pairs],
            generator=np.random.default_rng(seed),
            examples=[pair.key[:2] for pair in rows.pairs],
            clusters=clusters if any(clusters) else None,
            groups=subtasks if rows.by_subtask else None,
            resamples=resamples,
        )
    except StatisticsError as error:
        raise ResultsError(f"the rows of task {task} cannot be compared: {error}") from None


def flipped(rows: PairedRows, lower_is_better: bool) -> tuple[RowPair, ...]:
    """The pairs whose scores differ: B's losses first, larger changes first."""
    sign = -1.0 if lower_is_better else 1.0
    changed = [pair for pair in rows.pairs if pair.change != 0.0]
    changed.sort(key=lambda pair: (sign * pair.change > 0, -abs(pair.change), pair.key))
    return tuple(changed)
