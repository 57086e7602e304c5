# SPDX-License-Identifier: Apache-2.0
"""What a list of tasks shows of a BIG-bench folder, read without loading the task.

Neither numpy nor the task's own code is imported, and of a task.json only the head is read where
that says it all.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import attrs

from lmeval.api.errors import TaskFileError
from lmeval.bigbench.json_stream import read_members

_WANTED = ("name", "description", "keywords")


@attrs.frozen(kw_only=True)
class TaskSummary:
    """A task in a list of tasks."""

    name: str
    """The name that the task gives itself; the folder's where it gives none."""
    description: str
    keywords: tuple[str, ...]


def read_metadata(folder: Path) -> TaskSummary:
    """Read a task's name, description and keywords.

    Of a task.py they are what its one call of `TaskMetadata` says in so many words; what is
    computed there stays empty.

    Raises:
      TaskFileError: the file cannot be read, or lacks what BIG-bench asks of every task.
    """
    if (folder / "task.py").is_file():
        return _from_program(folder / "task.py")
    file = folder / "task.json"
    found: dict[str, Any] = {}
    for key, value, _ in read_members(file):
        if key in _WANTED:
            found[key] = value
            if len(found) == len(_WANTED):
                break
    return _summary(file, found)


def _from_program(file: Path) -> TaskSummary:
    try:
        tree = ast.parse(file.read_bytes(), file.name)
    except (OSError, SyntaxError, ValueError) as error:
        raise TaskFileError(file, f"is no Python that can be read: {error}.") from None
    calls = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and "TaskMetadata" in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    )
    found = {"name": file.parent.name, "description": "", "keywords": []}
    for call in calls:
        said = [*zip(_WANTED, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
        for key, value in said:
            if key in _WANTED:
                try:
                    found[key] = ast.literal_eval(value)
                except ValueError:
                    continue
        break
    return _summary(file, found)


def _summary(file: Path, found: dict[str, Any]) -> TaskSummary:
    for key in _WANTED:
        if key not in found:
            raise TaskFileError(file, f"has no {key!r}; BIG-bench asks it of every task.")
    name, description, keywords = (found[key] for key in _WANTED)
    if not isinstance(name, str) or not isinstance(description, str):
        raise TaskFileError(file, "'name' and 'description' must be texts.")
    if not isinstance(keywords, list) or not all(isinstance(word, str) for word in keywords):
        raise TaskFileError(file, f"'keywords' must be a list of texts, found {keywords!r}.")
    return TaskSummary(name=name, description=description, keywords=tuple(keywords))
