# SPDX-License-Identifier: Apache-2.0
"""A leaderboard in the layout of BIG-bench's own result files.

BIG-bench keeps one file for each task and model, `TASK/results/scores_FAMILY_MODEL.json`, with the
scores as they are; its loader multiplies some of them by 100.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

from lmeval.api.errors import ResultsError
from lmeval.api.model import ModelData
from lmeval.api.results import Leaderboard, SubtaskResult
from lmeval.api.task import ScoreData, is_finite_number
from lmeval.bigbench.aggregates import add_aggregate_scores


def result_files(board: Leaderboard) -> Iterator[tuple[PurePosixPath, dict[str, Any]]]:
    """The files that BIG-bench would have written: relative path and content, by task.

    Raises:
      TaskError: a score of a task cannot be normalized.
    """
    model = {**attrs.asdict(board.model), "additional_details": ""}
    for task in dict.fromkeys(result.task for result in board.tasks):
        parts = [
            part
            for result in board.tasks
            if result.task == task
            for part in result.subtasks
            if not part.is_aggregate
        ]
        scores = add_aggregate_scores(task, [_score(part) for part in _in_bigbenchs_order(parts)])
        content = {
            "scores": [_score_to_json(score) for score in scores],
            "task": {"task_name": task},
            "model": model,
            "queries": [],
        }
        yield PurePosixPath(task, "results", file_name(board.model)), content


def file_name(model: ModelData) -> str:
    """The name of a result file; whatever could trouble a file system becomes "_"."""
    name = f"scores_{model.model_family}_{model.model_name}"
    return re.sub(r"[^\w\-=]+", "_", name) + ".json"


def write_result_file(path: Path, content: Mapping[str, Any]) -> Path | None:
    """Write a result file; a file that is there already is renamed as BIG-bench renames it.

    Returns:
      The new name of the file that was there; None if there was none.

    Raises:
      ResultsError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backup = _set_aside(path) if path.exists() else None
        temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
        temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", "utf-8")
        temporary.replace(path)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written: {error.strerror or error}.") from error
    return backup


def _set_aside(path: Path) -> Path:
    number = 1
    while (backup := path.with_name(f"{path.name}.backup_{number:06d}")).exists():
        number += 1
    path.rename(backup)
    return backup


def _in_bigbenchs_order(parts: Sequence[SubtaskResult]) -> list[SubtaskResult]:
    """Sub-task after sub-task, each with all its numbers of shots."""
    names = list(dict.fromkeys(part.subtask_description for part in parts))
    return sorted(parts, key=lambda part: names.index(part.subtask_description))


def _score(part: SubtaskResult) -> ScoreData:
    return ScoreData(
        {name: value for name, value in part.score_dict.items() if is_finite_number(value)},
        part.preferred_score,
        part.number_of_shots,
        part.low_score,
        part.high_score,
        part.subtask_description,
    )


def _score_to_json(score: ScoreData) -> dict[str, Any]:
    return {
        "score_dict": dict(score.score_dict),
        "preferred_score": score.preferred_score,
        "number_of_shots": score.number_of_shots,
        "low_score": score.low_score,
        "high_score": score.high_score,
        "subtask_description": score.subtask_description,
    }
