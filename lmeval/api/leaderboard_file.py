# SPDX-License-Identifier: Apache-2.0
"""Writing leaderboard.json; docs/results_format.md describes the format."""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from lmeval.api import strict_json
from lmeval.api.errors import ResultsError
from lmeval.api.leaderboard_reading import read_leaderboard
from lmeval.api.results import SCHEMA, Leaderboard, SubtaskResult, TaskResult
from lmeval.api.task import ExampleScore

TIME_FIELDS = frozenset({"timestamp", "timing", "latency_ms"})
"""The names under which everything stands that depends on the clock."""

_OPTIONAL_ROW_FIELDS = (
    "raw_prediction",
    "error",
    "no_answer",
    "finish_reason",
    "cluster",
    "scores",
    "details",
)


def leaderboard_to_json(board: Leaderboard, include_per_example: bool = False) -> dict[str, Any]:
    """The leaderboard as JSON values; a number that is not finite becomes null with a reason."""
    value = {
        "schema": SCHEMA,
        "timestamp": board.timestamp,
        "overall_score": board.overall_score,
        "overall_normalized_score": board.overall_normalized_score,
        "adapter": board.adapter,
        "model": attrs.asdict(board.model),
        "fingerprint": board.fingerprint,
        "seed": board.seed,
        "flags": dict(board.flags),
        "environment": dict(board.environment),
        "tasks": [_task_to_json(task, include_per_example) for task in board.tasks],
        "failed_tasks": [attrs.asdict(failure) for failure in board.failed_tasks],
        "timing": dict(board.timing),
    }
    if board.sandbox is not None:
        value["sandbox"] = dict(board.sandbox)
    return {key: entry if key == "tasks" else plain(entry) for key, entry in value.items()}


def _task_to_json(task: TaskResult, include_per_example: bool) -> dict[str, Any]:
    value = {
        field.name: plain(getattr(task, field.name))
        for field in attrs.fields(TaskResult)
        if field.name not in ("subtasks", "per_example")
    }
    value["subtasks"] = [plain(_subtask_to_json(part)) for part in task.subtasks]
    if include_per_example:
        several = len(task.subtasks) > 1
        value["per_example"] = [
            row_to_json(row, part if several else None) for part, row in task.per_example
        ]
    return value


def _subtask_to_json(part: SubtaskResult) -> dict[str, Any]:
    value = attrs.asdict(part)
    undefined = {
        str(name): repr(score)
        for name, score in part.score_dict.items()
        if isinstance(score, numbers.Real) and not math.isfinite(score)
    }
    if undefined:
        value["undefined_scores"] = undefined
    return value


def row_to_json(row: ExampleScore, subtask: str | None = None) -> dict[str, Any]:
    """A scored answer as JSON values; fields that say nothing are left out."""
    value: dict[str, Any] = {} if subtask is None else {"subtask": subtask}
    value |= {
        "id": row.id,
        "sample": row.sample,
        "prompt": str(row.prompt),
        "prediction": str(row.prediction),
        "targets": list(row.targets),
        "score": plain(row.score),
    }
    for name in _OPTIONAL_ROW_FIELDS:
        content = getattr(row, name)
        if content:
            value[name] = plain(content)
    value["latency_ms"] = row.latency_ms
    return value


def plain(value: Any) -> Any:
    """`value` made of what JSON has: numpy's numbers become Python's, NaN and infinity null."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def without_times(value: Any) -> Any:
    """JSON values without the fields that depend on the clock: equal for equal runs."""
    if isinstance(value, dict):
        return {key: without_times(v) for key, v in value.items() if key not in TIME_FIELDS}
    if isinstance(value, list):
        return [without_times(entry) for entry in value]
    return value


def write_leaderboard(
    board: Leaderboard,
    path: str | os.PathLike[str],
    *,
    include_per_example: bool = False,
    overwrite: bool = False,
) -> None:
    """Write leaderboard.json; a reader sees the old file or the new one, never half of either.

    Raises:
      ResultsError: the file cannot be written, or holds a run of another configuration and
        `overwrite` is off.
    """
    if not overwrite:
        refuse_other_run(path, RunConfiguration.of(board))
    write_json(leaderboard_to_json(board, include_per_example), path)


def write_json(value: Any, path: str | os.PathLike[str]) -> None:
    """Write JSON to a temporary file beside `path`, then rename it.

    Raises:
      ResultsError: it cannot be written; an older file at `path` is as it was.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name[:100]}.{os.getpid()}-{threading.get_ident()}.tmp")
    content = strict_json.encode_text(_formatted(value)) + b"\n"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise ResultsError(f"{target}: cannot be written: {error.strerror or error}.") from error


def _formatted(value: Any, indent: str = "") -> str:
    """JSON with an entry a line and each scored answer on one line: fit for `diff`."""
    if isinstance(value, dict) and value:
        inner = indent + " "
        entries = [
            f"{inner}{strict_json.dumps(key)}: "
            + (_one_a_line(entry, inner) if key == "per_example" else _formatted(entry, inner))
            for key, entry in value.items()
        ]
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        inner = indent + " "
        entries = [inner + _formatted(entry, inner) for entry in value]
        return "[\n" + ",\n".join(entries) + f"\n{indent}]"
    return strict_json.dumps(value)


def _one_a_line(rows: list[Any], indent: str) -> str:
    return "[\n" + ",\n".join(f"{indent} {strict_json.dumps(row)}" for row in rows) + f"\n{indent}]"


@attrs.frozen
class RunConfiguration:
    """What makes a run this run and no other."""

    adapter: str
    fingerprint: str | None
    seed: int | None
    flags: Mapping[str, Any]
    task_hashes: Mapping[str, str]
    """Task name to the hash of its content."""

    @classmethod
    def of(cls, board: Leaderboard) -> RunConfiguration:
        """The configuration of a finished run."""
        hashes = {task.task: task.sha256 for task in board.tasks}
        return cls(board.adapter, board.fingerprint, board.seed, plain(board.flags), hashes)

    def differences(self, other: RunConfiguration) -> list[str]:
        """In what the two differ; tasks that only one of them finished do not count."""
        names = [
            field.name
            for field in attrs.fields(RunConfiguration)[:-1]
            if plain(getattr(self, field.name)) != plain(getattr(other, field.name))
        ]
        common = self.task_hashes.keys() & other.task_hashes.keys()
        changed = sorted(t for t in common if self.task_hashes[t] != other.task_hashes[t])
        return names + [f"the content of {task}" for task in changed]


def refuse_other_run(path: str | os.PathLike[str], run: RunConfiguration) -> None:
    """Raise ResultsError if `path` holds anything but an earlier run of the same configuration."""
    if not os.path.lexists(path):
        return
    advice = "choose another --output, or pass --overwrite."
    try:
        old = read_leaderboard(path)
    except ResultsError:
        raise ResultsError(f"{path} exists and is no leaderboard; {advice}") from None
    differences = run.differences(RunConfiguration.of(old))
    if differences:
        raise ResultsError(
            f"{path} holds another run ({old.adapter}, {old.timestamp}), which differs in "
            f"{', '.join(differences)}; {advice}"
        )
