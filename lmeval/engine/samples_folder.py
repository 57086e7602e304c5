# SPDX-License-Identifier: Apache-2.0
"""Writing the folder `samples/`: answers while they are scored, and whole files at the end.

A run can break off at any moment, and a disk can fill up. So answers are appended as whole lines in
one go, and a finished file replaces the unfinished one only when all of it is written.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader, BytesIO, FileIO
from pathlib import Path
from typing import Any, BinaryIO

from lmeval.api import strict_json
from lmeval.api.errors import InvalidValueError, ResultsError
from lmeval.api.leaderboard_file import differing_settings, plain, row_to_json
from lmeval.api.task import ExampleScore, ScoreData
from lmeval.engine.samples import (
    ENDING,
    SCHEMA,
    SampledRun,
    head_of,
    line_of,
    lines_in,
    portable_name,
    score_to_json,
)

_NOT_COMPARED = ("schema", "task", "tasks", "environment", "timestamp", "position")
_ROWS_AT_ONCE = 1000
_READ_AT_ONCE = 2048


class SamplesFolder:
    """Writes the files of one run; threads may write different tasks at the same time.

    Args:
      folder: made if need be.
      run: what stands at the head of each file.
      tasks: the run's tasks with the hashes of their contents.
      overwrite: replace files of another configuration.

    Raises:
      ResultsError: the folder cannot be made, or holds a task's file that is write-protected, or
        one of another configuration and `overwrite` is off.
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
            task: head_of(run, task, sha256, position)
            for position, (task, sha256) in enumerate(tasks.items())
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(
                f"{folder}: cannot be made a folder of samples: {error.strerror or error}."
            ) from None
        for task in tasks:
            path = self.path(task)
            if os.path.exists(path) and not os.access(path, os.W_OK):
                # Renaming would replace it all the same.
                raise ResultsError(f"{path}: is write-protected; choose another folder.")
            if not overwrite:
                self._refuse_other_run(task)

    def path(self, task: str) -> Path:
        """The file of a task."""
        return self._folder / f"{portable_name(task)}{ENDING}"

    def start(self, task: str) -> SamplesWriter:
        """Begin to write a task's file; nothing is touched before the first row or the end."""
        return SamplesWriter(self.path(task), task, line_of(self._heads[task]))

    def _refuse_other_run(self, task: str) -> None:
        path = self.path(task)
        if not os.path.lexists(path):
            return
        advice = "choose another folder, or pass --overwrite."
        old = next(_records(path), {})
        if old.get("schema") != SCHEMA:
            raise ResultsError(f"{path} exists and holds no samples; {advice}")
        new = strict_json.parse(strict_json.dumps(self._heads[task]), lone_surrogates=True)
        keys = differing_settings(new, old, _NOT_COMPARED)
        if keys:
            raise ResultsError(
                f"{path} holds the samples of another run, which differs in {', '.join(keys)}; "
                f"{advice}"
            )


