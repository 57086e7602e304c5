# SPDX-License-Identifier: Apache-2.0
"""How a reported score follows from its rows, which decides how two runs' rows are compared."""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from lmeval.api.errors import MetricError
from lmeval.api.metrics import Metric, find_metric
from lmeval.api.results import TaskResult
from lmeval.api.rows_scoring import rows_statistic, unit_of
from lmeval.api.subtask_means import ScaleChange
from lmeval.api.task import ExampleScore
from lmeval.statistics import (
    PairedComparison,
    RowsStatistic,
    compare_paired,
    compare_resampled,
    macro_mean,
    mean_pass_at_k,
    pass_at_k,
    summarize,
)

RowKey: TypeAlias = tuple[str, str, int]
"""A row's sub-task, id and sample."""
Rows: TypeAlias = Mapping[RowKey, ExampleScore]

_PASS_AT_K = re.compile(r"pass@([1-9][0-9]*)")


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

    @property
    def cluster(self) -> str | None:
        """The cluster of the example."""
        return self.a.cluster or self.b.cluster or None


class Basis(abc.ABC):
    """One way in which a score can follow from rows."""

    @abc.abstractmethod
    def score_of(self, rows: Rows) -> float | None:
        """The score of these rows; None if rows like these have none."""

    @abc.abstractmethod
    def compare(
        self, pairs: Sequence[RowPair], generator: np.random.Generator, resamples: int
    ) -> PairedComparison:
        """Compare B with A.

        Args:
          pairs: at least one, of rows that `score_of` takes.
          generator: source of whatever is drawn.
          resamples: how often a test draws.

        Raises:
          StatisticsError: samples of one example belong to different clusters.
        """


@attrs.frozen
class MeanOfRows(Basis):
    """The mean over examples of the rows' scores, or the plain mean of the sub-tasks' means."""

    by_subtask: bool
    unit: float = 1.0
    """What is divided by for comparing: on a scale up to 100, 0 and 100 are wrong and right."""
    changes: Mapping[str, ScaleChange] = attrs.field(factory=dict)
    """By sub-task: how its rows' scores are put on the scale of the whole; {}: they are on it."""

    def score_of(self, rows: Rows) -> float | None:
        """See `Basis.score_of`."""
        groups: dict[str, list[tuple[tuple[str, str], float]]] = {}
        for (subtask, example, _), row in rows.items():
            if row.score is None:
                return None
            group = groups.setdefault(subtask if self.by_subtask else "", [])
            group.append(((subtask, example), self._on_scale(subtask, row.score)))
        return macro_mean(
            [
                summarize([score for _, score in group], examples=[example for example, _ in group])
                for group in groups.values()
            ]
        ).mean

    def compare(
        self, pairs: Sequence[RowPair], generator: np.random.Generator, resamples: int
    ) -> PairedComparison:
        """See `Basis.compare`."""
        clusters = [pair.cluster for pair in pairs]
        result = compare_paired(
            [self._on_scale(pair.key[0], pair.a.score or 0.0) / self.unit for pair in pairs],
            [self._on_scale(pair.key[0], pair.b.score or 0.0) / self.unit for pair in pairs],
            generator=generator,
            examples=[pair.key[:2] for pair in pairs],
            clusters=clusters if any(clusters) else None,
            groups=[pair.key[0] for pair in pairs] if self.by_subtask else None,
            resamples=resamples,
        )
        return result if self.unit == 1.0 else _multiplied(result, self.unit)

    def _on_scale(self, subtask: str, score: float) -> float:
        change = self.changes.get(subtask)
        return score if change is None else change(score)


def _multiplied(result: PairedComparison, unit: float) -> PairedComparison:
    def multiplied(value: float | None) -> float | None:
        return None if value is None else value * unit

    return attrs.evolve(
        result,
        mean_a=multiplied(result.mean_a),
        mean_b=multiplied(result.mean_b),
        difference=multiplied(result.difference),
        stderr=multiplied(result.stderr),
        ci95=None if result.ci95 is None else (result.ci95[0] * unit, result.ci95[1] * unit),
        detectable=multiplied(result.detectable),
    )


