# SPDX-License-Identifier: Apache-2.0
"""The folder `samples/`: every scored answer of a run as JSON Lines, one file a task.

The first line of a file says which run it belongs to, then comes one line for each answer, in the
order in which they were scored, and last one with the task's scores. Only the last line can be cut
off, when a run is killed; readers leave it out.
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
from lmeval.api.leaderboard_file import plain, row_to_json
from lmeval.api.leaderboard_reading import row_from_json
from lmeval.api.model import ModelData
from lmeval.api.options import TaskOptions
from lmeval.api.task import AggregateScore, ExampleScore, ScoreData, ScoreWithError

SCHEMA = "samples.v1"
_ENDING = ".jsonl"
_LONGEST_NAME = 80
_PLAIN_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]*(?<!\.)")
_MARK = re.compile(r"-[0-9a-f]{16}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_NOT_COMPARED = ("schema", "task", "environment", "timestamp", "position")


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
    rows: tuple[tuple[int, ExampleScore], ...] = attrs.field(repr=False)
    """The answers in order, each with the number of its ScoreData in `scores`."""
    scores: tuple[ScoreData, ...]
    """What `evaluate_model` returned, with its rows; () where the run broke off before the end."""
    failures: tuple[int, int] = (0, 0)
    """Requests out of time and failed ones, as the engine counted them."""


class SamplesFolder:
    """Writes the files of one run; threads may write different tasks at the same time.

    Args:
      folder: made if need be.
      run: what stands at the head of each file.
      tasks: the run's tasks with the hashes of their contents.
      overwrite: replace files of another configuration.

    Raises:
      ResultsError: the folder cannot be made, or holds a task's file of another configuration and
        `overwrite` is off.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        run: SampledRun,
        tasks: Mapping[str, str],
        overwrite: bool = False,
    ) -> None:
        self._folder = Path(folder)
        self._heads = {
            task: {**_head(run, task, sha256), "position": position}
            for position, (task, sha256) in enumerate(tasks.items())
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(
                f"{folder}: cannot be made a folder of samples: {error.strerror or error}."
            ) from None
        if not overwrite:
            for task in tasks:
                self._refuse_other_run(task)

    def path(self, task: str) -> Path:
        """The file of a task."""
        return self._folder / f"{portable_name(task)}{_ENDING}"

    def write(
        self, task: str, scores: Sequence[ScoreData], failures: tuple[int, int] = (0, 0)
    ) -> None:
        """Write a task's answers and scores, in place of those of an earlier run.

        Args:
          task: the task's name.
          scores: what its `evaluate_model` returned.
          failures: requests out of time and failed ones, for tasks that hand out no rows.

        Raises:
          ResultsError: the file cannot be written.
        """
        several = len(scores) > 1
        try:
            with open(self.path(task), "wb") as file:
                file.write(_line(self._heads[task]))
                for number, score in enumerate(scores):
                    part = score.subtask_description if several else None
                    for row in score.per_example:
                        record = {"task": task, "part": number, **row_to_json(row, part)}
                        file.write(_line(record))
                summary = [_score_to_json(score) for score in scores]
                file.write(_line({"scores": summary, "failures": failures}))
        except OSError as error:
            raise ResultsError(
                f"{self.path(task)}: cannot be written: {error.strerror or error}."
            ) from None

    def _refuse_other_run(self, task: str) -> None:
        path = self.path(task)
        if not os.path.lexists(path):
            return
        advice = "choose another folder, or pass --overwrite."
        try:
            _, old = next(_lines(path), (1, {}))
        except ResultsError:
            old = {}
        if old.get("schema") != SCHEMA:
            raise ResultsError(f"{path} exists and holds no samples; {advice}")
        new = strict_json.parse(strict_json.dumps(self._heads[task]), lone_surrogates=True)
        keys = [key for key in new if key not in _NOT_COMPARED and new[key] != old.get(key)]
        if keys:
            raise ResultsError(
                f"{path} holds the samples of another run, which differs in {', '.join(keys)}; "
                f"{advice}"
            )


def _head(run: SampledRun, task: str, sha256: str) -> dict[str, Any]:
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
        "flags": plain(run.flags),
        "environment": plain(run.environment),
        "timestamp": run.timestamp,
    }


def _score_to_json(score: ScoreData) -> dict[str, Any]:
    has_error = isinstance(score, ScoreWithError)
    value = {
        field.name: plain(getattr(score, field.name))
        for field in attrs.fields(ScoreWithError if has_error else ScoreData)
        if field.name != "per_example"
    }
    return {**value, "is_aggregate": isinstance(score, AggregateScore)}


def _line(value: Mapping[str, Any]) -> bytes:
    return strict_json.dump_bytes(value) + b"\n"


def read_samples(path: str | os.PathLike[str]) -> TaskSamples:
    """Read one file.

    Raises:
      ResultsError: the file cannot be read, or a line other than a cut-off last one is not as it
        must be; the text names the line.
    """
    path = Path(path)
    lines = _lines(path)
    _, head = next(lines, (1, {}))
    if head.get("schema") != SCHEMA:
        raise ResultsError(f"{path}: holds no samples of the schema {SCHEMA!r} in its first line.")
    with _faults_at(path, 1):
        run = _run_of(head)
        facts = {key: head[key] for key in ("task", "sha256", "position")}
    rows: list[tuple[int, ExampleScore]] = []
    for number, record in lines:
        with _faults_at(path, number):
            if "scores" in record and "id" not in record:
                facts["scores"] = tuple(_scores(record["scores"], rows))
                facts["failures"] = tuple(record["failures"])
            else:
                rows.append((record["part"], row_from_json(record)))
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
        flags=head["flags"],
        environment=head["environment"],
        timestamp=head["timestamp"],
    )


def _scores(
    values: Sequence[Mapping[str, Any]], rows: Sequence[tuple[int, ExampleScore]]
) -> Iterator[ScoreData]:
    for number, value in enumerate(values):
        fields = {key: entry for key, entry in value.items() if key != "is_aggregate"}
        own = tuple(row for part, row in rows if part == number)
        if value["is_aggregate"]:
            yield AggregateScore(**fields, per_example=own)
        else:
            yield (ScoreWithError if "stderr" in fields else ScoreData)(**fields, per_example=own)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in a file with their line numbers, a cut-off last line left out."""
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
    found = sorted(Path(folder).glob(f"*{_ENDING}"))
    if not found:
        raise ResultsError(f"{folder}: holds no samples; name the folder that a run wrote.")
    return found
