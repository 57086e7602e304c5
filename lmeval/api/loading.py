# SPDX-License-Identifier: Apache-2.0
"""Loading the two kinds of tasks that lmeval calls its own: JSONL rows and Python classes."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import ModuleType

import attrs

from lmeval.api.errors import (
    ExampleError,
    LmevalError,
    MetricError,
    MissingExtraError,
    TaskError,
    TaskFileError,
)
from lmeval.api.example import Example, read_examples
from lmeval.api.failures import describe_failure
from lmeval.api.folder_imports import FolderImports
from lmeval.api.json_task import JsonTask
from lmeval.api.metrics import find_metric
from lmeval.api.options import TaskOptions
from lmeval.api.settings import TaskSettings, read_settings
from lmeval.api.task import Task

ROW_FILES = ("task.jsonl", "task.jsonl.gz")


def load_jsonl_task(path: Path, name: str, options: TaskOptions) -> JsonTask:
    """Load a folder with a task.jsonl, or a bare JSONL file.

    Only as many rows are read as are evaluated, unless shots have to be drawn from all of them.

    Raises:
      TaskFileError: a file of the task is not as it must be.
      TaskError: the task cannot be evaluated as it stands.
    """
    settings, rows_file, shots_file = TaskSettings(), path, None
    if path.is_dir():
        rows_file = next(path / file for file in ROW_FILES if (path / file).is_file())
        shots_file = path / "shots.jsonl" if (path / "shots.jsonl").is_file() else None
        settings = _settings_in(path, name)
        if (path / "metrics.py").is_file():
            load_module(path / "metrics.py", f"lmeval_task_metrics.{name}")
    draws_from_rows = max(options.shots) > 0 and shots_file is None
    rows = read_rows(rows_file, settings, None if draws_from_rows else options.max_examples)
    pool = rows if shots_file is None else read_rows(shots_file, settings, unnamed="shot")
    try:
        return JsonTask(name, rows[: options.max_examples], settings, options, pool)
    except ExampleError as error:
        reason = f"{error.reason} (example {error.example.id!r})."
        raise TaskFileError(rows_file, reason, error.example.line) from None
    except MissingExtraError:
        raise
    except LmevalError as error:
        raise TaskError(f"{path}: {error}") from None


def read_rows(
    path: Path,
    settings: TaskSettings | None = None,
    limit: int | None = None,
    unnamed: str = "row",
) -> list[Example]:
    """Read the rows of a task file.

    Args:
      path: a `.jsonl` or `.jsonl.gz` file.
      settings: the task's settings, for the metric of rows that name none.
      limit: how many rows to read; later rows are neither read nor checked.
      unnamed: what rows without an id are called, before their number.

    Raises:
      TaskFileError: the file or a row is not as it must be, there is no row, or no such metric.
    """
    default_metric = None if settings is None else settings.metric
    rows = list(itertools.islice(read_examples(path, default_metric, unnamed), limit))
    if not rows:
        raise TaskFileError(path, "holds no example; write one JSON object per line.")
    try:
        find_metric(rows[0].metric)
    except MetricError as error:
        raise TaskFileError(path, str(error), rows[0].line) from None
    return rows


def _settings_in(folder: Path, name: str) -> TaskSettings:
    file = folder / "task.json"
    if not file.is_file():
        return TaskSettings()
    settings = read_settings(file)
    if settings.name not in (None, name):
        raise TaskFileError(file, f"'name' is {settings.name!r}, but the folder is {name!r}.")
    return attrs.evolve(settings, name=name)


def load_program(folder: Path, name: str) -> Task:
    """Load the Task subclass that a folder's task.py defines and make one.

    Raises:
      TaskError: the program fails, or does not define exactly one Task with a constructor that
        needs no arguments.
    """
    file = folder / "task.py"
    module = load_module(file, f"lmeval_tasks.{name}")
    classes = [
        value
        for value in vars(module).values()
        # The module is asked for first: on Python 3.10 `list[int]` passes for a type.
        if getattr(value, "__module__", None) == module.__name__
        and isinstance(value, type)
        and issubclass(value, Task)
    ]
    concrete = [each for each in classes if not getattr(each, "__abstractmethods__", None)]
    if len(concrete) != 1:
        found = ", ".join(each.__name__ for each in concrete) or "none"
        missing = "".join(
            f"; {each.__name__} lacks {', '.join(sorted(each.__abstractmethods__))}"
            for each in classes
            if getattr(each, "__abstractmethods__", None)
        )
        raise TaskError(
            f"{file}: must define one complete subclass of Task, found {found}{missing}."
        )
    try:
        return concrete[0]()
    except LmevalError:
        raise
    except (Exception, SystemExit) as error:  # a user's constructor may raise anything
        raise TaskError(f"{name}: {describe_failure(error, file)}") from error


def load_module(file: Path, package: str) -> ModuleType:
    """Run a user's Python file and give its module; it may import the files beside it.

    Args:
      file: the program.
      package: the private package under which the folder's modules are kept in `sys.modules`.

    Raises:
      TaskError: there is no such file, or it cannot be run.
    """
    if not file.is_file():
        raise TaskError(f"There is no file {file}.")
    try:
        return FolderImports(file.parent, package).load(file.stem)
    except LmevalError:
        raise
    except (Exception, SystemExit) as error:  # a user's program may raise anything
        raise TaskError(f"{describe_failure(error, file)}") from error
