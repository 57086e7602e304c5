# SPDX-License-Identifier: Apache-2.0
"""From a model's answers to scores: reading the answer in the text, and applying the metrics.

Metrics that need all rows at once are in `rows_scoring`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from lmeval.api.answers import ANSWER_EXTRACTIONS
from lmeval.api.errors import FailedMetricError, UsageError
from lmeval.api.example import Example
from lmeval.api.failures import describe_failure
from lmeval.api.metrics import Metric, RowScore
from lmeval.api.model import compile_output_regex, first_match
from lmeval.api.settings import TaskSettings
from lmeval.api.task import is_finite_number

if TYPE_CHECKING:
    from lmeval.sandbox import Sandbox


@attrs.frozen
class AnswerReader:
    """Finds in a model's text what is to be scored."""

    stops: tuple[str, ...] = ()
    """Text that ends the answer and is no part of it."""
    pattern: re.Pattern[str] | None = None
    """The answer is its first match."""
    extract: Callable[[str], str | None] | None = None
    """An answer extraction, applied last."""

    @classmethod
    def from_settings(cls, settings: TaskSettings) -> AnswerReader:
        """The reader that a task's settings describe."""
        extraction = settings.answer_extraction
        return cls(
            settings.stop_string,
            compile_output_regex(settings.output_regex),
            None if extraction is None else ANSWER_EXTRACTIONS[extraction],
        )

    def read(self, text: str) -> str | None:
        """The answer in `text`; None when answer extraction is on and finds none."""
        if self.stops:
            text = text[: min(at if (at := text.find(s)) >= 0 else len(text) for s in self.stops)]
        if self.pattern is not None:
            text = first_match(self.pattern, text)
        if self.extract is not None:
            return self.extract(text)
        return text


@attrs.frozen
class Answer:
    """One answer, read and ready to be scored."""

    example: Example
    prediction: str
    error: str | None = None
    """Why there is no answer; every metric gives such an answer 0."""


def score_answers(
    metric: Metric, answers: Sequence[Answer], sandbox: Sandbox | None = None
) -> list[RowScore]:
    """Score each answer by itself.

    Args:
      metric: of the kind "example" or "sandbox".
      answers: n answers.
      sandbox: where code may run, for a metric of the kind "sandbox".

    Returns:
      n scores, in order.

    Raises:
      UsageError: the metric runs code and there is no sandbox.
      FailedMetricError: the metric failed, or gave something that is no number from 0 to 1.
    """
    if metric.kind == "sandbox":
        return _score_in_sandbox(metric, answers, sandbox)
    made: dict[float, RowScore] = {}  # most metrics give few values; equal ones share an object
    scores = []
    for answer in answers:
        value = 0.0 if answer.error else _apply(metric, answer)
        score = made.get(value)
        if score is None:
            score = made[value] = RowScore(value)
        scores.append(score)
    return scores


def _apply(metric: Metric, answer: Answer) -> float:
    example = answer.example
    try:
        value = metric.function(answer.prediction, example.targets, example.extras)
    except Exception as error:  # a user's metric may raise anything; it must name the row
        raise FailedMetricError(
            f"the metric {metric.name!r} failed on the example {example.id!r}: "
            f"{describe_failure(error)}"
        ) from error
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    if not is_finite_number(value) or not 0.0 <= value <= 1.0:
        raise FailedMetricError(
            f"the metric {metric.name!r} gave {value!r} for the example {example.id!r}; "
            "a score is a number from 0 to 1."
        )
    return float(value)


def _score_in_sandbox(
    metric: Metric, answers: Sequence[Answer], sandbox: Sandbox | None
) -> list[RowScore]:
    if sandbox is None:
        raise UsageError(
            f"the metric {metric.name!r} runs code that the model wrote; allow it with "
            "--allow_code_exec (in Python: pass a Sandbox)."
        )
    judged = [answer for answer in answers if not answer.error]
    scored = iter(
        metric.function(
            [answer.prediction for answer in judged],
            [answer.example.targets for answer in judged],
            [answer.example.extras for answer in judged],
            [answer.example.prompt for answer in judged],
            sandbox,
        )
    )
    return [RowScore(0.0) if answer.error else next(scored) for answer in answers]