class SamplesWriter:
    """Writes the file of one task; a context manager, used by one thread.

    A finished file of an earlier run is kept beside the unfinished one, as NAME.jsonl.before, until
    the new one is finished.
    """

    def __init__(self, path: Path, task: str, head: bytes) -> None:
        """Prepare to write `path`, with the first line `head`."""
        self._path = path
        self._before = path.with_name(f"{path.name}.before")
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._task = task
        self._head = head
        self._file: FileIO | None = None
        self._size = len(head)
        # So that no answer has to be made JSON a second time at the end.
        self._rows: list[ExampleScore] = []
        self._places = array("Q")

    def __enter__(self) -> SamplesWriter:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close()

    def append(
        self,
        rows: Sequence[ExampleScore],
        number_of_shots: int = 0,
        subtask_description: str = "",
    ) -> None:
        """Write answers as they are scored; when this returns, the system has them.

        Args:
          rows: answers that were not appended before.
          number_of_shots: solved examples shown in their prompts.
          subtask_description: what sets their sub-task apart.

        Raises:
          InvalidValueError: `rows` are no ExampleScores.
          ResultsError: the file cannot be written; it has the answers of earlier calls.
        """
        if not isinstance(rows, (list, tuple)) or not all(
            isinstance(row, ExampleScore) for row in rows
        ):
            raise InvalidValueError(
                f"on_scored takes a list of ExampleScore, then the number of shots and the "
                f"description of the sub-task (got {rows!r:.200})."
            )
        facts: dict[str, Any] = {"task": self._task, "number_of_shots": number_of_shots}
        if subtask_description:
            facts["subtask"] = subtask_description
        opening = _opening(facts)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            self._append(opening, rows[start : start + _ROWS_AT_ONCE])

    def finish(self, scores: Sequence[ScoreData], failures: tuple[int, int] = (0, 0)) -> None:
        """Put the whole file in its place: the answers in order and the scores.

        Args:
          scores: what the task's `evaluate_model` returned.
          failures: requests out of time and failed ones, for tasks that hand out no rows.

        Raises:
          ResultsError: the file cannot be written; what was there before is still there.
        """
        with self._explained():
            self._write_anew(self._whole(scores, failures))
            self._close()
            os.replace(self._temporary, self._path)
            self._before.unlink(missing_ok=True)

    def _append(self, opening: bytes, rows: Sequence[ExampleScore]) -> None:
        lines = [opening + _body(row) for row in rows]
        with self._explained():
            if self._file is None:
                self._begin(lines)
            else:
                self._extend(self._file, b"".join(lines))
        bodies = itertools.accumulate(map(len, lines), initial=self._size + len(opening))
        self._places.extend(bodies)
        self._size = self._places.pop() - len(opening)
        self._rows += rows

    def _begin(self, lines: Sequence[bytes]) -> None:
        self._write_anew([self._head, *lines])
        if _is_finished(self._path):
            os.replace(self._path, self._before)
        os.replace(self._temporary, self._path)
        self._file = FileIO(self._path, "a+")

    def _extend(self, file: FileIO, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[file.write(left) or 0 :]
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(self._size)  # half a line would spoil what comes after it
            raise

    def _write_anew(self, lines: Iterable[bytes]) -> None:
        try:
            with open(self._temporary, "wb") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            raise

    def _whole(self, scores: Sequence[ScoreData], failures: tuple[int, int]) -> Iterator[bytes]:
        yield self._head
        places = dict(zip(map(id, self._rows), self._places, strict=True))
        with self._appended() as appended:
            for number, score in enumerate(scores):
                facts: dict[str, Any] = {"task": self._task, "part": number}
                if len(scores) > 1:
                    facts["subtask"] = score.subtask_description
                opening = _opening(facts)
                for row in score.per_example:
                    place = places.get(id(row))
                    if place is None:
                        yield opening + _body(row)
                    else:
                        appended.seek(place)
                        yield opening + appended.readline()
        summary = {
            "scores": [score_to_json(score) for score in scores],
            "answers": [len(score.per_example) for score in scores],
            "failures": failures,
        }
        yield line_of(summary)

    def _appended(self) -> BinaryIO:
        """What was appended; it closes the file, which is not needed afterwards."""
        if self._file is None:
            return BytesIO()
        # A small buffer, because the next answer may stand anywhere.
        return BufferedReader(self._file, _READ_AT_ONCE)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResultsError(
                f"{self._path}: cannot be written: {error.strerror or error}."
            ) from None


def _opening(facts: Mapping[str, Any]) -> bytes:
    """The beginning of an answer's line, up to what `_body` gives."""
    return strict_json.dump_bytes(plain(facts))[:-1] + b", "


def _body(row: ExampleScore) -> bytes:
    """An answer's line without the facts that only its place in the task decides."""
    return line_of(row_to_json(row))[1:]


def _is_finished(path: Path) -> bool:
    """Whether a file holds a whole task: its answers have parts, or there are none."""
    first, second = [*itertools.islice(_records(path), 2), {}, {}][:2]
    return first.get("schema") == SCHEMA and not second.keys().isdisjoint(("part", "scores"))


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a file, up to the first line that is none."""
    with contextlib.suppress(ResultsError):
        for _, record in lines_in(path):
            yield record
