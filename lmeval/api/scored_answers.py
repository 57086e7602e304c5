# SPDX-License-Identifier: Apache-2.0
"""The written answers to a task's prompts: scored as they come, kept in the task's order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lmeval.api.example import Example
from lmeval.api.metrics import Metric, RowScore
from lmeval.api.model import Completion, Prompt
from lmeval.api.rows_scoring import cluster_of
from lmeval.api.scoring import Answer, AnswerReader, score_answers
from lmeval.api.task import ExampleScore

if TYPE_CHECKING:
    from lmeval.sandbox import Sandbox


class ScoredAnswers:
    """The answers to n prompts by what their metrics say of each; filled part by part.

    Attributes:
      answers: n answers as they were read.
      by_metric: for each metric n scores.
      rows: n answers as they stand in the results.
    """

    def __init__(
        self,
        *,
        prompts: Sequence[Prompt],
        examples: Sequence[Example],
        samples_per_example: int,
        metrics: Sequence[Metric],
        preferred_score: str,
        reader: AnswerReader,
        sandbox: Sandbox | None,
    ) -> None:
        """Expect answers.

        Args:
          prompts: what the model is asked, the samples of an example one after the other.
          examples: for each prompt its example.
          samples_per_example: how many samples there are.
          metrics: those that score each answer by itself.
          preferred_score: the score that stands for the task: a metric's, which is then that of an
            answer, pass@k, which is made of the first metric's, or one that no answer has.
          reader: finds in a text what is to be scored.
          sandbox: where code may run.
        """
        self.answers: list[Any] = [None] * len(prompts)
        self.rows: list[Any] = [None] * len(prompts)
        self.by_metric: list[list[Any]] = [[None] * len(prompts) for _ in metrics]
        self._prompts = prompts
        self._examples = examples
        self._samples_per_example = samples_per_example
        self._metrics = metrics
        self._names = {metric.name: place for place, metric in enumerate(metrics)}
        is_pass_at_k = preferred_score.startswith("pass@")
        self._preferred = self._names.get(preferred_score, 0 if is_pass_at_k else None)
        self._reader = reader
        self._sandbox = sandbox

    def take(self, part: Sequence[tuple[int, Completion]]) -> list[ExampleScore]:
        """Score answers, each with the place of its prompt.

        Returns:
          Their rows, in the order of `part`.

        Raises:
          UsageError: a metric runs code and there is no sandbox.
          FailedMetricError: a metric failed.
        """
        readings = [None if answer.error else self._reader.read(answer) for _, answer in part]
        answers = [
            Answer(self._examples[place], reading or "", completion.error)
            for (place, completion), reading in zip(part, readings, strict=True)
        ]
        by_metric = [score_answers(metric, answers, self._sandbox) for metric in self._metrics]
        by_row: list[tuple[RowScore, ...]] = list(zip(*by_metric, strict=True))
        rows = [
            self._row(place, answer, completion, reading, scores)
            for (place, completion), answer, reading, scores in zip(
                part, answers, readings, by_row or [()] * len(part), strict=True
            )
        ]
        columns: list[list[Any]] = [self.answers, self.rows, *self.by_metric]
        parts: list[Sequence[Any]] = [answers, rows, *by_metric]
        for kept, new in zip(columns, parts, strict=True):
            for (place, _), one in zip(part, new, strict=True):
                kept[place] = one
        return rows

    def _row(
        self,
        place: int,
        answer: Answer,
        completion: Completion,
        reading: str | None,
        scores: Sequence[RowScore],
    ) -> ExampleScore:
        example = answer.example
        return ExampleScore(
            id=example.id,
            score=None if self._preferred is None else scores[self._preferred].score,
            prompt=self._prompts[place],
            prediction=answer.prediction,
            targets=example.targets,
            sample=place % self._samples_per_example,
            raw_prediction=None if completion.raw == answer.prediction else completion.raw,
            error=completion.error,
            no_answer=reading is None and completion.error is None,
            finish_reason=completion.finish_reason,
            latency_ms=completion.latency_ms,
            cluster=cluster_of(example),
            scores=(
                {name: scores[position].score for name, position in self._names.items()}
                if len(self._names) > 1 or self._preferred is None
                else {}
            ),
            details=scores[0].details if scores else {},
        )
