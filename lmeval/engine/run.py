# SPDX-License-Identifier: Apache-2.0
"""Running tasks: from loaded tasks and a model to a leaderboard."""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import attrs

import lmeval
from lmeval.api.errors import FailedTaskError, InvalidValueError, LmevalError, TaskError
from lmeval.api.failures import describe_failure
from lmeval.api.json_task import JsonTask
from lmeval.api.json_task_checks import TEXT_OPTIONS
from lmeval.api.model import Model
from lmeval.api.model_registry import build_model
from lmeval.api.options import TaskOptions
from lmeval.api.registry import TaskCatalog, content_hash, inherited_files, load_task
from lmeval.api.results import Leaderboard, TaskFailure, TaskResult, task_results
from lmeval.api.task import ScoreData, Task
from lmeval.engine.engine import Engine
from lmeval.engine.samples_folder import SamplesFolder, SamplesWriter
from lmeval.engine.settings import EngineSettings
from lmeval.models.adapter import Adapter, AdapterModel

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
    parallel_tasks: int = 1,
    samples: SamplesFolder | None = None,
    notify: Notify = lambda message: None,
    clock: Callable[[], float] = time.time,
) -> Leaderboard:
    """Evaluate tasks.

    A task that fails is reported in `Leaderboard.failed_tasks` and the others go on; so are the
    tasks that are not finished when the engine stops the run.

    Args:
      tasks: what to evaluate.
      engine: the model, with all that stands between it and the tasks.
      options: what the tasks were loaded with.
      flags: what else decides the scores, for the record.
      parallel_tasks: how many tasks to evaluate side by side.
      samples: where every answer is written as it is scored.
      notify: takes one-sentence messages for the user.
      clock: seconds since the epoch.

    Raises:
      LmevalError: every task failed; this is the first one's reason.
    """
    started = clock()

    def attempt(loaded: LoadedTask) -> list[TaskResult] | LmevalError:
        try:
            return _run_task(loaded, engine, options, samples, notify, clock)
        except LmevalError as error:
            return error
        finally:
            engine.finished(loaded.name)

    outcomes = _outcomes(attempt, tasks, parallel_tasks, engine)
    errors = [
        (t.name, o) for t, o in zip(tasks, outcomes, strict=True) if isinstance(o, LmevalError)
    ]
    results = [result for o in outcomes if not isinstance(o, LmevalError) for result in o]
    if errors and not results:
        raise _no_result(errors)
    return Leaderboard(
        adapter=engine.name,
        model=engine.model_data(),
        fingerprint=engine.fingerprint(),
        tasks=tuple(results),
        failed_tasks=tuple(TaskFailure(task=name, reason=str(error)) for name, error in errors),
        seed=options.seed,
        flags=flags or {},
        environment=environment(),
        sandbox=_sandbox_report(options),
        timestamp=utc_time(started),
        timing={
            "seconds": round(clock() - started, 3),
            "requests": {task.name: attrs.asdict(engine.counts(task.name)) for task in tasks},
            "usage": engine.usage(),
        },
    )


def _no_result(errors: Sequence[tuple[str, LmevalError]]) -> LmevalError:
    """What to raise when no task gave a result: the one reason, or all of them."""
    if len({str(error) for _, error in errors}) == 1:
        return errors[0][1]
    reasons = " ".join(f"{name}: {error}" for name, error in errors)
    failure = TaskError(f"No task gave a result. {reasons}")
    failure.exit_code = max(error.exit_code for _, error in errors)
    return failure


def _outcomes(
    attempt: Callable[[LoadedTask], list[TaskResult] | LmevalError],
    tasks: Sequence[LoadedTask],
    parallel_tasks: int,
    engine: Engine,
) -> list[list[TaskResult] | LmevalError]:
    if parallel_tasks == 1 or len(tasks) == 1:
        return [attempt(task) for task in tasks]
    with ThreadPoolExecutor(parallel_tasks, thread_name_prefix="lmeval-task") as pool:
        try:
            return list(pool.map(attempt, tasks))
        except KeyboardInterrupt:
            # Ctrl-C reaches this thread alone; the tasks' threads wait for the engine.
            pool.shutdown(wait=False, cancel_futures=True)
            engine.interrupt()
            raise


def utc_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


def _run_task(
    loaded: LoadedTask,
    engine: Engine,
    options: TaskOptions,
    samples: SamplesFolder | None,
    notify: Notify,
    clock: Callable[[], float],
) -> list[TaskResult]:
    started = clock()
    with contextlib.nullcontext() if samples is None else samples.start(loaded.name) as writer:
        scores = _evaluate(loaded, engine.for_task(loaded.name), options, notify, writer)
        counts = engine.counts(loaded.name)
        failures = (counts.timeouts, counts.errors)
        if writer is not None:
            writer.finish(scores, failures)
    results = task_results(
        loaded.name,
        scores,
        loaded.sha256,
        latency_ms=round((clock() - started) * 1000, 3),
        counted_failures=failures,
    )
    report = _sandbox_report(options)
    if report is None:
        return results
    isolation = str(report["isolation"])
    return [attrs.evolve(r, isolation=isolation) if r.outcomes else r for r in results]


