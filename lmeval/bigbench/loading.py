# SPDX-License-Identifier: Apache-2.0
"""From a folder with a task.json, or from the same as a dictionary, to a task."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from lmeval.api.errors import MetricError, TaskError, TaskFileError, UsageError
from lmeval.api.options import TaskOptions
from lmeval.bigbench.container_task import ContainerTask
from lmeval.bigbench.example_store import (
    ExampleFacts,
    ExampleStore,
    FactsCollector,
    FileExamples,
    ListedExamples,
    example_fault,
    fault_in,
)
from lmeval.bigbench.json_stream import EXAMPLES, LIST_BEGINS, read_members
from lmeval.bigbench.leaf_settings import read_identity, read_leaf_settings
from lmeval.bigbench.leaf_task import LeafTask
from lmeval.bigbench.prompt_style import CHOICE_SEED
from lmeval.bigbench.text_scores import check_requirements, load_metrics

_logger = logging.getLogger("lmeval.bigbench")

TASK_FILE = "task.json"


@attrs.frozen(kw_only=True)
class LoadSettings:
    """How tasks are made, beside what their files say."""

    options: TaskOptions
    choice_seed: int = CHOICE_SEED
    """See `LeafTask`."""
    rouge_seed: int | None = None
    """See `LeafTask`."""


def load_task_folder(
    folder: Path, name: str, subtask: str | None, settings: LoadSettings
) -> LeafTask | ContainerTask:
    """Load a folder with a task.json; all its examples are read and checked.

    Args:
      folder: the task's folder.
      name: what the task is called in messages.
      subtask: the name of a sub-folder, to load that sub-task alone.
      settings: how to make the task.

    Raises:
      TaskFileError: a task.json is not as it must be.
      TaskError: there is no such sub-task, or too few examples.
      UsageError: `max_examples` is less than the number of sub-tasks.
    """
    names = subtask_names(folder)
    load_metrics(folder, name)
    if subtask is not None:
        if subtask not in names:
            raise TaskError(
                f"The task {name} has no sub-task {subtask!r}; it has {', '.join(names) or 'none'}."
            )
        return load_task_folder(folder / subtask, f"{name}.{subtask}", None, settings)
    loaded = _read_file(folder / TASK_FILE)
    if loaded.has_examples:
        return _make_leaf(loaded, None, settings)
    if not names:
        raise TaskFileError(
            loaded.owner, "has neither 'examples' nor sub-folders with a task.json."
        )
    parts = []
    for part in names:
        load_metrics(folder / part, f"{name}.{part}")
        parts.append(_read_file(folder / part / TASK_FILE))
    return _make_container(loaded, parts, settings)


def load_task_dict(data: Mapping[str, Any], settings: LoadSettings) -> LeafTask | ContainerTask:
    """Load a task from what a task.json holds; sub-tasks stand in a list under `subtasks`.

    Raises:
      TaskFileError: the data is not as it must be, or is no JSON.
    """
    try:
        plain = json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TaskFileError("the task's dictionary", f"is no JSON: {error}.") from None
    loaded = _read_dict(plain)
    if plain.get("subtasks"):
        return _make_container(loaded, list(map(_read_dict, plain["subtasks"])), settings)
    return _make_leaf(loaded, None, settings)


def subtask_names(folder: Path) -> list[str]:
    """The sub-folders that hold a task.json, in BIG-bench's order."""
    names = [file.parent.name for file in folder.glob(f"*/{TASK_FILE}")]
    # BIG-bench sorts the paths, in which a slash follows the name.
    return sorted(names, key=lambda name: f"{name}/")


@attrs.frozen(kw_only=True)
class _Loaded:
    """What one task.json holds, its examples checked one by one."""

    owner: str
    """The file, for messages."""
    header: Mapping[str, Any]
    has_examples: bool
    store: ExampleStore
    facts: ExampleFacts


