# SPDX-License-Identifier: Apache-2.0
"""The examples of one task: checked, without duplicates, and read again when they are needed."""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs

from lmeval.api.errors import TaskError, TaskFileError
from lmeval.bigbench.json_stream import Place, line_and_column, read_at
from lmeval.bigbench.prompt_style import targets_of

RawExample = Mapping[str, Any]
ReadExample = Callable[[int], RawExample]


class ExampleStore(Protocol):
    """The distinct examples of a task, numbered from 0 in the file's order."""

    positions: Sequence[int]
    """The place of each in the task's `examples`, duplicates counted."""

    def opened(self) -> contextlib.AbstractContextManager[ReadExample]:
        """Gives a function that reads the example of a number."""

    def fault(self, number: int, reason: str) -> TaskFileError:
        """The error that says what is wrong with an example, and where it is."""


class ListedExamples:
    """Examples in memory."""

    def __init__(self, owner: str) -> None:
        self.positions: Sequence[int] = array("q")
        self._owner = owner
        self._examples: list[RawExample] = []

    def add(self, position: int, example: RawExample) -> None:
        """Append an example; `position` counts duplicates too."""
        self.positions.append(position)  # type: ignore[attr-defined]
        self._examples.append(example)

    @contextlib.contextmanager
    def opened(self) -> Iterator[ReadExample]:
        """See `ExampleStore.opened`."""
        yield self._examples.__getitem__

    def fault(self, number: int, reason: str) -> TaskFileError:
        """See `ExampleStore.fault`."""
        return TaskFileError(self._owner, f"examples[{self.positions[number]}]: {reason}")


class FileExamples:
    """Examples in a task.json, of which only the places are kept: 24 bytes an example."""

    def __init__(self, path: Path) -> None:
        self.positions: Sequence[int] = array("q")
        self._path = path
        self._starts = array("q")
        self._lengths = array("q")
        self._version = _version(path)

    def add(self, position: int, place: Place) -> None:
        """Append an example; `position` counts duplicates too."""
        self.positions.append(position)  # type: ignore[attr-defined]
        self._starts.append(place.start)
        self._lengths.append(place.length)

    @contextlib.contextmanager
    def opened(self) -> Iterator[ReadExample]:
        """See `ExampleStore.opened`.

        Raises:
          TaskError: the file is not as it was when it was loaded.
        """
        changed = _version(self._path) != self._version
        with self._path.open("rb") as file:
            if changed:
                raise TaskError(f"{self._path} was changed while it was evaluated; run it again.")

            def read(number: int) -> RawExample:
                place = Place(self._starts[number], self._lengths[number])
                example: RawExample = read_at(file, place)
                return example

            yield read

    def fault(self, number: int, reason: str) -> TaskFileError:
        """See `ExampleStore.fault`."""
        return example_fault(self._path, self.positions[number], self._starts[number], reason)


def example_fault(path: Path, position: int, start: int, reason: str) -> TaskFileError:
    """The error for the example at a position of `examples`, which begins at the byte `start`."""
    line, column = line_and_column(path, start)
    return TaskFileError(path, f"examples[{position}]: {reason}", line, column)


