# SPDX-License-Identifier: Apache-2.0
"""The scores of a task over its sub-tasks, as BIG-bench sums them up."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import attrs

from lmeval.api.errors import TaskError
from lmeval.api.task import AggregateScore, ScoreData, ScoreWithError, is_finite_number

NORMALIZED = "normalized_aggregate_score"
"""100 x the mean of (preferred score - low) / (high - low) over the sub-tasks."""


def add_aggregate_scores(task_name: str, scores: Sequence[ScoreData]) -> list[ScoreData]:
    """Add to the scores of a task, for each number of shots, the one of the task as a whole.

    A score whose description is the task's name is the whole: it gets the normalized score, and its
    other scores are made anew if there are sub-tasks beside it. Without such a score one is added
    at the end. Scores of the same description and number of shots are told apart by "trial_0",
    "trial_1" and so on behind the description.

    Args:
      task_name: the task's name.
      scores: those of the task; at least one.

    Returns:
      The scores in their order, then those that were added, by number of shots.

    Raises:
      TaskError: a sub-task's low and high score are the same, so that nothing can be normalized.
    """
    scores = _told_apart(scores)
    by_shots: dict[int, list[ScoreData]] = {}
    for score in scores:
        by_shots.setdefault(score.number_of_shots, []).append(score)
    wholes = {shots: _whole(task_name, shots, group) for shots, group in by_shots.items()}
    result = []
    for score in scores:
        if score.subtask_description == task_name:
            result.append(_replaced(score, wholes.pop(score.number_of_shots)))
        else:
            result.append(score)
    added = (AggregateScore(**fields) for _, fields in sorted(wholes.items()))
    return [*result, *added]


def _told_apart(scores: Sequence[ScoreData]) -> list[ScoreData]:
    keys = [(score.number_of_shots, score.subtask_description) for score in scores]
    result = []
    for number, (score, key) in enumerate(zip(scores, keys, strict=True)):
        if keys.count(key) > 1:
            trial = f"{key[1]}trial_{keys[:number].count(key)}"
            score = attrs.evolve(score, subtask_description=trial)
        result.append(score)
    return result


def _whole(task_name: str, shots: int, group: Sequence[ScoreData]) -> dict[str, Any]:
    """The fields of the score that stands for all of `group`, which has one number of shots."""
    subtasks = [score for score in group if score.subtask_description != task_name]
    parts = subtasks or group
    fields = {
        "score_dict": _mean_scores(parts) | {NORMALIZED: 100 * _mean_normalized(parts)},
        "number_of_shots": shots,
        "subtask_description": task_name,
    }
    if {part.preferred_score for part in parts} == {"multiple_choice_grade"}:
        low = float(statistics.mean(part.low_score for part in parts))
        scale = {"preferred_score": "multiple_choice_grade", "low_score": low, "high_score": 1.0}
    elif subtasks:
        scale = {"preferred_score": NORMALIZED, "low_score": 0.0, "high_score": 100.0}
    else:
        names = ("preferred_score", "low_score", "high_score")
        scale = {name: getattr(group[0], name) for name in names}
    return fields | scale


def _mean_scores(parts: Sequence[ScoreData]) -> dict[str, float]:
    """The plain mean of each score over the sub-tasks that have it as a number."""
    means = {}
    for name in dict.fromkeys(name for part in parts for name in part.score_dict):
        values = [part.score_dict[name] for part in parts if name in part.score_dict]
        if all(map(is_finite_number, values)):
            means[name] = float(statistics.mean(values))
    return means


def _mean_normalized(parts: Sequence[ScoreData]) -> float:
    normalized = []
    for part in parts:
        value = part.normalized_score
        if value is None:
            raise TaskError(
                f"The low and the high score of {part.subtask_description!r} are both "
                f"{part.low_score:g}, so that its score cannot be normalized."
            )
        normalized.append(value)
    return float(statistics.mean(normalized))


def _replaced(score: ScoreData, fields: dict[str, Any]) -> ScoreData:
    replaced = attrs.evolve(score, **fields)
    if isinstance(replaced, ScoreWithError) and replaced.score != score.score:
        return attrs.evolve(replaced, stderr=None, ci95=None)  # they were those of another number
    return replaced
