# SPDX-License-Identifier: Apache-2.0
"""Finding the one task that a module defines."""

from __future__ import annotations

import inspect
from types import ModuleType

from lmeval.api.errors import TaskError
from lmeval.api.task import Task


def make_task(module: ModuleType) -> Task:
    """An object of the one Task class in a module, made without arguments.

    Raises:
      TaskError: there is no complete Task class in the module, or more than one.
    """
    classes = [
        value
        for _, value in sorted(vars(module).items())
        if isinstance(value, type) and issubclass(value, Task) and not inspect.isabstract(value)
    ]
    own = [each for each in classes if each.__module__ == module.__name__]
    candidates = list(dict.fromkeys(own or classes))
    if len(candidates) != 1:
        found = ", ".join(each.__name__ for each in candidates) or "none"
        raise TaskError(f"{module.__file__}: must have one complete Task class, found {found}.")
    # BIG-bench makes each task twice, once on trial; some draw random data while they are made.
    candidates[0]()
    return candidates[0]()
