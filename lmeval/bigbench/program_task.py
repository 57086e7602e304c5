# SPDX-License-Identifier: Apache-2.0
"""BIG-bench's task.py, run as it is."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from lmeval.api.errors import LmevalError, TaskError, UsageError
from lmeval.api.failures import describe_failure
from lmeval.api.model import Model
from lmeval.api.options import TaskOptions
from lmeval.api.task import ScoreData, Task, TaskMetadata
from lmeval.bigbench.leaf_task import DEFAULT_SEED
from lmeval.bigbench.program_model import ProgramModel
from lmeval.bigbench.shim.classes import make_task
from lmeval.bigbench.shim.modules import TaskModules
from lmeval.bigbench.text_scores import load_metrics

_logger = logging.getLogger("lmeval.bigbench")

_PIP_NAMES = {"sklearn": "scikit-learn", "tensorflow_datasets": "tensorflow-datasets"}


class _PrintLog(io.TextIOBase):
    """Standard output of a task: whole lines go to the log."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._line = ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            _logger.info("%s: %s", self._task, line)
        return len(text)


class ProgramTask(Task):
    """A task whose code BIG-bench's authors wrote, run with stand-ins for BIG-bench's modules.

    Such tasks build their own prompts and use the generators that a whole process shares. Both are
    seeded with the run's seed, or 42, while the task is made and while it runs.
    """

    def __init__(self, folder: Path, name: str, options: TaskOptions) -> None:
        """Load a task.

        Args:
          folder: the task's folder; `bigbench.benchmark_tasks` is the folder in which it lies.
          name: the task's name in messages.
          options: the run's wishes.

        Raises:
          UsageError: something is asked for that the task decides itself.
          TaskError: the program fails, needs a package that is missing, or has no one Task.
        """
        _refuse_what_it_decides(name, options)
        folder = folder.resolve()
        self._file = folder / "task.py"
        self._name = name
        self._options = options
        self._seed = DEFAULT_SEED if options.seed is None else options.seed
        load_metric = b"load_metric" in self._file.read_bytes()
        if load_metric:
            load_metrics(folder, name)
        self._modules = TaskModules(folder.parent, load_metric=load_metric)
        with self._running():
            module = importlib.import_module(f"bigbench.benchmark_tasks.{folder.name}.task")
            self._task = make_task(module)

    @contextlib.contextmanager
    def _running(self) -> Iterator[TextIO]:
        """Have what the task prints logged; gives what standard output is without that."""
        with self._modules.installed(self._seed):
            # Only in here, where no other task can have put its own log in that place.
            stdout = sys.stdout
            # Some print thousands of lines.
            with contextlib.redirect_stdout(_PrintLog(self._name)), self._explained():
                yield stdout

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except LmevalError:
            raise
        except ModuleNotFoundError as error:
            raise TaskError(_missing(self._name, error)) from error
        except Exception as error:  # a task may raise anything
            reason = describe_failure(error, self._file)
            raise TaskError(f"The task {self._name} failed: {reason}") from error

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`."""
        with self._running():
            return self._task.get_task_details()

    def evaluate_model(
        self, model: Model, max_examples: int | None = None
    ) -> ScoreData | list[ScoreData]:
        """See `Task.evaluate_model`.

        Args:
          model: the model under test.
          max_examples: the most examples to evaluate; None for the run's own wish.

        Raises:
          UsageError: `max_examples` is given and the task takes none.
          TaskError: the task failed.
        """
        wishes = self._wishes(max_examples or self._options.max_examples)
        with self._running() as stdout:
            scores: Any = self._task.evaluate_model(ProgramModel(model, stdout), **wishes)
            return scores  # type: ignore[no-any-return]

    def _wishes(self, max_examples: int | None) -> dict[str, int]:
        parameters = inspect.signature(self._task.evaluate_model).parameters
        wishes = {}
        if max_examples is not None:
            if "max_examples" not in parameters:
                raise UsageError(f"The task {self._name} takes no --max_examples; leave it out.")
            wishes["max_examples"] = max_examples
        # Most tasks have None there, with which numpy takes a seed that nobody knows.
        seed = parameters.get("random_seed")
        if seed is not None and (seed.default is None or self._options.seed is not None):
            wishes["random_seed"] = self._seed
        return wishes


def _refuse_what_it_decides(name: str, options: TaskOptions) -> None:
    if 0 not in options.shots:
        raise UsageError(
            f"The task {name} builds its own prompts, so --shots cannot be carried out; run it "
            "with --shots 0."
        )
    for option in ("max_length", "stop_string", "output_regex", "answer_extraction"):
        if getattr(options, option) is not None:
            raise UsageError(
                f"The task {name} decides itself how answers are cut, so --{option} cannot be "
                "carried out; leave it out."
            )


def _missing(name: str, error: ModuleNotFoundError) -> str:
    module = error.name or ""
    package = module.partition(".")[0]
    if package in ("bigbench", "t5"):
        return f"The task {name} imports {module}, which lmeval does not stand in for."
    return (
        f"The task {name} needs the package {package}, which is not installed: "
        f"pip install {_PIP_NAMES.get(package, package)}."
    )
