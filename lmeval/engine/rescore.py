# SPDX-License-Identifier: Apache-2.0
"""Scoring saved answers again, without the model that gave them."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from lmeval.api.errors import LmevalError, ResultsError, UnsupportedByModel
from lmeval.api.model import (
    Completion,
    LogProbs,
    Model,
    ModelData,
    list_of_log_probs,
    occurrence_numbers,
)
from lmeval.api.options import TaskOptions
from lmeval.api.results import Leaderboard, TaskFailure, TaskResult, task_results
from lmeval.api.task import ExampleScore
from lmeval.engine.engine import Engine
from lmeval.engine.run import LoadedTask, environment, run_tasks
from lmeval.engine.samples import SampledRun, TaskSamples
from lmeval.engine.settings import EngineSettings

_THOUGHT_END = "</think>"


class RecordedModel(Model):
    """Answers as the model of a run did, from the run's samples.

    Answers are found by the exact prompt and the example's id, so that a task which asks anything
    else than it did then is refused and not scored by answers to another question.

    Args:
      samples: the samples of the one task that will ask.
    """

    def __init__(self, samples: TaskSamples) -> None:
        self._run = samples.run
        self._rows: dict[tuple[str, str], list[ExampleScore]] = collections.defaultdict(list)
        rows = [row for _, row in samples.rows]
        if not samples.scores:  # they are in the order of arrival, but are asked for by number
            rows.sort(key=lambda row: row.sample)
        for row in rows:
            for id in {row.id, ""}:
                self._rows[row.prompt, id].append(row)

    def model_data(self) -> ModelData:
        """See `Model.model_data`: that of the run's model."""
        return self._run.model

    @property
    def name(self) -> str:
        """See `Model.name`: that of the run's model."""
        return self._run.adapter

    def fingerprint(self) -> str | None:
        """See `Model.fingerprint`: that of the run's model."""
        return self._run.fingerprint

    def generate_text(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        max_length: int | None = None,
        stop_string: Any = None,
        output_regex: str | None = None,
    ) -> str | list[str]:
        """See `Model.generate_text`; length, stop strings and regex are left to the engine.

        Raises:
          UnsupportedByModel: there is no recorded answer to a prompt.
        """
        prompts = [inputs] if isinstance(inputs, str) else inputs
        answers = [_completion(row) for row in self._rows_for(prompts)]
        return answers[0] if isinstance(inputs, str) else list(answers)

    def cond_log_prob(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        targets: Any,
        absolute_normalization: bool | None = False,
    ) -> list[float] | list[list[float]]:
        """See `Model.cond_log_prob`.

        Raises:
          UnsupportedByModel: there are no recorded log-probabilities of the targets.
        """
        contexts = [inputs] if isinstance(inputs, str) else inputs
        wanted = [targets] if isinstance(inputs, str) else targets
        scored: list[list[float]] = [
            list_of_log_probs(_log_probs(row, texts), bool(absolute_normalization))
            for row, texts in zip(self._rows_for(contexts), wanted, strict=True)
        ]
        return scored[0] if isinstance(inputs, str) else scored

    def _rows_for(self, prompts: Iterable[str]) -> list[ExampleScore]:
        rows = []
        asked = list(prompts)
        for prompt, number in zip(asked, occurrence_numbers(asked), strict=True):
            key = (str(prompt), getattr(prompt, "id", ""))
            recorded = self._rows.get(key, [])
            if number >= len(recorded):
                held = f"only {len(recorded)} of the answers" if recorded else "no answer"
                raise UnsupportedByModel(
                    f"the samples hold {held} to the prompt {key[0]!r:.100} that it asks for"
                )
            rows.append(recorded[number])
        return rows


def _completion(row: ExampleScore) -> Completion:
    if "choices" in row.details:
        raise UnsupportedByModel(f"the samples hold a choice and no text for row {row.id!r}")
    raw = row.prediction if row.raw_prediction is None else row.raw_prediction
    # What a reasoning model thinks stands in the raw text only; its answer is what comes after.
    _, thought, answer = raw.partition(_THOUGHT_END)
    return Completion(
        "" if row.error else answer.lstrip() if thought else raw,
        raw=raw,
        error=row.error,
        finish_reason=row.finish_reason,
        latency_ms=row.latency_ms,
    )


def _log_probs(row: ExampleScore, targets: Sequence[str]) -> LogProbs:
    if row.error is not None:
        return LogProbs.failed(len(targets), row.error, row.latency_ms)
    for texts, values in (
        (row.details.get("choices"), row.details.get("log_probs")),
        (row.targets, row.details.get("target_log_probs")),
    ):
        # A task may put the blank after the prompt in front of each choice.
        if texts and values and [t.lstrip() for t in texts] == [t.lstrip() for t in targets]:
            finite = [-math.inf if value is None else value for value in values]
            truncated = row.details.get("truncated_tokens", 0)
            return LogProbs(finite, latency_ms=row.latency_ms, truncated_tokens=truncated)
    raise UnsupportedByModel(
        f"the samples do not hold the log-probabilities that are asked for row {row.id!r}"
    )


