# SPDX-License-Identifier: Apache-2.0
"""What JsonTask refuses: settings that do not go together, examples that cannot be scored."""

from __future__ import annotations

from collections.abc import Sequence

from lmeval.api.answers import unreachable_targets
from lmeval.api.errors import ExampleError, TaskError
from lmeval.api.example import Example
from lmeval.api.metrics import Metric, find_metric
from lmeval.api.settings import TaskSettings

TEXT_OPTIONS = ("max_length", "stop_string", "output_regex", "answer_extraction")
"""Settings and options of the same names that only concern written answers."""


def check_settings(task: str, settings: TaskSettings, metric: Metric) -> None:
    """Refuse settings that a task with rows of `metric` would have to ignore.

    Raises:
      TaskError: two settings, or a setting and the metric, do not go together.
    """
    further = [find_metric(name) for name in settings.metrics]
    for other in further:
        if other.kind not in ("example", "rows"):
            raise TaskError(
                f"The task {task} lists {other.name!r} under 'metrics', but only the rows' own "
                "metric may run code or compare choices."
            )
    if metric.kind == "choices":
        defaults = TaskSettings()
        for name in (*TEXT_OPTIONS, "num_samples", "metrics"):
            if getattr(settings, name) != getattr(defaults, name):
                raise TaskError(
                    f"The task {task} compares choices, so there is no written answer for the "
                    f"setting {name!r}; take it out."
                )
    if settings.pass_at_k and metric.kind not in ("example", "sandbox"):
        raise TaskError(
            f"The task {task} asks for pass@k, but {metric.name!r} does not score each answer by "
            "itself; take out 'pass_at_k'."
        )
    _check_preferred_score(task, settings, [metric, *further])


def _check_preferred_score(task: str, settings: TaskSettings, metrics: Sequence[Metric]) -> None:
    preferred = settings.preferred_score
    if preferred is None or any(metric.kind in ("rows", "choices") for metric in metrics):
        return  # such metrics may give several scores, whose names only they know
    names = [metric.name for metric in metrics] + [f"pass@{k}" for k in settings.pass_at_k]
    if preferred not in names:
        raise TaskError(
            f"The task {task} prefers the score {preferred!r}, but gives only "
            f"{', '.join(map(repr, names))}; mend 'preferred_score'."
        )


def check_examples(
    examples: Sequence[Example], metrics: Sequence[Metric], settings: TaskSettings
) -> None:
    """Refuse examples that a metric cannot score, or that no answer could get right.

    Raises:
      ExampleError: an example is not as it must be; `example` is the one.
    """
    own = metrics[0]
    checks = [(metric.name, metric.check_row) for metric in metrics if metric.check_row]
    extraction = settings.answer_extraction if own.kind == "example" else None
    for example in examples:
        targets, extras = example.targets, example.extras
        if example.metric != own.name:
            raise ExampleError(example, f"its metric is {example.metric!r}, not {own.name!r}")
        if not targets or isinstance(targets, str):
            raise ExampleError(example, "its targets must be a sequence of at least one string")
        for name, check in checks:
            reason = check(targets, extras)
            if reason is not None:
                raise ExampleError(example, f"{reason} (metric {name})")
        if extraction is not None:
            reason = unreachable_targets(extraction, own.function, targets, extras)
            if reason is not None:
                raise ExampleError(example, reason)
    ids = {example.id for example in examples}
    if len(ids) < len(examples):
        twice = next(e for n, e in enumerate(examples) if e.id in {f.id for f in examples[:n]})
        raise ExampleError(twice, "another example has the same id")
