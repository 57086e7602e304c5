# SPDX-License-Identifier: Apache-2.0
"""The folder `samples/`: every scored answer of a run as JSON Lines, one file a task.

The first line of a file says which run it belongs to. Then comes one line for each answer, in the
task's order and with its part, and last one with the task's scores. While a task is unfinished, its
file has the answers in the order in which they were scored, without parts. Only the last line can
be cut off, when a run is killed; readers leave it out. `samples_folder` writes the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from lmeval.api import strict_json
from lmeval.api.errors import ResultsError
from lmeval.api.leaderboard_file import plain
from lmeval.api.leaderboard_reading import row_from_json
from lmeval.api.model import ModelData
from lmeval.api.options import TaskOptions
from lmeval.api.task import AggregateScore, ExampleScore, ScoreData, ScoreWithError

SCHEMA = "samples.v1"
ENDING = ".jsonl"
_LONGEST_NAME = 80
_PLAIN_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*(?<!\.)")
_MARK = re.compile(r"-[0-9a-f]{16}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def portable_name(name: str) -> str:
    """A file name for `name` that every platform takes; different names give different ones.

    A name of small letters, digits, "_", "." and "-" stays as it is. Any other is made of such
    characters and marked with a hash of itself, so that names that differ only in case, or in what
    had to be replaced, do not meet in one file.
    """
    fits = len(name) <= _LONGEST_NAME and _PLAIN_NAME.fullmatch(name) is not None
    if fits and not _RESERVED.fullmatch(name) and not _MARK.fullmatch(name[-17:]):
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[: _LONGEST_NAME - 17].strip("_-")
    return f"{readable or 'name'}-{digest}"


@attrs.frozen(kw_only=True)
class SampledRun:
    """What stands at the head of each file: whose answers these are and how they were made."""

    adapter: str
    """The model's name."""
    model: ModelData
    fingerprint: str | None
    options: TaskOptions
    tasks: tuple[str, ...] = ()
    """The names of all tasks of the run, in order."""
    flags: Mapping[str, Any] = attrs.field(factory=dict)
    environment: Mapping[str, str] = attrs.field(factory=dict)
    timestamp: str = ""


@attrs.frozen(kw_only=True)
class TaskSamples:
    """The content of one file."""

    path: Path
    task: str
    sha256: str
    """Hash of the task's content when it was evaluated."""
    position: int
    """The task's place in the run, from 0."""
    run: SampledRun
    rows: tuple[tuple[int | None, ExampleScore], ...] = attrs.field(repr=False)
    """The answers in order, each with the number of its ScoreData in `scores`; None where the run
    broke off before the task was finished."""
    scores: tuple[ScoreData, ...]
    """What `evaluate_model` returned, with its rows; () where the run broke off before the end."""
    failures: tuple[int, int] = (0, 0)
    """Requests out of time and failed ones, as the engine counted them."""


def head_of(run: SampledRun, task: str, sha256: str, position: int) -> dict[str, Any]:
    """The first line of a task's file."""
    options = {
        field.name: plain(getattr(run.options, field.name))
        for field in attrs.fields(TaskOptions)
        if field.name != "sandbox"
    }
    return {
        "schema": SCHEMA,
        "task": task,
        "sha256": sha256,
        "adapter": run.adapter,
        "model": plain(attrs.asdict(run.model)),
        "fingerprint": run.fingerprint,
        "options": options,
        "tasks": list(run.tasks),
        "flags": plain(run.flags),
        "environment": plain(run.environment),
        "timestamp": run.timestamp,
        "position": position,
    }


def score_to_json(score: ScoreData) -> dict[str, Any]:
    """A score of the last line, without its rows."""
    has_error = isinstance(score, ScoreWithError)
    value = {
        field.name: plain(getattr(score, field.name))
        for field in attrs.fields(ScoreWithError if has_error else ScoreData)
        if field.name != "per_example"
    }
    return {**value, "is_aggregate": isinstance(score, AggregateScore)}


def line_of(value: Mapping[str, Any]) -> bytes:
    """A line of a file."""
    return strict_json.dump_bytes(value) + b"\n"


