# SPDX-License-Identifier: Apache-2.0
"""BIG-bench-style abstract tasks for evaluating language models.

The public names are loaded when they are first used, so that `import lmeval` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lmeval.api.errors import LmevalError as LmevalError
    from lmeval.api.errors import UnsupportedByModel as UnsupportedByModel
    from lmeval.api.example import Example as Example
    from lmeval.api.json_task import JsonTask as JsonTask
    from lmeval.api.leaderboard_file import write_leaderboard as write_leaderboard
    from lmeval.api.leaderboard_reading import read_leaderboard as read_leaderboard
    from lmeval.api.metrics import get_metric as get_metric
    from lmeval.api.metrics import metric as metric
    from lmeval.api.metrics import rows_metric as rows_metric
    from lmeval.api.model import BatchModel as BatchModel
    from lmeval.api.model import Completion as Completion
    from lmeval.api.model import Model as Model
    from lmeval.api.model import ModelData as ModelData
    from lmeval.api.model import Prompt as Prompt
    from lmeval.api.model import postprocess_output as postprocess_output
    from lmeval.api.options import TaskOptions as TaskOptions
    from lmeval.api.results import Leaderboard as Leaderboard
    from lmeval.api.results import TaskResult as TaskResult
    from lmeval.api.task import ExampleScore as ExampleScore
    from lmeval.api.task import ScoreData as ScoreData
    from lmeval.api.task import ScoreWithError as ScoreWithError
    from lmeval.api.task import Task as Task
    from lmeval.api.task import TaskMetadata as TaskMetadata
    from lmeval.engine.run import evaluate as evaluate
    from lmeval.models.adapter import AdapterModel as AdapterModel

_HOMES = {
    "AdapterModel": "lmeval.models.adapter",
    "BatchModel": "lmeval.api.model",
    "Completion": "lmeval.api.model",
    "Example": "lmeval.api.example",
    "ExampleScore": "lmeval.api.task",
    "JsonTask": "lmeval.api.json_task",
    "Leaderboard": "lmeval.api.results",
    "LmevalError": "lmeval.api.errors",
    "Model": "lmeval.api.model",
    "ModelData": "lmeval.api.model",
    "Prompt": "lmeval.api.model",
    "ScoreData": "lmeval.api.task",
    "ScoreWithError": "lmeval.api.task",
    "Task": "lmeval.api.task",
    "TaskMetadata": "lmeval.api.task",
    "TaskOptions": "lmeval.api.options",
    "TaskResult": "lmeval.api.results",
    "UnsupportedByModel": "lmeval.api.errors",
    "evaluate": "lmeval.engine.run",
    "get_metric": "lmeval.api.metrics",
    "metric": "lmeval.api.metrics",
    "postprocess_output": "lmeval.api.model",
    "read_leaderboard": "lmeval.api.leaderboard_reading",
    "rows_metric": "lmeval.api.metrics",
    "write_leaderboard": "lmeval.api.leaderboard_file",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lmeval' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
