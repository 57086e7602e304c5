# SPDX-License-Identifier: Apache-2.0
"""What a task is, what describes it, and what its evaluation gives.

The field names, their order and their defaults are those of BIG-bench's ``bigbench.api.task``, so
that code written for it constructs these classes unchanged.
"""

from __future__ import annotations

import abc
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from lmeval.api.errors import InvalidValueError

if TYPE_CHECKING:
    from lmeval.api.model import Model


def _refuse(instance: object, field: attrs.Attribute[Any], expected: str, value: object) -> None:
    owner = type(instance).__name__
    shown = repr(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    raise InvalidValueError(
        f"{owner}.{field.name} must be {expected} (got {shown}, a {type(value).__name__})."
    )


def _check_text(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        _refuse(instance, field, "a string", value)


def _check_name(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        _refuse(instance, field, "a string that is not blank", value)


def _check_keywords(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        _refuse(instance, field, "a list of strings", value)


def is_finite_number(value: object) -> bool:
    """Whether `value` is a finite real number (numpy's count, bool does not)."""
    if type(value) is float:  # the usual case, and the fast one
        return math.isfinite(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:  # an integer beyond the range of floats
        return False


def _check_number(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    if not is_finite_number(value):
        _refuse(instance, field, "a finite number", value)


@attrs.frozen
class TaskMetadata:
    """What a task is called, what it is about, and how much it will ask of a model.

    Raises:
      InvalidValueError: a field is of the wrong type; the text names it.
    """

    name: str = attrs.field(validator=_check_name)
    """Short, human-readable name; equal to the name of the task's folder."""
    description: str = attrs.field(validator=_check_text)
    """One or two English sentences; also explains any score that the task invents."""
    keywords: Sequence[str] = attrs.field(validator=_check_keywords)
    """Keywords from `keywords.md`, each its own string."""
    max_input_length_per_query: int = attrs.field(validator=_check_number)
    """The most words that the model has to read for one example."""
    max_queries: int = attrs.field(validator=_check_number)
    """The most examples that the model is asked to answer."""


def normalized(score: float, low_score: float, high_score: float) -> float | None:
    """(score - low) / (high - low): 0 is poor, 1 is very good; None when high equals low."""
    if high_score == low_score:
        return None
    return (score - low_score) / (high_score - low_score)


@attrs.frozen(kw_only=True)
class ExampleScore:
    """One scored answer: what was asked, what came back, and what it was worth."""

    id: str
    """The example's id, unique within its task (or sub-task)."""
    score: float | None
    """The preferred metric's score of this answer; None if the metric only scores all together."""
    prompt: str
    """Exactly what the model was sent."""
    prediction: str
    """What was scored: the model's text after stop strings, regex and answer extraction."""
    targets: tuple[str, ...]
    """The answers that count as right."""
    sample: int = 0
    """Which of several answers to the same prompt this is, from 0."""
    raw_prediction: str | None = None
    """The model's text before any cutting; None when `prediction` is all of it."""
    error: str | None = None
    """None, "timeout", or "error: " and a reason; such an answer scores 0 and stays counted."""
    no_answer: bool = False
    """True when answer extraction is on and found none: wrong, but reported apart."""
    finish_reason: str | None = None
    """Why the model stopped ("stop", "length", ...), where known."""
    latency_ms: float | None = None
    """Wall time of the answer in milliseconds; None when unknown."""
    cluster: str | None = None
    """The group of dependent examples (one passage, say) that this one belongs to."""
    scores: Mapping[str, float] = attrs.field(factory=dict)
    """Further metrics of this answer."""
    details: Mapping[str, Any] = attrs.field(factory=dict)
    """What else the metric has to say, such as the outcome of executed code."""

    def fault(self) -> str | None:
        """What is wrong with this row, or None; ScoreData asks it of each of its rows."""
        # Not by validators: they would cost as much as the rest of the row's making.
        if self.score is not None and not is_finite_number(self.score):
            return "score is no finite number"
        if not isinstance(self.id, str):
            return "id is no string"
        if not isinstance(self.prompt, str) or not isinstance(self.prediction, str):
            return "prompt or prediction is no string"
        if not isinstance(self.targets, tuple):
            return "targets are no tuple"
        return None


def _as_tuple(rows: Iterable[ExampleScore]) -> tuple[ExampleScore, ...]:
    return tuple(rows)


@attrs.frozen
class ScoreData:
    """The scores of one task, or of one sub-task of it.

    `low_score` and `high_score` calibrate the preferred score for comparison across tasks; they are
    not bounds.

    Raises:
      InvalidValueError: the preferred score is missing from `score_dict` or is no finite number, or
        a field is of the wrong type; the text names the field. Other entries of `score_dict` may
        be anything, dicts included.
    """

    score_dict: Mapping[str, Any] = attrs.field()
    """Metric name to score."""
    preferred_score: str = attrs.field()
    """The key of `score_dict` that stands for the task."""
    number_of_shots: int = attrs.field(validator=_check_number)
    """Solved examples shown in each prompt; -1 where that makes no sense."""
    low_score: float = attrs.field(validator=_check_number)
    """Poor or chance-level performance, on the scale of the preferred score."""
    high_score: float = attrs.field(validator=_check_number)
    """Extremely good performance, on the same scale."""
    subtask_description: str = attrs.field(default="", validator=_check_text)
    """What sets this sub-task apart when a task returns several."""
    per_example: tuple[ExampleScore, ...] = attrs.field(default=(), converter=_as_tuple, repr=False)
    """Every scored answer, if the task keeps them: gives standard errors and paired comparison."""

    @per_example.validator
    def _check_per_example(self, field: attrs.Attribute[Any], rows: object) -> None:
        marks = set()
        for row in self.per_example:
            fault = row.fault() if isinstance(row, ExampleScore) else "class is not ExampleScore"
            if fault is not None:
                _refuse(self, field, f"free of rows whose {fault}", row)
            marks.add((row.id, row.sample))
        if len(marks) < len(self.per_example):
            _refuse(self, field, "free of rows that share id and sample", self.per_example)

    @score_dict.validator
    def _check_score_dict(self, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, Mapping):
            _refuse(self, field, "a dictionary of scores", value)

    @preferred_score.validator
    def _check_preferred_score(self, field: attrs.Attribute[Any], value: str) -> None:
        if value not in self.score_dict:
            known = ", ".join(map(repr, self.score_dict)) or "nothing"
            _refuse(self, field, f"a key of score_dict, which holds {known}", value)
        preferred = self.score_dict[value]
        if not is_finite_number(preferred):
            _refuse(self, field, f"the key of a finite number; {preferred!r} stands there", value)

    @property
    def score(self) -> float:
        """The preferred score."""
        return float(self.score_dict[self.preferred_score])

    @property
    def normalized_score(self) -> float | None:
        """The preferred score as `normalized` gives it."""
        return normalized(self.score, self.low_score, self.high_score)


@attrs.frozen
class AggregateScore(ScoreData):
    """The score of a whole task over its sub-tasks, where the plain mean is not what is wanted.

    A task returns it beside the ScoreData of its sub-tasks; it is then the task's own score.
    """


def _as_interval(ends: Any) -> Any:
    return tuple(ends) if isinstance(ends, list) else ends


def _check_interval(instance: object, field: attrs.Attribute[Any], value: object) -> None:
    ends = value if isinstance(value, tuple) and len(value) == 2 else (None,)
    if value is not None and not all(map(is_finite_number, ends)):
        _refuse(instance, field, "None or a pair of finite numbers", value)


@attrs.frozen
class ScoreWithError(ScoreData):
    """A preferred score that is not the mean of its rows, and brings its own uncertainty.

    For a mean of `per_example` nobody needs it: error and interval then follow from the rows.

    Raises:
      InvalidValueError: as ScoreData; also where `stderr` or `ci95` is no finite number.
    """

    stderr: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_check_number)
    )
    """Standard error of the preferred score; None where undefined."""
    ci95: tuple[float, float] | None = attrs.field(
        default=None, converter=_as_interval, validator=_check_interval
    )
    """95% interval of the preferred score; None where undefined."""


class OnScored(Protocol):
    """Whoever wants to have answers as soon as they are scored: the folder of samples."""

    def __call__(
        self,
        rows: Sequence[ExampleScore],
        number_of_shots: int = 0,
        subtask_description: str = "",
    ) -> None:
        """Take answers that were just scored.

        Args:
          rows: the same objects that will stand in `ScoreData.per_example`, each given once.
          number_of_shots: as in that ScoreData.
          subtask_description: as in that ScoreData.
        """


class Task(abc.ABC):
    """The base of every task.

    A subclass implements the two methods below; nothing else is required. If `evaluate_model` also
    takes `max_examples` or `random_seed`, as BIG-bench's tasks do, the command line's flags of that
    meaning are passed on. If it takes `on_scored` (default None), it is given an `OnScored` where
    samples are written, and calls it in its own thread with answers as soon as it has scored them,
    so that a run which breaks off leaves them behind.
    """

    @abc.abstractmethod
    def get_task_details(self) -> TaskMetadata:
        """Describe the task without calling a model.

        Returns:
          The task's metadata, all fields filled.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def evaluate_model(self, model: Model) -> ScoreData | list[ScoreData]:
        """Ask `model` what the task wants to know and score the answers.

        The model's methods take single strings and lists; give them lists wherever possible, so
        that requests can be batched and run side by side.

        Args:
          model: the language model under test.

        Returns:
          One ScoreData, or a list with one for each sub-task that is scored by itself (one for
          each number of digits, say).

        Raises:
          UnsupportedByModel: the model cannot do what the task needs.
        """
        raise NotImplementedError
