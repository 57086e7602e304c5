# SPDX-License-Identifier: Apache-2.0
"""Scores that only all rows together have, such as corpus BLEU, and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from lmeval.api.errors import FailedMetricError, MetricError
from lmeval.api.example import Example
from lmeval.api.failures import describe_failure
from lmeval.api.metrics import CountedRows, Metric, RowsPreparation, RowsScore
from lmeval.api.scoring import Answer
from lmeval.api.task import ScoreData, ScoreWithError, is_finite_number

if TYPE_CHECKING:
    import numpy as np

    from lmeval.statistics import RowsStatistic, Summary
    from lmeval.statistics.values import IntArray


def score_rows(metric: Metric, answers: Sequence[Answer]) -> dict[str, float]:
    """Score all answers at once, with a metric of the kind "rows"; failed answers count as "".

    Returns:
      The metric's scores by name.

    Raises:
      FailedMetricError: the metric failed or gave something that is no finite number.
    """
    try:
        value = metric.function(*_columns(answers))
    except MetricError:
        raise
    except Exception as error:
        raise FailedMetricError(
            f"the metric {metric.name!r} failed: {describe_failure(error)}"
        ) from error
    scores: Mapping[str, Any] = value if isinstance(value, Mapping) else {metric.name: value}
    for name, score in scores.items():
        if not is_finite_number(score):
            raise FailedMetricError(
                f"the metric {metric.name!r} gave {score!r} as {name!r}; no number."
            )
    return {name: float(score) for name, score in scores.items()}


def _columns(
    answers: Sequence[Answer],
) -> tuple[list[str], list[Sequence[str]], list[Mapping[str, Any]]]:
    """What a metric of the kind "rows" takes."""
    return (
        ["" if answer.error else answer.prediction for answer in answers],
        [answer.example.targets for answer in answers],
        [answer.example.extras for answer in answers],
    )


def rows_statistic(
    metric: Metric,
    score: str,
    predictions: Sequence[str],
    targets: Sequence[Sequence[str]],
    extras: Sequence[Mapping[str, Any]],
) -> RowsStatistic:
    """A score of a metric of the kind "rows", from how often each row counts.

    Args:
      metric: the metric.
      score: the name of the score, one of those that the metric gives.
      predictions: one a row, as are `targets` and `extras`.
      targets: the row's targets.
      extras: the row's extras.

    Returns:
      The statistic; NaN for rows that have no such score.
    """
    count = (metric.prepare or _repeating(metric))(predictions, targets, extras)

    def statistic(counts: IntArray) -> float:
        try:
            value = count(counts)
        except Exception:
            # All rows together have a score; some of them, drawn at random, need not have one.
            return math.nan
        scores = value if isinstance(value, Mapping) else {metric.name: value}
        value = scores.get(score, math.nan)
        return float(value) if is_finite_number(value) else math.nan

    return statistic


def _repeating(metric: Metric) -> RowsPreparation:
    """Calls the metric itself, with each row as often as it counts."""

    def prepare(
        predictions: Sequence[str],
        targets: Sequence[Sequence[str]],
        extras: Sequence[Mapping[str, Any]],
    ) -> CountedRows:
        rows = list(zip(predictions, targets, extras, strict=True))

        def of_counts(counts: IntArray) -> RowsScore:
            drawn = [row for row, n in zip(rows, counts.tolist(), strict=True) for _ in range(n)]
            columns = [list(column) for column in zip(*drawn, strict=True)]
            return metric.function(*columns) if columns else math.nan

        return of_counts

    return prepare


def rows_summary(
    metric: Metric, score: str, answers: Sequence[Answer], generator: np.random.Generator
) -> Summary | None:
    """Bootstrap error and interval of a score of a metric of the kind "rows".

    Rows of one cluster (`extras.cluster`) are drawn together, and so are samples of one example.

    Args:
      metric: the metric.
      score: the name of the score.
      answers: the answers that were scored.
      generator: source of the draws.

    Returns:
      The summary; None if the metric wants no resamples.
    """
    from lmeval.statistics import bootstrap_summary

    if not metric.resamples:
        return None
    # What is drawn must not depend on the order of rows in a file.
    ordered = sorted(answers, key=lambda answer: answer.example.id)
    return bootstrap_summary(
        rows_statistic(metric, score, *_columns(ordered)),
        len(ordered),
        generator=generator,
        units=[unit_of(answer.example.id, cluster_of(answer.example)) for answer in ordered],
        resamples=metric.resamples,
    )


def cluster_of(example: Example) -> str | None:
    """The group of dependent examples that an example belongs to, from its extras."""
    cluster = example.extras.get("cluster")
    return None if cluster is None else str(cluster) or None


def unit_of(id: str, cluster: str | None) -> tuple[str, str]:
    """What is drawn as one when rows are redrawn: the cluster, or else the example."""
    return ("example", id) if cluster is None else ("cluster", cluster)


def with_error(score: ScoreData, summary: Summary) -> ScoreWithError:
    """The score with the error and the interval that `summary` states."""
    fields = {field.name: getattr(score, field.name) for field in attrs.fields(ScoreData)}
    return ScoreWithError(**fields, stderr=summary.stderr, ci95=summary.ci95)
