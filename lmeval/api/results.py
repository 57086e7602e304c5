# SPDX-License-Identifier: Apache-2.0
"""TaskResult and Leaderboard: what a run found, made from the ScoreData of its tasks.

`leaderboard_file` writes and reads it; docs/results_format.md describes the format.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from lmeval.api.errors import TaskError
from lmeval.api.model import ModelData
from lmeval.api.subtask_means import whole_summary
from lmeval.api.task import (
    AggregateScore,
    ExampleScore,
    ScoreData,
    ScoreWithError,
    is_finite_number,
    normalized,
)

SCHEMA = "leaderboard.v1"

Interval = tuple[float, float]


@attrs.frozen(kw_only=True)
class SubtaskResult:
    """One ScoreData in full, with the uncertainty that its rows allow to state."""

    subtask_description: str
    score_dict: Mapping[str, Any]
    preferred_score: str
    number_of_shots: int
    low_score: float
    high_score: float
    n: int | None = None
    """Examples; None if the task did not hand out its rows."""
    stderr: float | None = None
    """Standard error of the preferred score; None where undefined."""
    ci95: Interval | None = None
    """95% interval of the preferred score; None where undefined."""
    is_aggregate: bool = False
    """Whether it sums up the others."""

    @property
    def score(self) -> float:
        """The preferred score."""
        return float(self.score_dict[self.preferred_score])

    @property
    def normalized_score(self) -> float | None:
        """The preferred score as `normalized` gives it."""
        return normalized(self.score, self.low_score, self.high_score)


@attrs.frozen(kw_only=True)
class TaskResult:
    """A task's result at one number of shots."""

    task: str
    metric: str
    """The preferred score's name; "mean of …" where sub-tasks prefer different ones."""
    number_of_shots: int
    score: float
    """The preferred score, or the plain mean of the sub-tasks' preferred scores."""
    normalized_score: float | None
    """Mean of (score - low) / (high - low) over the sub-tasks; None where undefined."""
    low_score: float
    high_score: float
    correct: int | None
    """Examples whose score is exactly 1; None where examples have no score of their own."""
    total: int | None
    """Examples, failed ones included; None if the task does not hand out its rows."""
    stderr: float | None
    """Standard error of the score; None where undefined."""
    ci95: Interval | None
    """95% interval of the score; None where undefined."""
    timeouts: int
    """Answers that came too late; each scored 0 and counted in `total`."""
    errors: int
    """Answers that failed otherwise; each scored 0 and counted in `total`."""
    no_answer: int
    """Answers in which answer extraction found none; each scored 0."""
    cut_off: int = 0
    """Answers that ended because the model may write no more, so that their end is missing."""
    outcomes: Mapping[str, int] = attrs.field(factory=dict)
    """How model-written code ended ("ok", "error", "timeout", …) and how often, if any was run."""
    isolation: str | None = None
    """What held that code in: "required" (all of it) or "reduced"; None if none was run."""
    sha256: str
    """Hash of the task's content; see `registry.content_hash`."""
    score_dict: Mapping[str, Any]
    """Every score of the task; means over the sub-tasks that have it."""
    subtasks: tuple[SubtaskResult, ...]
    """What `evaluate_model` returned."""
    per_example: tuple[tuple[str, ExampleScore], ...] = attrs.field(default=(), repr=False)
    """Every scored answer with the description of its sub-task."""
    latency_ms: float | None = None
    """Wall time of the task in milliseconds."""

    @property
    def failures(self) -> int:
        """Answers that timed out or failed."""
        return self.timeouts + self.errors


@attrs.frozen(kw_only=True)
class TaskFailure:
    """A task that gave no result."""

    task: str
    reason: str