def read_samples(path: str | os.PathLike[str]) -> TaskSamples:
    """Read one file.

    Raises:
      ResultsError: the file cannot be read, or a line other than a cut-off last one is not as it
        must be; the text names the line.
    """
    path = Path(path)
    lines = lines_in(path)
    _, head = next(lines, (1, {}))
    if head.get("schema") != SCHEMA:
        raise ResultsError(f"{path}: holds no samples of the schema {SCHEMA!r} in its first line.")
    with _faults_at(path, 1):
        run = _run_of(head)
        facts = {key: head[key] for key in ("task", "sha256", "position")}
    rows: list[tuple[int | None, ExampleScore]] = []
    for number, record in lines:
        with _faults_at(path, number):
            if "scores" in record and "id" not in record:
                if any(part is None for part, _ in rows):
                    raise ValueError("scores stand behind answers without a part")
                facts["scores"] = tuple(_scores(record["scores"], rows))
                _check_counts(record["answers"], facts["scores"])
                facts["failures"] = tuple(record["failures"])
            else:
                rows.append((_part_of(record), row_from_json(record)))
    return TaskSamples(path=path, run=run, rows=tuple(rows), **{"scores": (), **facts})


@contextlib.contextmanager
def _faults_at(path: Path, line: int) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise ResultsError(f"{path}, line {line}: {error.args[0]!r} is missing.") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise ResultsError(f"{path}, line {line}: is no record of samples: {error}") from None


def _run_of(head: Mapping[str, Any]) -> SampledRun:
    options = {**head["options"], "shots": tuple(head["options"]["shots"])}
    return SampledRun(
        adapter=head["adapter"],
        model=ModelData(**head["model"]),
        fingerprint=head["fingerprint"],
        options=TaskOptions(**options),
        tasks=tuple(head["tasks"]),
        flags=head["flags"],
        environment=head["environment"],
        timestamp=head["timestamp"],
    )


def _part_of(record: Mapping[str, Any]) -> int | None:
    if "number_of_shots" in record:  # of a task that is not finished
        return None
    return record["part"]  # type: ignore[no-any-return]


def _scores(
    values: Sequence[Mapping[str, Any]], rows: Sequence[tuple[int | None, ExampleScore]]
) -> Iterator[ScoreData]:
    for number, value in enumerate(values):
        fields = {key: entry for key, entry in value.items() if key != "is_aggregate"}
        own = tuple(row for part, row in rows if part == number)
        if value["is_aggregate"]:
            yield AggregateScore(**fields, per_example=own)
        else:
            yield (ScoreWithError if "stderr" in fields else ScoreData)(**fields, per_example=own)


def _check_counts(counts: Sequence[int], scores: Sequence[ScoreData]) -> None:
    """Raise ValueError where answers are missing, so that no score stands on fewer than it says."""
    for part, (expected, score) in enumerate(zip(counts, scores, strict=True)):
        if len(score.per_example) != expected:
            raise ValueError(
                f"part {part} had {expected} answers, of which the file holds "
                f"{len(score.per_example)}"
            )


def lines_in(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in a file with their line numbers, a cut-off last line left out.

    Raises:
      ResultsError: the file cannot be read, or a line is no JSON object.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    value = strict_json.parse(line.decode("utf-8"), lone_surrogates=True)
                except UnicodeDecodeError:
                    raise ResultsError(f"{path}, line {number}: is not UTF-8.") from None
                except strict_json.JsonFault as fault:
                    raise ResultsError(f"{path}, line {number}: {fault.reason}.") from None
                if not isinstance(value, dict):
                    raise ResultsError(f"{path}, line {number}: is no JSON object.")
                yield number, value
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror or error}.") from None


def find_samples(folder: str | os.PathLike[str]) -> list[Path]:
    """The files in a folder of samples, sorted.

    Raises:
      ResultsError: there is no such folder, or nothing in it.
    """
    found = sorted(Path(folder).glob(f"*{ENDING}"))
    if not found:
        raise ResultsError(f"{folder}: holds no samples; name the folder that a run wrote.")
    return found