def _evaluate(
    loaded: LoadedTask,
    model: Model,
    options: TaskOptions,
    notify: Notify,
    writer: SamplesWriter | None,
) -> list[ScoreData]:
    wishes = _accepted_wishes(loaded, options, notify, writer)
    _tell_of_equal_samples(loaded, model, notify)
    try:
        scores: Any = loaded.task.evaluate_model(model, **wishes)
    except InvalidValueError as error:
        raise FailedTaskError(f"The task {loaded.name}: {error}") from error
    except LmevalError:
        raise
    except (Exception, SystemExit) as error:  # a user's task may raise anything
        reason = describe_failure(error, loaded.program)
        raise FailedTaskError(f"The task {loaded.name} failed: {reason}") from error
    scores = [scores] if isinstance(scores, ScoreData) else scores
    if not isinstance(scores, (list, tuple)) or not scores:
        raise FailedTaskError(
            f"The task {loaded.name} returned {scores!r} where ScoreData are due."
        )
    for score in scores:
        if not isinstance(score, ScoreData):
            raise FailedTaskError(
                f"The task {loaded.name} returned {score!r}, which is no ScoreData."
            )
    return list(scores)


def _accepted_wishes(
    loaded: LoadedTask, options: TaskOptions, notify: Notify, writer: SamplesWriter | None
) -> dict[str, Any]:
    """What the run has to say that the task's `evaluate_model` takes as arguments."""
    accepted = inspect.signature(loaded.task.evaluate_model).parameters
    wishes: dict[str, Any] = {}
    if writer is not None and "on_scored" in accepted:
        wishes["on_scored"] = writer.append
    if options.max_examples is not None and "max_examples" in accepted:
        wishes["max_examples"] = options.max_examples
    if "random_seed" in accepted:
        wishes["random_seed"] = 0 if options.seed is None else options.seed
    ignored = [name for name in _ignored_options(loaded, wishes) if _is_set(options, name)]
    if ignored:
        flags = ", ".join(f"--{name}" for name in ignored)
        notify(f"{loaded.name}: the task takes no notice of {flags}.")
    return wishes


def _tell_of_equal_samples(loaded: LoadedTask, model: Model, notify: Notify) -> None:
    n_samples = loaded.task.settings.num_samples if isinstance(loaded.task, JsonTask) else 1
    if n_samples > 1 and model.deterministic:
        notify(
            f"{loaded.name}: the model answers equal prompts alike, so the {n_samples} samples "
            "of an example are the same; a temperature would make them differ."
        )


def _ignored_options(loaded: LoadedTask, wishes: Mapping[str, Any]) -> Sequence[str]:
    """The options that a task does not follow, set or not."""
    if loaded.program is None:
        return getattr(loaded.task, "ignored_options", ())
    taken = {"max_examples": "max_examples" in wishes, "seed": "random_seed" in wishes}
    return ["shots", *TEXT_OPTIONS, *(name for name, is_taken in taken.items() if not is_taken)]


def _is_set(options: TaskOptions, name: str) -> bool:
    return getattr(options, name) not in (None, (0,))


def _sandbox_report(options: TaskOptions) -> dict[str, Any] | None:
    """What held model-written code in; None if none was run."""
    report = None if options.sandbox is None else options.sandbox.report()
    return report if report and report["started"] else None


def environment() -> dict[str, str]:
    """The versions of lmeval, Python and those libraries in use that can change a number."""
    versions = {
        "lmeval": lmeval.__version__,
        "python": platform.python_version(),
        # Statistics always use it, though it may not be imported yet.
        "numpy": importlib.metadata.version("numpy"),
    }
    for package in ("torch", "transformers", "sacrebleu", "rouge_score"):
        module = sys.modules.get(package)
        if module is not None:
            versions[package] = str(getattr(module, "__version__", "unknown"))
    return versions


def evaluate(
    tasks: str | Sequence[str],
    model: Model | Adapter | str,
    options: TaskOptions | None = None,
    *,
    tasks_dirs: Sequence[str] = (),
    engine_settings: EngineSettings | None = None,
) -> Leaderboard:
    """Evaluate a model on tasks: the whole of the command line's main job as one call.

    Args:
      tasks: names, patterns, paths or `all`; one, or several.
      model: the model, an object with `name` and `generate(prompts)`, or what `--model` takes for
        a model that needs no settings.
      options: shots, limits, seed and so on.
      tasks_dirs: your own tasks folders.
      engine_settings: batch size, concurrency, cache and so on; nothing is cached unless said.

    Returns:
      The leaderboard; `write_leaderboard` puts it into a file.

    Raises:
      LmevalError: a task is unknown or faulty, the model cannot be built, or every task failed.
    """
    options = options or TaskOptions()
    wanted = [tasks] if isinstance(tasks, str) else list(tasks)
    loaded = load_tasks(wanted, options, tasks_dirs)
    if isinstance(model, str):
        asked = build_model(model)
    else:
        asked = model if isinstance(model, Model) else AdapterModel(model)
    flags = {
        field.name: getattr(options, field.name)
        for field in attrs.fields(TaskOptions)
        if field.name not in ("sandbox", "seed")
    }
    with Engine(asked, engine_settings or EngineSettings()) as engine:
        return run_tasks(loaded, engine, options, flags={"task": wanted, **flags})
