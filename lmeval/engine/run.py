# SPDX-License-Identifier: Apache-2.0
"""Running tasks: from loaded tasks and a model to a leaderboard."""

from __future__ import annotations

import inspect
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import attrs

import lmeval
from lmeval.api.errors import InvalidValueError, LmevalError, TaskError
from lmeval.api.loading import describe_failure
from lmeval.api.model import Model
from lmeval.api.options import TaskOptions
from lmeval.api.registry import TaskCatalog, content_hash, inherited_files, load_task
from lmeval.api.results import Leaderboard, TaskFailure, TaskResult, task_results
from lmeval.api.task import ScoreData, Task
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings

Notify = Callable[[str], None]


@attrs.frozen
class LoadedTask:
    """A task that is ready to be evaluated."""

    name: str
    task: Task
    sha256: str
    """Hash of the task's content."""
    program: Path | None = None
    """The file of a programmatic task, for messages."""


def load_tasks(
    wanted: Sequence[str],
    options: TaskOptions,
    tasks_dirs: Sequence[str] = (),
) -> list[LoadedTask]:
    """Find and load tasks.

    Args:
      wanted: names, patterns, paths or `all`; see `TaskCatalog.select`.
      options: how they are to be evaluated.
      tasks_dirs: the user's tasks folders.

    Raises:
      LmevalError: a name stands for nothing, or a task is faulty.
    """
    loaded = []
    for source, subtask in TaskCatalog.of(tasks_dirs).select(wanted):
        task = load_task(source, options, subtask)
        name = source.name if subtask is None else f"{source.name}.{subtask}"
        program = source.path / "task.py" if source.kind.endswith("python") else None
        digest = content_hash(source.path, inherited_files(task, source.path))
        loaded.append(LoadedTask(name, task, digest, program))
    return loaded


def run_tasks(
    tasks: Sequence[LoadedTask],
    engine: Engine,
    options: TaskOptions,
    *,
    flags: Mapping[str, Any] | None = None,
    notify: Notify = lambda message: None,
    clock: Callable[[], float] = time.time,
) -> Leaderboard:
    """Evaluate tasks one after the other.

    A task that fails is reported in `Leaderboard.failed_tasks` and the others go on.

    Args:
      tasks: what to evaluate.
      engine: the model, with all that stands between it and the tasks.
      options: what the tasks were loaded with.
      flags: what else decides the scores, for the record.
      notify: takes one-sentence messages for the user.
      clock: seconds since the epoch.

    Raises:
      LmevalError: every task failed; this is the first one's reason.
    """
    started = clock()
    results: list[TaskResult] = []
    failures: list[TaskFailure] = []
    seconds: dict[str, float] = {}
    first_error: LmevalError | None = None
    for loaded in tasks:
        task_started = clock()
        try:
            results += _run_task(loaded, engine, options, notify, clock)
        except LmevalError as error:
            first_error = first_error or error
            failures.append(TaskFailure(task=loaded.name, reason=str(error)))
        seconds[loaded.name] = round(clock() - task_started, 3)
    if first_error is not None and not results:
        raise first_error
    return Leaderboard(
        adapter=engine.name,
        model=engine.model_data(),
        fingerprint=engine.fingerprint(),
        tasks=tuple(results),
        failed_tasks=tuple(failures),
        seed=options.seed,
        flags=flags or {},
        environment=_environment(),
        sandbox=_sandbox_report(options),
        timestamp=datetime.fromtimestamp(started, timezone.utc).isoformat(timespec="seconds"),
        timing={
            "seconds": round(clock() - started, 3),
            "task_seconds": seconds,
            "usage": engine.usage(),
        },
    )


def _run_task(
    loaded: LoadedTask,
    engine: Engine,
    options: TaskOptions,
    notify: Notify,
    clock: Callable[[], float],
) -> list[TaskResult]:
    started = clock()
    scores = _evaluate(loaded, engine.for_task(loaded.name), options, notify)
    counts = engine.counts(loaded.name)
    return task_results(
        loaded.name,
        scores,
        loaded.sha256,
        latency_ms=round((clock() - started) * 1000, 3),
        counted_failures=(counts.timeouts, counts.errors),
    )


def _evaluate(
    loaded: LoadedTask, model: Model, options: TaskOptions, notify: Notify
) -> list[ScoreData]:
    wishes = _accepted_wishes(loaded, options, notify)
    try:
        scores: Any = loaded.task.evaluate_model(model, **wishes)
    except InvalidValueError as error:
        raise TaskError(f"The task {loaded.name}: {error}") from error
    except LmevalError:
        raise
    except Exception as error:  # a user's task may raise anything
        reason = describe_failure(error, loaded.program)
        raise TaskError(f"The task {loaded.name} failed: {reason}") from error
    scores = [scores] if isinstance(scores, ScoreData) else scores
    if not isinstance(scores, (list, tuple)) or not scores:
        raise TaskError(f"The task {loaded.name} returned {scores!r} where ScoreData are due.")
    for score in scores:
        if not isinstance(score, ScoreData):
            raise TaskError(f"The task {loaded.name} returned {score!r}, which is no ScoreData.")
    return list(scores)


def _accepted_wishes(loaded: LoadedTask, options: TaskOptions, notify: Notify) -> dict[str, int]:
    """The run's options that the task's `evaluate_model` takes as arguments."""
    accepted = inspect.signature(loaded.task.evaluate_model).parameters
    wishes = {}
    if options.max_examples is not None and "max_examples" in accepted:
        wishes["max_examples"] = options.max_examples
    if "random_seed" in accepted:
        wishes["random_seed"] = 0 if options.seed is None else options.seed
    if loaded.program and options.max_examples is not None and "max_examples" not in accepted:
        notify(f"{loaded.name}: takes no max_examples, so it runs in full.")
    return wishes


def _sandbox_report(options: TaskOptions) -> dict[str, Any] | None:
    """What held model-written code in; None if none was run."""
    report = None if options.sandbox is None else options.sandbox.report()
    return report if report and report["started"] else None


def _environment() -> dict[str, str]:
    versions = {"lmeval": lmeval.__version__, "python": platform.python_version()}
    for package in ("numpy", "torch", "transformers", "sacrebleu", "rouge_score"):
        module = sys.modules.get(package)
        if module is not None:
            versions[package] = str(getattr(module, "__version__", "unknown"))
    return versions


def evaluate(
    tasks: Sequence[str],
    model: Model,
    options: TaskOptions | None = None,
    *,
    tasks_dirs: Sequence[str] = (),
    engine_settings: EngineSettings | None = None,
) -> Leaderboard:
    """Evaluate a model on tasks: the whole of the command line's main job as one call.

    Args:
      tasks: names, patterns, paths or `all`.
      model: the model; `AdapterModel` wraps an object with `name` and `generate(prompts)`.
      options: shots, limits, seed and so on.
      tasks_dirs: your own tasks folders.
      engine_settings: batch size, concurrency, cache and so on; nothing is cached unless said.

    Returns:
      The leaderboard; `write_leaderboard` puts it into a file.

    Raises:
      LmevalError: a task is unknown or faulty, or every task failed.
    """
    options = options or TaskOptions()
    loaded = load_tasks(tasks, options, tasks_dirs)
    with Engine(model, engine_settings or EngineSettings()) as engine:
        return run_tasks(loaded, engine, options)