@attrs.frozen(kw_only=True)
class Leaderboard:
    """The results of one run of one model, and all that is needed to repeat it."""

    adapter: str
    """The model's name."""
    model: ModelData
    fingerprint: str | None
    """What identifies the model's answers; None if the model cannot state it."""
    tasks: tuple[TaskResult, ...]
    failed_tasks: tuple[TaskFailure, ...] = ()
    seed: int | None = None
    flags: Mapping[str, Any] = attrs.field(factory=dict)
    """The settings of the run that can change a score."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """Versions of lmeval, Python and the libraries."""
    sandbox: Mapping[str, Any] | None = None
    """What held model-written code in; None if none was run."""
    timestamp: str = ""
    """When the run began, in UTC (ISO 8601)."""
    timing: Mapping[str, Any] = attrs.field(factory=dict)
    """Everything else that depends on the clock or on what was stored before."""

    @property
    def overall_score(self) -> float | None:
        """Plain mean of the tasks' scores; None without tasks, or where a task gave no result."""
        return None if self.failed_tasks else _mean([task.score for task in self.tasks])

    @property
    def overall_normalized_score(self) -> float | None:
        """Plain mean of the tasks' normalized scores: the one to read where scales differ."""
        if self.failed_tasks:
            return None
        return _mean_if_all(task.normalized_score for task in self.tasks)

    @property
    def failures(self) -> int:
        """Failed answers and failed tasks."""
        return sum(task.failures for task in self.tasks) + len(self.failed_tasks)


def task_results(
    task: str,
    scores: ScoreData | Sequence[ScoreData],
    sha256: str,
    latency_ms: float | None = None,
    counted_failures: tuple[int, int] = (0, 0),
) -> list[TaskResult]:
    """Make the results of a task, one for each number of shots, in order of appearance.

    Args:
      task: the task's name.
      scores: what `evaluate_model` returned.
      sha256: the hash of the task's content.
      latency_ms: wall time of the whole task, divided evenly among its results.
      counted_failures: timeouts and errors as the engine counted them, for tasks that do not hand
        out their rows.
    """
    by_shots: dict[int, list[ScoreData]] = {}
    for score in [scores] if isinstance(scores, ScoreData) else scores:
        by_shots.setdefault(int(score.number_of_shots), []).append(score)
    share = None if latency_ms is None else latency_ms / len(by_shots)
    results = []
    for shots, group in by_shots.items():
        has_rows = any(score.per_example for score in group)
        results.append(
            _task_result(
                task, shots, group, sha256, share, (0, 0) if has_rows else counted_failures
            )
        )
        if not has_rows:
            counted_failures = (0, 0)  # the engine counts per task: they are shown once
    return results


def _task_result(
    task: str,
    shots: int,
    scores: list[ScoreData],
    sha256: str,
    latency_ms: float | None,
    counted_failures: tuple[int, int],
) -> TaskResult:
    subtasks = tuple(_subtask_result(score) for score in scores)
    parts = [part for part in subtasks if not part.is_aggregate] or list(subtasks)
    whole = _whole(subtasks)
    score = whole.score if whole else _required_mean([part.score for part in parts])
    normalized = _mean_if_all(part.normalized_score for part in parts)
    mean = whole_summary(parts, whole)
    rows = [(score.subtask_description, row) for score in scores for row in score.per_example]
    timeouts = sum(row.error == "timeout" for _, row in rows)
    errors = sum(row.error is not None for _, row in rows) - timeouts
    if not rows:
        timeouts, errors = counted_failures
    return TaskResult(
        task=task,
        metric=whole.preferred_score if whole else _common_metric(parts),
        number_of_shots=shots,
        score=score,
        normalized_score=whole.normalized_score if whole else normalized,
        low_score=whole.low_score if whole else _required_mean([p.low_score for p in parts]),
        high_score=whole.high_score if whole else _required_mean([p.high_score for p in parts]),
        correct=_correct(rows),
        total=_sum_if_all(part.n for part in parts),
        stderr=None if mean is None else mean.stderr,
        ci95=None if mean is None else mean.ci95,
        timeouts=timeouts,
        errors=errors,
        no_answer=sum(row.no_answer for _, row in rows),
        cut_off=sum(row.finish_reason == "length" for _, row in rows),
        outcomes=_outcomes(rows),
        sha256=sha256,
        score_dict=whole.score_dict if whole else _mean_scores(parts),
        subtasks=subtasks,
        per_example=tuple(rows),
        latency_ms=latency_ms,
    )