def _read_file(path: Path) -> _Loaded:
    header: dict[str, Any] = {}
    store, collector = FileExamples(path), FactsCollector()
    has_examples, position = False, 0
    with store.opened() as reread:
        for key, value, place in read_members(path):
            if key != EXAMPLES:
                header[key] = value
            elif value is LIST_BEGINS:
                if has_examples:
                    raise TaskFileError(path, "has 'examples' twice.")
                has_examples = True
            else:
                fault = fault_in(value)
                if fault is not None:
                    raise example_fault(path, position, place.start, fault)
                if collector.add(value, reread):
                    store.add(position, place)
                position += 1
    return _Loaded(
        owner=str(path),
        header=header,
        has_examples=has_examples,
        store=store,
        facts=collector.facts(),
    )


def _read_dict(data: Mapping[str, Any]) -> _Loaded:
    owner = f"the task {data.get('name', 'without a name')}"
    examples = data.get(EXAMPLES, [])
    if not isinstance(examples, list):
        raise TaskFileError(owner, "'examples' must be a list.")
    store, collector = ListedExamples(owner), FactsCollector()
    with store.opened() as reread:
        for position, example in enumerate(examples):
            fault = fault_in(example)
            if fault is not None:
                raise TaskFileError(owner, f"examples[{position}]: {fault}")
            if collector.add(example, reread):
                store.add(position, example)
    return _Loaded(
        owner=owner,
        header={key: value for key, value in data.items() if key != EXAMPLES},
        has_examples=EXAMPLES in data,
        store=store,
        facts=collector.facts(),
    )


def _make_leaf(loaded: _Loaded, parent: str | None, settings: LoadSettings) -> LeafTask:
    identity = read_identity(loaded.owner, loaded.header, parent)
    if not loaded.has_examples:
        raise TaskFileError(loaded.owner, "has no 'examples'.")
    leaf_settings = read_leaf_settings(
        loaded.owner, loaded.header, identity, loaded.store, loaded.facts
    )
    _check_number_of_examples(loaded, max(settings.options.shots))
    if loaded.facts.n_duplicates:
        _logger.info("%s: %d duplicates left out", identity.name, loaded.facts.n_duplicates)
    try:
        check_requirements(leaf_settings.text_metrics)
    except MetricError as error:
        raise TaskFileError(loaded.owner, str(error)) from None
    return LeafTask(
        leaf_settings,
        loaded.store,
        loaded.facts,
        settings.options,
        choice_seed=settings.choice_seed,
        rouge_seed=settings.rouge_seed,
    )


def _check_number_of_examples(loaded: _Loaded, n_shots: int) -> None:
    n = loaded.facts.n_distinct
    if n == 0:
        raise TaskFileError(loaded.owner, "has an empty list of examples.")
    usable = n - max(map(len, loaded.facts.twins.values()), default=1)
    if n_shots > usable:
        raise TaskFileError(
            loaded.owner,
            f"has {n} distinct examples, too few for {n_shots} shots; ask for at most {usable}.",
        )


def _make_container(loaded: _Loaded, parts: list[_Loaded], settings: LoadSettings) -> ContainerTask:
    identity = read_identity(loaded.owner, loaded.header)
    limit = settings.options.max_examples
    if limit is not None and limit < len(parts):
        raise UsageError(
            f"--max_examples {limit} is shared among the {len(parts)} sub-tasks of "
            f"{identity.name}; give at least {len(parts)}."
        )
    share = None if limit is None else limit // len(parts)
    options = attrs.evolve(settings.options, max_examples=share)
    leaf_settings = attrs.evolve(settings, options=options)
    leaves = [_make_leaf(part, identity.name, leaf_settings) for part in parts]
    names = [leaf.name for leaf in leaves]
    for name in names:
        if names.count(name) > 1:
            raise TaskError(f"{loaded.owner}: two sub-tasks have the name {name!r}.")
    return ContainerTask(identity, leaves)
