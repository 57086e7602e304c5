# SPDX-License-Identifier: Apache-2.0
"""The rows of one task in two runs, A and B, matched by sub-task, id and sample."""

from __future__ import annotations

import attrs
import numpy as np

from lmeval.api.errors import MissingExtraError, ResultsError
from lmeval.api.results import TaskResult
from lmeval.api.score_bases import Basis, RowKey, RowPair, common_basis
from lmeval.api.task import ExampleScore, is_finite_number
from lmeval.statistics import PairedComparison, StatisticsError, pair_keys


@attrs.frozen(kw_only=True)
class PairedRows:
    """The rows of a task that both runs have, and those that only one has."""

    pairs: tuple[RowPair, ...] = ()
    only_in_a: tuple[RowKey, ...] = ()
    only_in_b: tuple[RowKey, ...] = ()
    basis: Basis | None = None
    """How both reported scores follow from the rows; None if the rows cannot stand for them."""
    obstacle: str | None = None
    """Why they cannot; None if they can."""


def pair_rows(first: TaskResult, second: TaskResult) -> PairedRows:
    """Match a task's rows in A with those in B.

    Raises:
      ResultsError: a row stands there twice, its id is no text, or its score is beyond all bounds.
    """
    rows_a, rows_b = _rows_by_key(first, "A"), _rows_by_key(second, "B")
    without = [side for side, rows in (("A", rows_a), ("B", rows_b)) if not rows]
    if without:
        # Then the other's rows are not "only in" it: nobody knows what this one was asked.
        holders = f"{' and '.join(without)} {'holds' if len(without) == 1 else 'hold'}"
        return PairedRows(obstacle=f"{holders} no rows (--include_per_example writes them)")
    pairing = pair_keys(rows_a, rows_b)
    basis, obstacle = None, None
    if not pairing.common:
        obstacle = "A and B have no row in common"
    else:
        try:
            basis = common_basis(first, rows_a, second, rows_b)
        except MissingExtraError as missing:
            obstacle = f"the rows cannot be scored anew: {missing}"
        except StatisticsError as error:
            raise _not_comparable(first.task, error) from None
        else:
            if basis is None:
                obstacle = "the reported score is not the mean of its rows"
    return PairedRows(
        pairs=tuple(RowPair(key, rows_a[key], rows_b[key]) for key in pairing.common),
        only_in_a=pairing.only_in_a,
        only_in_b=pairing.only_in_b,
        basis=basis,
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


def compare_rows(task: str, rows: PairedRows, seed: int, resamples: int) -> PairedComparison | None:
    """Compare B with A on the rows that both have.

    Args:
      task: its name, for error messages.
      rows: the rows.
      seed: seeds whatever the test draws.
      resamples: how often it draws.

    Returns:
      The comparison; None if the rows cannot stand for the reported scores.

    Raises:
      ResultsError: samples of one example belong to different clusters.
    """
    if rows.basis is None:
        return None
    try:
        return rows.basis.compare(rows.pairs, np.random.default_rng(seed), resamples)
    except StatisticsError as error:
        raise _not_comparable(task, error) from None


def _not_comparable(task: str, error: StatisticsError) -> ResultsError:
    return ResultsError(f"the rows of task {task} cannot be compared: {error}")


def flipped(rows: PairedRows, lower_is_better: bool) -> tuple[RowPair, ...]:
    """The pairs whose scores differ: B's losses first, larger changes first."""
    sign = -1.0 if lower_is_better else 1.0
    changed = [pair for pair in rows.pairs if pair.change != 0.0]
    changed.sort(key=lambda pair: (sign * pair.change > 0, -abs(pair.change), pair.key))
    return tuple(changed)
