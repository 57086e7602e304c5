# SPDX-License-Identifier: Apache-2.0
"""The BIG-bench dialect: its task.json, its metrics, and its task.py run unmodified.

Nothing here is imported before a task of BIG-bench's is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lmeval.api.errors import UsageError
from lmeval.api.options import TaskOptions
from lmeval.api.task import Task

if TYPE_CHECKING:
    from lmeval.bigbench.summary import TaskSummary


def load_json_task(
    folder: Path,
    name: str,
    options: TaskOptions,
    subtask: str | None = None,
    *,
    rouge_seed: int | None = None,
) -> Task:
    """Load a folder with BIG-bench's task.json; all its examples are read and checked.

    Args:
      folder: the task's folder.
      name: what the task is called in messages.
      options: the run's wishes. The seed is BIG-bench's 42 unless given.
      subtask: the name of a sub-folder, to load that sub-task alone.
      rouge_seed: report rouge as BIG-bench does, as the median of bootstrap means drawn with this
        seed, in place of the mean. None: `options.dialect_settings["rouge_seed"]`, if there.

    Raises:
      TaskFileError: a task.json is not as it must be.
      TaskError: there is no such sub-task, or there are too few examples for the shots.
      UsageError: `max_examples` is less than the number of sub-tasks, or the seed of rouge is none.
      MissingExtraError: a metric needs a package that is not installed.
    """
    from lmeval.bigbench.loading import LoadSettings, load_task_folder

    if rouge_seed is None:
        rouge_seed = options.dialect_settings.get("rouge_seed")
    if rouge_seed is not None and not 0 <= rouge_seed < 2**32:
        raise UsageError(f"The seed of rouge must be from 0 to {2**32 - 1} (got {rouge_seed}).")
    settings = LoadSettings(options=options, rouge_seed=rouge_seed)
    return load_task_folder(folder, name, subtask, settings)


def read_metadata(folder: Path) -> TaskSummary:
    """What a list of tasks shows of a folder, read quickly and without running its code.

    Raises:
      TaskFileError: the file cannot be read, or lacks what BIG-bench asks of every task.
    """
    from lmeval.bigbench import summary

    return summary.read_metadata(folder)


def load_program_task(folder: Path, name: str, options: TaskOptions) -> Task:
    """Load a folder with BIG-bench's task.py, which is run as it is.

    Args:
      folder: the task's folder; what lies beside it is `bigbench.benchmark_tasks` to the program.
      name: what the task is called in messages.
      options: the run's wishes. The seed is 42 unless given.

    Raises:
      TaskError: the program fails, needs a package that is missing, or has no one Task.
      UsageError: something is asked for that such a task decides itself, or it runs code that the
        model writes and that is not allowed.
    """
    if runs_model_code(folder):
        from lmeval.bigbench.isolated_task import IsolatedTask

        return IsolatedTask(folder, name, options)
    from lmeval.bigbench.program_task import ProgramTask

    return ProgramTask(folder, name, options)


def runs_model_code(folder: Path) -> bool:
    """Whether the programs in a task's folder run code that the model writes."""
    return any(b"RestrictedPython" in file.read_bytes() for file in folder.glob("*.py"))
