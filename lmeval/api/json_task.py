# SPDX-License-Identifier: Apache-2.0
"""JsonTask: rows of a JSONL file, a metric, and how to ask."""

from __future__ import annotations

import contextlib
import functools
import itertools
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from lmeval.api.errors import TaskError
from lmeval.api.example import Example
from lmeval.api.fewshot import draw_shots, ordered_pool
from lmeval.api.json_task_checks import TEXT_OPTIONS, check_examples, check_settings
from lmeval.api.metrics import Metric, RowScore, find_metric
from lmeval.api.model import LogProbs, Model, Prompt
from lmeval.api.options import TaskOptions
from lmeval.api.prompts import PromptFormat
from lmeval.api.rows_scoring import cluster_of, rows_summary, score_rows, with_error
from lmeval.api.scored_answers import ScoredAnswers
from lmeval.api.scoring import Answer, AnswerReader, score_answers
from lmeval.api.settings import TaskSettings
from lmeval.api.task import ExampleScore, OnScored, ScoreData, Task, TaskMetadata

if TYPE_CHECKING:
    from lmeval.statistics import Summary

DEFAULT_SEED = 0


class JsonTask(Task):
    """A task made of rows: each is sent to the model and its answer scored by one metric.

    Attributes:
      name: the task's name.
      examples: the rows under test, in the file's order.
      settings: how prompts are built and answers read, the run's own wishes included.
    """

    def __init__(
        self,
        name: str,
        examples: Sequence[Example],
        settings: TaskSettings | None = None,
        options: TaskOptions | None = None,
        shot_pool: Sequence[Example] | None = None,
    ) -> None:
        """Make a task.

        Args:
          name: the task's name.
          examples: the rows under test; at least one, all with the same metric.
          settings: as in task.json.
          options: as on the command line; they go before the settings.
          shot_pool: where shots are drawn from; the examples themselves unless given.

        Raises:
          TaskError: there are no examples, or settings that do not go together.
          ExampleError: an example cannot be scored; `example` is the one.
          MetricError: there is no metric of that name.
        """
        if not examples:
            raise TaskError(f"The task {name} has no examples.")
        self.name = name
        self.examples = tuple(examples)
        self.options = options or TaskOptions()
        self.metric = find_metric(self.examples[0].metric)
        own = settings or TaskSettings()
        check_settings(name, own, self.metric)
        self.settings = own if self.metric.kind == "choices" else _with_options(own, self.options)
        self._pool = self.examples if shot_pool is None else shot_pool
        self._further_metrics = [find_metric(other) for other in self.settings.metrics]
        self._reader = AnswerReader.from_settings(self.settings)
        self._format = PromptFormat(
            task_prefix=self.settings.task_prefix,
            example_input_prefix=self.settings.example_input_prefix,
            example_output_prefix=self.settings.example_output_prefix,
            few_shot_example_separator=self.settings.few_shot_example_separator,
        )
        check_examples(self.examples, [self.metric, *self._further_metrics], self.settings)

    @property
    def _seed(self) -> int:
        return DEFAULT_SEED if self.options.seed is None else self.options.seed

    @functools.cached_property
    def _shot_pool(self) -> list[Example]:
        return ordered_pool(self._pool)

    @property
    def ignored_options(self) -> tuple[str, ...]:
        """The options that this task cannot follow: comparing choices reads no text."""
        return TEXT_OPTIONS if self.metric.kind == "choices" else ()

    @property
    def preferred_score(self) -> str:
        """The score that stands for the task."""
        return self.settings.preferred_score or self.metric.name

    @property
    def number_of_requests(self) -> int:
        """How many requests an evaluation makes."""
        return len(self.examples) * self.settings.num_samples * len(self.options.shots)

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`."""
        longest = max(len(self._format.question(row).split()) for row in self.examples)
        return TaskMetadata(
            name=self.name,
            description=self.settings.description,
            keywords=list(self.settings.keywords),
            max_input_length_per_query=longest * (1 + max(self.options.shots)),
            max_queries=self.number_of_requests,
        )

    def prompts(self, number_of_shots: int = 0) -> list[Prompt]:
        """What the model is sent: one prompt a row, in order, with shots drawn for each.

        Raises:
          TaskError: there are too few examples to draw that many shots from.
        """
        try:
            return [
                self._format.prompt(
                    row, draw_shots(self._shot_pool, row, number_of_shots, self._seed), self.name
                )
                for row in self.examples
            ]
        except TaskError as error:
            raise TaskError(f"The task {self.name}: {error}") from None

    def evaluate_model(
        self, model: Model, on_scored: OnScored | None = None
    ) -> ScoreData | list[ScoreData]:
        """See `Task.evaluate_model`; one ScoreData for each number of shots.

        Args:
          model: the model under test.
          on_scored: is given the answers as they are scored.
        """
        evaluate = self._compare_choices if self.metric.kind == "choices" else self._generate
        prepared = [(shots, self.prompts(shots)) for shots in self.options.shots]
        scores = [evaluate(model, shots, prompts, on_scored) for shots, prompts in prepared]
        return scores[0] if len(scores) == 1 else scores

    def _generate(
        self, model: Model, shots: int, prompts: list[Prompt], on_scored: OnScored | None
    ) -> ScoreData:
        if self.metric.kind == "sandbox":
            score_answers(self.metric, [], self.options.sandbox)  # refuse before asking the model
        repeated = [prompt for prompt in prompts for _ in range(self.settings.num_samples)]
        scored = ScoredAnswers(
            prompts=repeated,
            examples=[row for row in self.examples for _ in range(self.settings.num_samples)],
            samples_per_example=self.settings.num_samples,
            metrics=self._metrics_of_rows(),
            preferred_score=self.preferred_score,
            reader=self._reader,
            sandbox=self.options.sandbox,
        )
        parts = model.generate_text_as_completed(
            repeated, self.settings.max_length, self.settings.stop_string or None
        )
        with contextlib.closing(parts):
            for part in parts:
                rows = scored.take(part)
                if on_scored is not None:
                    on_scored(rows, shots)
        totals, summary = self._totals(scored.answers, scored.by_metric)
        return self._score_data(shots, totals, scored.rows, summary)

    def _totals(
        self, answers: Sequence[Answer], by_metric: Sequence[Sequence[RowScore]]
    ) -> tuple[dict[str, float], Summary | None]:
        """The task's scores, from the answers and their scores by each metric that scores answers.

        The summary is that of the preferred score, where it is not the mean of its rows.
        """
        summary: Summary | None = None
        totals = {
            metric.name: statistics.fmean(score.score for score in scores)
            for metric, scores in zip(self._metrics_of_rows(), by_metric, strict=True)
        }
        for metric in [self.metric, *self._further_metrics]:
            if metric.kind == "rows":
                of_rows = score_rows(metric, answers)
                totals |= of_rows
                if self.preferred_score in of_rows:
                    summary = self._rows_summary(metric, answers)
        for k in self.settings.pass_at_k:
            name, estimate = f"pass@{k}", self._pass_at_k(by_metric[0], k)
            if estimate.mean is not None:
                totals[name] = estimate.mean
                summary = estimate if name == self.preferred_score else summary
        return totals, summary

    def _metrics_of_rows(self) -> list[Metric]:
        """The metrics that score each answer by itself, the rows' own first."""
        return [m for m in (self.metric, *self._further_metrics) if m.kind != "rows"]

    def _rows_summary(self, metric: Metric, answers: Sequence[Answer]) -> Summary | None:
        import numpy as np

        generator = np.random.default_rng(self._seed)
        return rows_summary(metric, self.preferred_score, answers, generator)

    def _pass_at_k(self, scores: Sequence[RowScore], k: int) -> Summary:
        from lmeval.statistics import mean_pass_at_k

        n = self.settings.num_samples
        passed = [score.score == 1.0 for score in scores]
        counts = [(n, sum(passed[start : start + n])) for start in range(0, len(passed), n)]
        clusters = [cluster_of(row) for row in self.examples]
        return mean_pass_at_k(counts, k, clusters=clusters if any(clusters) else None)

    def _compare_choices(
        self, model: Model, shots: int, prompts: list[Prompt], on_scored: OnScored | None
    ) -> ScoreData:
        choices: list[Sequence[str]] = [row.extras["choices"] for row in self.examples]
        continuations = [
            [self._format.answer_gap(prompt) + choice for choice in options]
            for prompt, options in zip(prompts, choices, strict=True)
        ]
        per_example: list[Any] = [None] * len(prompts)
        parts = model.cond_log_prob_as_completed(
            prompts, continuations, absolute_normalization=True
        )
        with contextlib.closing(parts):
            for part in parts:
                for at, values in part:
                    row = self._choice_score(self.examples[at], prompts[at], choices[at], values)
                    per_example[at] = row
                if on_scored is not None:
                    on_scored([per_example[at] for at, _ in part], shots)
        names = dict.fromkeys(itertools.chain.from_iterable(row.scores for row in per_example))
        totals = {
            name: statistics.fmean(row.scores.get(name, 0.0) for row in per_example)
            for name in names or [self.metric.name]
        }
        return self._score_data(shots, totals, per_example)

    def _choice_score(
        self, row: Example, prompt: Prompt, choices: Sequence[str], log_probs: LogProbs
    ) -> ExampleScore:
        scores: dict[str, float] = {}
        if log_probs.error is None:
            scores = self.metric.function(log_probs, choices, row.targets)
        best = max(log_probs)
        picked = [choice for choice, value in zip(choices, log_probs, strict=True) if value == best]
        return ExampleScore(
            id=row.id,
            score=scores.get(self.preferred_score, 0.0),
            prompt=prompt,
            prediction="" if log_probs.error else picked[0],
            targets=row.targets,
            error=log_probs.error,
            latency_ms=log_probs.latency_ms,
            cluster=cluster_of(row),
            scores=scores,
            details={
                "choices": list(choices),
                "log_probs": None if log_probs.error else list(log_probs),
                "tied": len(picked) > 1,
                "truncated_tokens": log_probs.truncated_tokens,
            },
        )

    def _score_data(
        self,
        shots: int,
        totals: dict[str, float],
        per_example: list[ExampleScore],
        summary: Summary | None = None,
    ) -> ScoreData:
        preferred = self.preferred_score
        if preferred not in totals:
            raise TaskError(
                f"The task {self.name} prefers the score {preferred!r}, but gives only "
                f"{', '.join(map(repr, totals))}; mend 'preferred_score'."
            )
        scale = self._metric_named(preferred)
        low, high = self.settings.low_score, self.settings.high_score
        score = ScoreData(
            score_dict=totals,
            preferred_score=preferred,
            number_of_shots=shots,
            low_score=scale.low_score if low is None else low,
            high_score=scale.high_score if high is None else high,
            per_example=tuple(per_example),
        )
        return score if summary is None else with_error(score, summary)

    def _metric_named(self, name: str) -> Metric:
        named = [metric for metric in self._further_metrics if metric.name == name]
        return named[0] if named else self.metric


def _with_options(settings: TaskSettings, options: TaskOptions) -> TaskSettings:
    wished: dict[str, Any] = {
        "max_length": options.max_length,
        "stop_string": options.stop_string,
        "output_regex": options.output_regex,
        "answer_extraction": options.answer_extraction,
    }
    return attrs.evolve(
        settings, **{name: value for name, value in wished.items() if value is not None}
    )
