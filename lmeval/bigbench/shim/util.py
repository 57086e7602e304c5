# SPDX-License-Identifier: Apache-2.0
"""`bigbench.api.util`, as far as the tests in task folders use it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from lmeval.api.task import Task
from lmeval.bigbench.shim.classes import make_task
from lmeval.bigbench.shim.json_task import JsonTask


def load_json_task(
    json_path: str, max_examples: int | None = None, shot_list: Sequence[int] = (0,)
) -> JsonTask:
    """The task of a task.json."""
    return JsonTask(json_path, shot_list, max_examples=max_examples)


def load_programmatic_task(task_module_name: str) -> Task:
    """The task of a module such as `bigbench.benchmark_tasks.simple_arithmetic`."""
    return make_task(importlib.import_module(task_module_name))