@attrs.frozen(kw_only=True)
class Rescored:
    """A leaderboard made from samples, and how it was made."""

    leaderboard: Leaderboard
    changed: Mapping[str, int]
    """For each task that was scored again: how many of its answers score otherwise than before."""
    as_recorded: Mapping[str, str]
    """For each task whose recorded scores were taken over: why."""


def rescore(
    samples: Sequence[TaskSamples],
    tasks: Sequence[LoadedTask],
    options: TaskOptions,
    as_recorded: Mapping[str, str],
) -> Rescored:
    """Make a leaderboard from the answers that a run recorded.

    A task that the run left unfinished has no recorded scores; unless all that it asks is among its
    answers, it is a failed task. So is one of the run's tasks of which there are no samples.

    Args:
      samples: the samples of one run.
      tasks: the tasks as they are now; they are evaluated on the recorded answers.
      options: what the tasks were loaded with: those of the run, with a sandbox for code.
      as_recorded: the tasks whose recorded scores are to be taken over, and why. Those whose
        samples do not hold what the task asks are added.

    Raises:
      ResultsError: the samples are of several runs.
    """
    run = common_run(samples)
    by_name = {task.task: task for task in samples}
    taken_over = dict(as_recorded)
    results: dict[str, list[TaskResult]] = {}
    failures: list[TaskFailure] = []
    changed: dict[str, int] = {}
    for loaded in tasks:
        model = RecordedModel(by_name[loaded.name])
        with Engine(model, EngineSettings(max_consecutive_failures=None)) as engine:
            try:
                board = run_tasks([loaded], engine, options)
            except UnsupportedByModel as error:
                taken_over[loaded.name] = str(error)
            except LmevalError as error:
                failures.append(TaskFailure(task=loaded.name, reason=str(error)))
            else:
                results[loaded.name] = list(board.tasks)
                changed[loaded.name] = _n_changed(by_name[loaded.name], board)
    for name in run.tasks:
        if name not in by_name:
            place = samples[0].path.parent
            reason = f"{place} holds no samples of it, so the run broke off before or lost them."
            failures.append(TaskFailure(task=name, reason=reason))
    for name, reason in taken_over.items():
        if by_name[name].scores:
            results[name] = _recorded_results(by_name[name])
        else:
            failures.append(TaskFailure(task=name, reason=_broken_off(by_name[name], reason)))
    in_order = sorted(by_name.values(), key=lambda task: task.position)
    board = Leaderboard(
        adapter=run.adapter,
        model=run.model,
        fingerprint=run.fingerprint,
        tasks=tuple(result for task in in_order for result in results.get(task.task, ())),
        failed_tasks=tuple(failures),
        seed=run.options.seed,
        flags=run.flags,
        # What scored the answers now; of what gave them, the run knows.
        environment={**run.environment, **environment()} if changed else run.environment,
        timestamp=run.timestamp,
    )
    finished = {name: reason for name, reason in taken_over.items() if by_name[name].scores}
    return Rescored(leaderboard=board, changed=changed, as_recorded=finished)


def common_run(samples: Sequence[TaskSamples]) -> SampledRun:
    """The run that all samples are of.

    Raises:
      ResultsError: they are of several.
    """
    first = samples[0]
    for other in samples[1:]:
        different = [
            field.name
            for field in attrs.fields(SampledRun)
            if field.name not in ("timestamp", "environment")
            and getattr(first.run, field.name) != getattr(other.run, field.name)
        ]
        if different:
            raise ResultsError(
                f"{first.path} and {other.path} are of different runs: they differ in "
                f"{', '.join(different)}; put each run's samples into a folder of their own."
            )
    return first.run


def _broken_off(samples: TaskSamples, reason: str) -> str:
    n = len(samples.rows)
    answers = "1 scored answer" if n == 1 else f"{n:,} scored answers"
    return (
        f"{samples.path} is unfinished: the run broke off after {answers}; run its command again "
        f"to finish it ({reason})."
    )


def _recorded_results(samples: TaskSamples) -> list[TaskResult]:
    return task_results(
        samples.task, samples.scores, samples.sha256, counted_failures=samples.failures
    )


def _n_changed(samples: TaskSamples, board: Leaderboard) -> int:
    now = [row for result in board.tasks for _, row in result.per_example]
    before = collections.Counter((row.prompt, row.id, row.score) for _, row in samples.rows)
    return sum((before - collections.Counter((r.prompt, r.id, r.score) for r in now)).values())
