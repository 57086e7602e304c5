# SPDX-License-Identifier: Apache-2.0
"""From what a model answered to the scores of one task and of each of its examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from lmeval.api.json_task import DEFAULT_SEED
from lmeval.api.model import Completion, LogProbs
from lmeval.api.rows_scoring import with_error
from lmeval.api.task import ExampleScore, ScoreData
from lmeval.bigbench.choice_scores import CHOICE_SCORES, ChoiceRow, Score, choice_row
from lmeval.bigbench.leaf_settings import LeafSettings
from lmeval.bigbench.likelihood_scores import log_likelihood
from lmeval.bigbench.questions import Question
from lmeval.bigbench.score_names import CHOICE_METRICS, LIKELIHOOD_METRICS
from lmeval.bigbench.text_scores import score_texts
from lmeval.statistics import bootstrap_summary

_NO_NUMBERS = "error: the model gave no log-probability above minus infinity"


@attrs.frozen(kw_only=True)
class Answers:
    """What a model said to n questions; () for a family of metrics that the task has not."""

    choice_log_probs: Sequence[LogProbs] = ()
    """Of the choices, as they are."""
    completions: Sequence[Completion] = ()
    target_log_probs: Sequence[LogProbs] = ()
    """Of the targets, as they are."""
    readings: Sequence[str | None] = ()
    """What stands in the completions; None where answer extraction found nothing."""


def score_answers(
    settings: LeafSettings,
    n_shots: int,
    questions: Sequence[Question],
    answers: Answers,
    rouge_seed: int | None = None,
) -> ScoreData:
    """Score the answers by all metrics of the task.

    Args:
      settings: the task's.
      n_shots: how many shots the questions have.
      questions: n of them, at least one.
      answers: what the model said to each.
      rouge_seed: see `text_scores.score_texts`.

    Raises:
      MissingExtraError: a metric needs a package that is not installed.
    """
    choice_rows = _choice_rows(settings, questions, answers)
    scores = _all_scores(settings, questions, answers, choice_rows, rouge_seed)
    score_data = ScoreData(
        score_dict={name: score.value for name, score in scores.items()},
        preferred_score=settings.preferred_score,
        number_of_shots=n_shots,
        low_score=settings.low_score,
        high_score=settings.high_score,
        subtask_description=settings.identity.name,
        per_example=tuple(
            _example_score(
                settings.preferred_score,
                question,
                _Row.of(answers, choice_rows, number),
                {name: score.rows[number] for name, score in scores.items() if score.rows},
                [s.warnings[number] for s in scores.values() if number in s.warnings],
            )
            for number, question in enumerate(questions)
        ),
    )
    preferred = scores.get(settings.preferred_score)
    if preferred is None or preferred.counted is None:
        return score_data
    return with_error(
        score_data,
        bootstrap_summary(
            preferred.counted, len(questions), generator=np.random.default_rng(DEFAULT_SEED)
        ),
    )


def _choice_rows(
    settings: LeafSettings, questions: Sequence[Question], answers: Answers
) -> list[ChoiceRow]:
    if not settings.choice_metrics:
        return []
    return [
        choice_row(
            question.choices,
            question.target_scores,
            log_probs,
            settings.absolute_normalization,
            failed=log_probs.error is not None,
        )
        for question, log_probs in zip(questions, answers.choice_log_probs, strict=True)
    ]


def _all_scores(
    settings: LeafSettings,
    questions: Sequence[Question],
    answers: Answers,
    choice_rows: Sequence[ChoiceRow],
    rouge_seed: int | None,
) -> dict[str, Score]:
    targets = [question.targets for question in questions]
    scores = {name: CHOICE_SCORES[name](choice_rows) for name in settings.choice_metrics}
    if settings.text_metrics:
        responses = [reading or "" for reading in answers.readings]
        failed = [completion.error is not None for completion in answers.completions]
        scores |= score_texts(settings.text_metrics, targets, responses, failed, rouge_seed)
    if settings.likelihood_metrics:
        scores |= log_likelihood(targets, answers.target_log_probs)
    return scores


@attrs.frozen(kw_only=True)
class _Row:
    """All that was answered to one question; None for what was not asked."""

    choices: ChoiceRow | None
    choice_log_probs: LogProbs | None
    completion: Completion | None
    reading: str | None
    target_log_probs: LogProbs | None

    @classmethod
    def of(cls, answers: Answers, choice_rows: Sequence[ChoiceRow], number: int) -> _Row:
        return cls(
            choices=choice_rows[number] if choice_rows else None,
            choice_log_probs=_at(answers.choice_log_probs, number),
            completion=_at(answers.completions, number),
            reading=_at(answers.readings, number),
            target_log_probs=_at(answers.target_log_probs, number),
        )

    @property
    def error(self) -> str | None:
        """Why an answer is missing; None if none is."""
        for answer in (self.completion, self.choice_log_probs, self.target_log_probs):
            if answer is not None and answer.error is not None:
                return answer.error
        return _NO_NUMBERS if self.choices is not None and self.choices.failed else None

    def of_metric(self, name: str) -> Completion | LogProbs | None:
        """The answer that a metric scores."""
        if name in CHOICE_METRICS:
            return self.choice_log_probs
        return self.target_log_probs if name in LIKELIHOOD_METRICS else self.completion


def _at(answers: Sequence[Any], number: int) -> Any:
    return answers[number] if answers else None


def _example_score(
    preferred: str,
    question: Question,
    row: _Row,
    scores: Mapping[str, float],
    warnings: Sequence[str],
) -> ExampleScore:
    details: dict[str, Any] = {}
    if row.choices is not None and row.choice_log_probs is not None:
        details["choices"] = list(question.choices)
        details["log_probs"] = None if row.choices.failed else list(row.choice_log_probs)
        if row.choice_log_probs.truncated_tokens:
            details["truncated_tokens"] = row.choice_log_probs.truncated_tokens
    if row.target_log_probs is not None:
        details["target_log_probs"] = list(row.target_log_probs)
    if warnings:
        details["warning"] = "; ".join(warnings)
    answer = row.of_metric(preferred)
    prediction, targets = row.reading or "", question.targets
    if preferred in CHOICE_METRICS and row.choices is not None:
        if row.completion is not None:
            details["text"] = prediction
        prediction, targets = row.choices.picked or "", _best_choices(question)
    raw = answer.raw if isinstance(answer, Completion) else prediction
    return ExampleScore(
        id=question.id,
        score=scores.get(preferred),
        prompt=question.prompt,
        prediction=prediction,
        targets=targets,
        raw_prediction=None if raw == prediction else raw,
        error=row.error,
        no_answer=row.completion is not None and row.reading is None and row.error is None,
        finish_reason=answer.finish_reason if isinstance(answer, Completion) else None,
        latency_ms=None if answer is None else answer.latency_ms,
        scores=dict(scores),
        details=details,
    )


def _best_choices(question: Question) -> tuple[str, ...]:
    best = max(question.target_scores.values())
    return tuple(choice for choice, score in question.target_scores.items() if score == best)
