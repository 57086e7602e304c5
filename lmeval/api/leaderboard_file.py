# SPDX-License-Identifier: Apache-2.0
"""Writing leaderboard.json; docs/results_format.md describes the format."""

from __future__ import annotations

import contextlib
import numbers
import os
import stat
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import attrs

from lmeval.api import strict_json
from lmeval.api.errors import ResultsError
from lmeval.api.group_means import means_over_tasks, micro_of_subtasks
from lmeval.api.leaderboard_reading import read_leaderboard
from lmeval.api.model import ModelData
from lmeval.api.results import SCHEMA, Leaderboard, SubtaskResult, TaskResult
from lmeval.api.task import ExampleScore, is_finite_number
from lmeval.statistics import Summary

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
    means = means_over_tasks(board)
    value = {
        "schema": SCHEMA,
        "timestamp": board.timestamp,
        "overall_score": board.overall_score,
        "overall_normalized_score": board.overall_normalized_score,
        "overall": {
            "macro": _mean_to_json(means.macro),
            "micro": {**_mean_to_json(means.micro), "n": means.micro.n},
        },
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


def _mean_to_json(mean: Summary) -> dict[str, Any]:
    return {"mean": mean.mean, "stderr": mean.stderr, "ci95": mean.ci95}


def _task_to_json(task: TaskResult, include_per_example: bool) -> dict[str, Any]:
    value = {
        field.name: plain(getattr(task, field.name))
        for field in attrs.fields(TaskResult)
        if field.name not in ("subtasks", "per_example")
    }
    if len(task.subtasks) > 1:
        value["micro"] = plain(_mean_to_json(micro_of_subtasks(task)))
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
        str(name): "too large" if isinstance(score, numbers.Integral) else repr(score)
        for name, score in part.score_dict.items()
        if isinstance(score, numbers.Real) and plain(score) is None
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
    """`value` made of what JSON has: numpy's numbers become Python's, those beyond floats null."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if isinstance(value, numbers.Real):
        if not is_finite_number(value):
            return None
        return int(value) if isinstance(value, numbers.Integral) else float(value)
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
      ResultsError: the file cannot be written, or holds what would be lost (a run of another
        configuration, or answers that are not to be written now) and `overwrite` is off.
    """
    if not overwrite:
        refuse_other_run(path, RunConfiguration.of(board), include_per_example)
    write_json(leaderboard_to_json(board, include_per_example), path)


def write_json(value: Any, path: str | os.PathLike[str]) -> None:
    """Write JSON to a temporary file, then rename it to `path`, or to what that links to.

    Raises:
      ResultsError: it cannot be written; an older file at `path` is as it was.
    """
    target = _target(path)
    temporary = _temporary(target)
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
        raise _not_writable(path, error) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise ResultsError if a file cannot be written to `path`; found out by beginning to."""
    temporary = _temporary(_target(path))
    try:
        with open(temporary, "xb"):
            pass
        os.unlink(temporary)
    except OSError as error:
        raise _not_writable(path, error) from error


def _target(path: str | os.PathLike[str]) -> Path:
    """The regular file to write for `path`, there already or not; links are followed."""
    if not os.fspath(path):
        raise ResultsError("The name of the file to write is empty; name one.")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise _not_writable(path, error) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise ResultsError(f"{path}: is {kind}, where a file is to be written; name a file.")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        # Renaming would replace it all the same.
        raise ResultsError(f"{path}: is write-protected; name another file.")
    return Path(os.path.realpath(path))


def _temporary(target: Path) -> Path:
    return target.with_name(f".lmeval.{os.getpid()}-{threading.get_ident()}.tmp")


def _not_writable(path: str | os.PathLike[str], error: OSError) -> ResultsError:
    return ResultsError(f"{path}: cannot be written: {error.strerror or error}.")


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
    model: ModelData
    fingerprint: str | None
    seed: int | None
    flags: Mapping[str, Any]
    task_hashes: Mapping[str, str]
    """Task name to the hash of its content."""

    @classmethod
    def of(cls, board: Leaderboard) -> RunConfiguration:
        """The configuration of a finished run."""
        hashes = {task.task: task.sha256 for task in board.tasks}
        return cls(board.adapter, board.model, board.fingerprint, board.seed, board.flags, hashes)

    def differences(self, other: RunConfiguration) -> list[str]:
        """In what the two differ; tasks that only one of them finished do not count."""
        mine, others = plain(attrs.asdict(self)), plain(attrs.asdict(other))
        names = differing_settings(mine, others, ignored=("task_hashes",))
        common = self.task_hashes.keys() & other.task_hashes.keys()
        changed = sorted(t for t in common if self.task_hashes[t] != other.task_hashes[t])
        return names + [f"the content of {task}" for task in changed]


def differing_settings(
    new: Mapping[str, Any], old: Mapping[str, Any], ignored: Collection[str] = ()
) -> list[str]:
    """In which settings of a run two differ; flags and options by their own names.

    Args:
      new: settings as JSON values.
      old: likewise; what stands only here does not count.
      ignored: settings that do not count.
    """
    names = []
    for key in new:
        mine, others = new[key], old.get(key)
        if key in ignored or mine == others:
            continue
        if key in ("flags", "options") and isinstance(mine, dict) and isinstance(others, dict):
            within = sorted(mine.keys() | others.keys())
            names += [f"--{name}" for name in within if mine.get(name) != others.get(name)]
        else:
            names.append(key)
    return list(dict.fromkeys(names))


def refuse_other_run(
    path: str | os.PathLike[str], run: RunConfiguration, include_per_example: bool
) -> None:
    """Raise ResultsError if writing a run to `path` would lose what is there.

    An earlier run of the same configuration may be replaced, unless it holds its answers and
    `include_per_example` says that the new one is to be written without.
    """
    _target(path)
    if not os.path.exists(path):
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
    if not include_per_example and any(task.per_example for task in old.tasks):
        raise ResultsError(
            f"{path} holds every answer of the run ({old.adapter}, {old.timestamp}), and they "
            f"would be lost; pass --include_per_example to write them again, {advice}"
        )