def _whole(subtasks: Sequence[SubtaskResult]) -> SubtaskResult | None:
    """The one that stands for the task: its aggregate, or the only one there is."""
    aggregates = [part for part in subtasks if part.is_aggregate]
    if aggregates:
        return aggregates[-1]
    return subtasks[0] if len(subtasks) == 1 else None


def _subtask_result(score: ScoreData) -> SubtaskResult:
    n, stderr, ci95 = _row_statistics(score)
    return SubtaskResult(
        subtask_description=score.subtask_description,
        score_dict=dict(score.score_dict),
        preferred_score=score.preferred_score,
        number_of_shots=int(score.number_of_shots),
        low_score=float(score.low_score),
        high_score=float(score.high_score),
        n=n,
        stderr=stderr,
        ci95=ci95,
        is_aggregate=isinstance(score, AggregateScore),
    )


def _row_statistics(score: ScoreData) -> tuple[int | None, float | None, Interval | None]:
    rows = score.per_example
    if not rows:
        if isinstance(score, ScoreWithError):
            return None, score.stderr, score.ci95
        return None, None, None
    n = len({row.id for row in rows})
    if isinstance(score, ScoreWithError):
        return n, score.stderr, score.ci95
    values = [row.score for row in rows if row.score is not None]
    if len(values) < len(rows):
        return n, None, None
    from lmeval.statistics import StatisticsError, summarize

    several = n < len(rows)
    # Whether scores are of the kind "right or wrong" shows only on a scale from 0 to 1.
    scale = max(1.0, float(score.high_score))
    try:
        summary = summarize(
            [value / scale for value in values],
            examples=[row.id for row in rows] if several else None,
            clusters=[row.cluster or None for row in rows]
            if any(r.cluster for r in rows)
            else None,
        )
    except StatisticsError as error:
        raise TaskError(f"The rows of {score.subtask_description or 'the task'}: {error}") from None
    # Rows speak for the preferred score only where it is their mean (pass@5, say, is not).
    if summary.mean is None or not math.isclose(summary.mean * scale, score.score, abs_tol=1e-9):
        return n, None, None
    stderr = None if summary.stderr is None else summary.stderr * scale
    ci95 = None if summary.ci95 is None else (summary.ci95[0] * scale, summary.ci95[1] * scale)
    return n, stderr, ci95


def _correct(rows: Sequence[tuple[str, ExampleScore]]) -> int | None:
    if not rows or any(row.score is None for _, row in rows):
        return None
    wrong = {(part, row.id) for part, row in rows if row.score != 1.0}
    return len({(part, row.id) for part, row in rows} - wrong)


def _outcomes(rows: Sequence[tuple[str, ExampleScore]]) -> dict[str, int]:
    """The outcomes of executed code, most frequent first."""
    counts = Counter(row.details["outcome"] for _, row in rows if "outcome" in row.details)
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))


def _common_metric(parts: Sequence[SubtaskResult]) -> str:
    names = sorted({part.preferred_score for part in parts})
    return names[0] if len(names) == 1 else f"mean of {', '.join(names)}"


def _mean_scores(parts: Sequence[SubtaskResult]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part.score_dict)
    means = {}
    for name in names:
        values = [part.score_dict[name] for part in parts if name in part.score_dict]
        if all(is_finite_number(value) for value in values):
            means[name] = _required_mean([float(value) for value in values])
    return means


def _required_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _mean(values: Sequence[float]) -> float | None:
    return _required_mean(values) if values else None


def _mean_if_all(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    present = [value for value in listed if value is not None]
    return _mean(present) if len(present) == len(listed) else None


def _sum_if_all(values: Iterable[int | None]) -> int | None:
    listed = list(values)
    present = [value for value in listed if value is not None]
    return sum(present) if present and len(present) == len(listed) else None