def _version(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise TaskFileError(path, f"cannot be read: {error.strerror or error}.") from None
    return status.st_size, status.st_mtime_ns


@attrs.frozen(kw_only=True)
class ExampleFacts:
    """What must be known of all examples together before the first is asked.

    The fields that are numbers of examples name the first of its kind, None if there is none.
    """

    n_distinct: int = 0
    n_duplicates: int = 0
    twins: Mapping[int, tuple[int, ...]] = attrs.field(factory=dict)
    """See `draws.draw_questions`."""
    mean_choice_score: float = 0.0
    """Mean over the examples of the mean of their `target_scores`: what guessing scores."""
    without_target: int | None = None
    without_target_scores: int | None = None
    without_single_right_choice: int | None = None
    """Not exactly one choice with the score 1, or the scores do not add up to 1."""
    with_several_targets: int | None = None
    with_blank_target: int | None = None
    """A single target without a word."""


class FactsCollector:
    """Looks at one example after the other, in the file's order."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._seen: dict[int, list[int] | int] = {}
        self._twins: dict[int, tuple[int, ...]] = {}
        self._n_distinct = 0
        self._n_duplicates = 0
        self._sum_of_choice_means: float = 0

    def add(self, example: RawExample, reread: ReadExample) -> bool:
        """Take account of an example, unless it is a duplicate of an earlier one.

        Args:
          example: one in which `fault_in` finds no fault.
          reread: gives the earlier distinct example of a number.

        Returns:
          Whether it is distinct.
        """
        number = self._n_distinct
        identity = _identity(example)
        # A hash of 8 bytes stands for each example; where two agree the examples are compared.
        key = hash(identity)
        rivals = _as_list(self._seen.get(key))
        for rival in rivals:
            # BIG-bench drops what is written alike, and hides from an example's shots what has
            # the same meaning ("x" and ["x"], 1 and 1.0).
            if json.dumps(reread(rival)) == json.dumps(example):
                self._n_duplicates += 1
                return False
        alike = [rival for rival in rivals if _identity(reread(rival)) == identity]
        self._seen[key] = [*rivals, number] if rivals else number
        if alike:
            group = (*alike, number)
            self._twins |= dict.fromkeys(group, group)
        self._n_distinct += 1
        self._note(number, example)
        return True

    def _note(self, number: int, example: RawExample) -> None:
        first = self._first
        scores = example.get("target_scores")
        if scores is None:
            first.setdefault("without_target_scores", number)
        else:
            values = scores.values()
            total = sum(values)
            self._sum_of_choice_means += total / len(values)
            if total != 1 or list(values).count(1) != 1:
                first.setdefault("without_single_right_choice", number)
        target = example.get("target")
        if target is None:
            first.setdefault("without_target", number)
        elif isinstance(target, list) and len(target) > 1:
            first.setdefault("with_several_targets", number)
        elif not (target[0] if isinstance(target, list) else target).strip():
            first.setdefault("with_blank_target", number)

    def facts(self) -> ExampleFacts:
        """What has been found so far."""
        return ExampleFacts(
            n_distinct=self._n_distinct,
            n_duplicates=self._n_duplicates,
            twins=self._twins,
            mean_choice_score=self._sum_of_choice_means / max(1, self._n_distinct),
            **self._first,
        )


def _as_list(numbers: list[int] | int | None) -> list[int]:
    if numbers is None:
        return []
    return numbers if isinstance(numbers, list) else [numbers]


def _identity(example: RawExample) -> tuple[object, ...]:
    """Equal for examples that are equal once formatted, the order of keys included."""
    identity = [
        (key, _hashable(value) if key != "target" else tuple(targets_of(example)))
        for key, value in example.items()
    ]
    if "target" not in example:
        identity.append(("target", tuple(targets_of(example))))
    return tuple(identity)


def _hashable(value: object) -> object:
    if isinstance(value, dict):
        return tuple((key, _hashable(entry)) for key, entry in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return value


def fault_in(example: object) -> str | None:
    """What is wrong with an example whatever the metrics are; None if nothing is."""
    if not isinstance(example, dict):
        return "an example must be an object with 'input' and 'target' or 'target_scores'."
    if not isinstance(example.get("input"), str):
        return "'input' must be a text." if "input" in example else "has no 'input'."
    if "target" in example:
        fault = _fault_in_target(example["target"])
    elif "target_scores" not in example:
        return "has neither 'target' nor 'target_scores'."
    else:
        fault = None
    if fault is None and "target_scores" in example:
        fault = _fault_in_scores(example["target_scores"], "target" in example)
    return fault


def _fault_in_target(target: object) -> str | None:
    if isinstance(target, str):
        return None
    if not isinstance(target, list):
        return f"'target' must be a text or a list of texts, found {json.dumps(target)[:80]}."
    if not target:
        return "'target' is an empty list."
    wrong = [entry for entry in target if not isinstance(entry, str)]
    return f"'target' holds {json.dumps(wrong[0])[:80]}, which is no text." if wrong else None


_NUMBERS = {int, float, bool}
_LIMIT = 1e300


def _fault_in_scores(scores: object, has_target: bool) -> str | None:
    if not isinstance(scores, dict) or not scores:
        return "'target_scores' must be an object with a number for each choice."
    values = scores.values()
    if not _NUMBERS.issuperset(map(type, values)):
        choice = next(name for name, value in scores.items() if type(value) not in _NUMBERS)
        return f"the score of the choice {choice!r} in 'target_scores' is no number."
    best, worst = max(values), min(values)
    if best > _LIMIT or worst < -_LIMIT:
        return "a score in 'target_scores' is too large."
    if not has_target and (best == 0 if len(values) == 1 else best <= worst):
        return "no choice in 'target_scores' is better than the others, so none is right."
    return None