@attrs.frozen
class PassAtK(Basis):
    """The mean over examples of the chance that one of k samples is right."""

    k: int

    def score_of(self, rows: Rows) -> float | None:
        """See `Basis.score_of`."""
        if not _are_of_one_subtask(rows):
            return None
        samples: dict[str, list[bool]] = {}
        for (_, example, _), row in rows.items():
            samples.setdefault(example, []).append(row.score == 1.0)
        return mean_pass_at_k([(len(own), sum(own)) for own in samples.values()], self.k).mean

    def compare(
        self, pairs: Sequence[RowPair], generator: np.random.Generator, resamples: int
    ) -> PairedComparison:
        """See `Basis.compare`."""
        by_example: dict[str, list[RowPair]] = {}
        for pair in pairs:
            by_example.setdefault(pair.key[1], []).append(pair)
        # Rows that both have may be fewer than k for an example that had enough in each run.
        usable = [own for own in by_example.values() if len(own) >= self.k]
        clusters = [own[0].cluster for own in usable]
        return compare_paired(
            [self._estimate([pair.a for pair in own]) for own in usable],
            [self._estimate([pair.b for pair in own]) for own in usable],
            generator=generator,
            clusters=clusters if any(clusters) else None,
            resamples=resamples,
        )

    def _estimate(self, rows: Sequence[ExampleScore]) -> float:
        return pass_at_k(len(rows), sum(row.score == 1.0 for row in rows), self.k) or 0.0


@attrs.frozen
class ScoreOfAllRows(Basis):
    """A score that only all rows together have; from predictions and targets, without extras."""

    metric: Metric
    score: str

    def score_of(self, rows: Rows) -> float | None:
        """See `Basis.score_of`."""
        if not rows or not _are_of_one_subtask(rows):
            return None
        value = self._statistic(list(rows.values()))(np.ones(len(rows), dtype=np.intp))
        return value if math.isfinite(value) else None

    def compare(
        self, pairs: Sequence[RowPair], generator: np.random.Generator, resamples: int
    ) -> PairedComparison:
        """See `Basis.compare`."""
        # What is drawn must not depend on the order of rows in a file.
        ordered = sorted(pairs, key=lambda pair: pair.key)
        result = compare_resampled(
            self._statistic([pair.a for pair in ordered] + [pair.b for pair in ordered]),
            len(ordered),
            generator=generator,
            units=[unit_of(pair.key[1], pair.cluster) for pair in ordered],
            resamples=resamples,
        )
        return attrs.evolve(result, n=len({pair.key[:2] for pair in pairs}))

    def _statistic(self, rows: Sequence[ExampleScore]) -> RowsStatistic:
        return rows_statistic(
            self.metric,
            self.score,
            ["" if row.error else row.prediction for row in rows],
            [row.targets for row in rows],
            [{} for _ in rows],
        )


def common_basis(first: TaskResult, rows_a: Rows, second: TaskResult, rows_b: Rows) -> Basis | None:
    """The way in which both reported scores follow from their rows; None if there is none known.

    Raises:
      MissingExtraError: a metric that would score the rows anew needs a package.
    """
    for basis in _possible_bases(first):
        if _explains(basis, first, rows_a) and _explains(basis, second, rows_b):
            return basis
    return None


def _possible_bases(result: TaskResult) -> Iterator[Basis]:
    parts = [part for part in result.subtasks if not part.is_aggregate]
    wholes = [part for part in result.subtasks if part.is_aggregate]
    highs = {part.high_score for part in parts}
    unit = max(1.0, *highs) if len(highs) == 1 else 1.0
    yield MeanOfRows(by_subtask=True, unit=unit)
    yield MeanOfRows(by_subtask=False, unit=unit)
    if wholes:
        changes = {
            part.subtask_description: ScaleChange.between(part, wholes[-1]) for part in parts
        }
        usable = {name: change for name, change in changes.items() if change is not None}
        if len(usable) == len(parts):
            unit = max(1.0, wholes[-1].high_score)
            yield MeanOfRows(by_subtask=True, unit=unit, changes=usable)
    if match := _PASS_AT_K.fullmatch(result.metric):
        yield PassAtK(int(match[1]))
    for name in result.score_dict:
        try:
            metric = find_metric(name)
        except MetricError:
            continue  # a metric of the user's, who need not have loaded it here
        # Without a preparation thousands of resamples would call the metric thousands of times.
        if metric.prepare is not None:
            yield ScoreOfAllRows(metric, result.metric)


def _explains(basis: Basis, result: TaskResult, rows: Rows) -> bool:
    score = basis.score_of(rows)
    return score is not None and math.isclose(score, result.score, rel_tol=1e-9, abs_tol=1e-9)


def _are_of_one_subtask(rows: Collection[RowKey]) -> bool:
    return len({subtask for subtask, _, _ in rows}) == 1
