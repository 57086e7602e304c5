# SPDX-License-Identifier: Apache-2.0
"""JsonTask: rows of a JSONL file, a metric, and how to ask."""

from __future__ import annotations

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
from lmeval.api.model import Completion, LogProbs, Model, Prompt
from lmeval.api.options import TaskOptions
from lmeval.api.prompts import PromptFormat
from lmeval.api.rows_scoring import cluster_of, rows_summary, score_rows, with_error
from lmeval.api.scoring import Answer, AnswerReader, score_answers
from lmeval.api.settings import TaskSettings
from lmeval.api.task import ExampleScore, ScoreData, Task, TaskMetadata

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

    def evaluate_model(self, model: Model) -> ScoreData | list[ScoreData]:
        """See `Task.evaluate_model`; one ScoreData for each number of shots."""
        evaluate = self._compare_choices if self.metric.kind == "choices" else self._generate
        prepared = [(shots, self.prompts(shots)) for shots in self.options.shots]
        scores = [evaluate(model, shots, prompts) for shots, prompts in prepared]
        return scores[0] if len(scores) == 1 else scores

    def _generate(self, model: Model, shots: int, prompts: list[Prompt]) -> ScoreData:
        if self.metric.kind == "sandbox":
            score_answers(self.metric, [], self.options.sandbox)  # refuse before asking the model
        samples = self.settings.num_samples
        repeated = [prompt for prompt in prompts for _ in range(samples)]
        texts = model.generate_text(
            repeated, self.settings.max_length, self.settings.stop_string or None
        )
        completions = [text if isinstance(text, Completion) else Completion(text) for text in texts]
        rows = [row for row in self.examples for _ in range(samples)]
        readings = [None if c.error else self._reader.read(c) for c in completions]
        answers = [
            Answer(row, reading or "", completion.error)
            for row, reading, completion in zip(rows, readings, completions, strict=True)
        ]
        scores, totals, summary = self._score(answers)
        per_example = [
            self._example_score(
                i, answers[i], completions[i], repeated[i], readings[i], [s[i] for s in scores]
            )
            for i in range(len(answers))
        ]
        return self._score_data(shots, totals, per_example, summary)

    def _score(
        self, answers: list[Answer]
    ) -> tuple[list[list[RowScore]], dict[str, float], Summary | None]:
        """The answers' scores by each metric that scores answers, and the task's scores.

        The summary is that of the preferred score, where it is not the mean of its rows.
        """
        totals: dict[str, float] = {}
        summary: Summary | None = None
        by_metric: list[list[RowScore]] = []
        for metric in self._metrics_of_rows():
            scores = score_answers(metric, answers, self.options.sandbox)
            totals[metric.name] = statistics.fmean(score.score for score in scores)
            by_metric.append(scores)
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
        return by_metric, totals, summary

    def _metrics_of_rows(self) -> list[Metric]:
        """The metrics that score each answer by itself, the rows' own first."""
        return [m for m in (self.metric, *self._further_metrics) if m.kind != "rows"]

    def _rows_summary(self, metric: Metric, answers: list[Answer]) -> Summary | None:
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

    def _example_score(
        self,
        position: int,
        answer: Answer,
        completion: Completion,
        prompt: Prompt,
        reading: str | None,
        scores: Sequence[RowScore],
    ) -> ExampleScore:
        example = answer.example
        metrics = self._row_metric_names
        preferred = metrics.get(self.preferred_score, 0)
        return ExampleScore(
            id=example.id,
            score=scores[preferred].score if scores else None,
            prompt=prompt,
            prediction=answer.prediction,
            targets=example.targets,
            sample=position % self.settings.num_samples,
            raw_prediction=None if completion.raw == answer.prediction else completion.raw,
            error=completion.error,
            no_answer=reading is None and completion.error is None,
            finish_reason=completion.finish_reason,
            latency_ms=completion.latency_ms,
            cluster=cluster_of(example),
            scores=(
                {name: scores[place].score for name, place in metrics.items()}
                if len(metrics) > 1
                else {}
            ),
            details=scores[0].details if scores else {},
        )

    @functools.cached_property
    def _row_metric_names(self) -> dict[str, int]:
        """The metrics that score each answer, with their places among its scores."""
        return {metric.name: place for place, metric in enumerate(self._metrics_of_rows())}

    def _compare_choices(self, model: Model, shots: int, prompts: list[Prompt]) -> ScoreData:
        choices: list[Sequence[str]] = [row.extras["choices"] for row in self.examples]
        continuations = [
            [self._format.answer_gap(prompt) + choice for choice in options]
            for prompt, options in zip(prompts, choices, strict=True)
        ]
        log_probs = model.cond_log_prob(prompts, continuations, absolute_normalization=True)
        per_example = [
            self._choice_score(row, prompt, options, LogProbs.of(values))
            for row, prompt, options, values in zip(
                self.examples, prompts, choices, log_probs, strict=True
            )
        ]
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
