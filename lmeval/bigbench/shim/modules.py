# SPDX-License-Identifier: Apache-2.0
"""Putting the stand-ins into `sys.modules` for a while, and taking them out again."""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

_TASKS = "bigbench.benchmark_tasks"
_STAND_INS = {
    "bigbench.api.json_task": "json_task",
    "bigbench.api.model": "model",
    "bigbench.api.results": "results",
    "bigbench.api.task": "task",
    "bigbench.api.task_metrics": "task_metrics",
    "bigbench.api.util": "util",
    "bigbench.models.dummy_model": "dummy_model",
    "bigbench.models.huggingface_models": "huggingface_models",
    "bigbench.models.model_utils": "model_utils",
    "t5.evaluation.metrics": "t5_metrics",
    "datasets": "hf_datasets",
}
_NAMES = ("bigbench", "t5", "datasets")

# Tasks use the generators of `random` and numpy that all of a process shares, and while one runs
# `import bigbench` means the stand-ins; so there can only be one at a time.
_one_at_a_time = threading.RLock()


class TaskModules:
    """The modules that one task sees, its own among them; they live as long as this object."""

    def __init__(self, tasks_folder: Path, *, load_metric: bool = False) -> None:
        """Prepare for the tasks in a folder.

        Args:
          tasks_folder: what `bigbench.benchmark_tasks` stands for.
          load_metric: whether `datasets` is one of the stand-ins; else it is the real package.
        """
        self._names = _NAMES if load_metric else tuple(n for n in _NAMES if n != "datasets")
        self._modules = self._make(tasks_folder)

    def _make(self, tasks_folder: Path) -> dict[str, ModuleType]:
        made = {
            name: importlib.import_module(f"lmeval.bigbench.shim.{stand_in}")
            for name, stand_in in _STAND_INS.items()
            if self._is_ours(name)
        }
        made[_TASKS] = ModuleType(_TASKS)
        for name in list(made):
            for parent in _parents(name):
                made.setdefault(parent, ModuleType(parent)).__path__ = []
        made[_TASKS].__path__ = [str(tasks_folder)]
        for name, module in made.items():
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(made[parent], child, module)
        return made

    def own_names(self) -> list[str]:
        """The modules in the tasks folder that have been imported, in order."""
        return [name for name in self._modules if name.startswith(f"{_TASKS}.")]

    def _is_ours(self, name: str) -> bool:
        return name.partition(".")[0] in self._names

    @contextlib.contextmanager
    def installed(self, seed: int) -> Iterator[None]:
        """Have the task's modules stand in `sys.modules`, and both global generators seeded.

        What stood there before, and the state of the generators, is put back at the end. Other
        threads that want the same wait meanwhile.
        """
        with _one_at_a_time, _seeded(seed):
            before = self._take_out()
            sys.modules.update(self._modules)
            importlib.invalidate_caches()
            try:
                yield
            finally:
                self._modules = dict(self._take_out())
                sys.modules.update(before)

    def _take_out(self) -> Mapping[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if self._is_ours(name)}


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    state, numpy_state = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)
