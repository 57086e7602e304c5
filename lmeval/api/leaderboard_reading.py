# SPDX-License-Identifier: Apache-2.0
"""Reading leaderboard.json back into the classes that it was written from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from lmeval.api import strict_json
from lmeval.api.errors import ResultsError
from lmeval.api.model import ModelData
from lmeval.api.results import SCHEMA, Leaderboard, SubtaskResult, TaskFailure, TaskResult
from lmeval.api.task import ExampleScore, is_finite_number

_Made = TypeVar("_Made")


def read_leaderboard(path: str | os.PathLike[str]) -> Leaderboard:
    """Read a leaderboard file.

    Raises:
      ResultsError: the file cannot be read, is no strict JSON, of another schema, or something in
        it is missing or of the wrong kind.
    """
    value = _read_json(path)
    try:
        return leaderboard_from_json(value)
    except _Malformed as fault:
        raise ResultsError(f"{path}: is no leaderboard as lmeval writes it: {fault}.") from None


def _read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
        value = strict_json.parse(text, lone_surrogates=True)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ResultsError(f"{path}: is not UTF-8.") from None
    except strict_json.JsonFault as fault:
        line, column = fault.line_and_column(text)
        raise ResultsError(f"{path}, line {line}, column {column}: {fault.reason}.") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        found = value.get("schema") if isinstance(value, dict) else type(value).__name__
        raise ResultsError(f"{path}: no leaderboard of the schema {SCHEMA!r} (found {found!r}).")
    return value


class _Malformed(ValueError):
    """What is wrong, with its place within the file."""


def leaderboard_from_json(value: Mapping[str, Any]) -> Leaderboard:
    """The leaderboard that `leaderboard_to_json` wrote."""
    for key in ("model", "tasks", "failed_tasks"):
        if key not in value:
            raise _Malformed(f"{key} is missing")
    tasks = [
        _task(entry, f"tasks[{number}]")
        for number, entry in enumerate(_list(value, "tasks", "tasks"))
    ]
    failed = [
        _made(TaskFailure, entry, f"failed_tasks[{number}]")
        for number, entry in enumerate(_list(value, "failed_tasks", "failed_tasks"))
    ]
    model = _made(ModelData, value.get("model"), "model")
    ready = {"tasks": tuple(tasks), "failed_tasks": tuple(failed), "model": model}
    return _made(Leaderboard, value, "", **ready)


def _task(value: Any, where: str) -> TaskResult:
    if not isinstance(value, dict):
        raise _Malformed(f"{where} must be an object")
    subtasks = [
        _subtask(entry, f"{where}.subtasks[{number}]")
        for number, entry in enumerate(_list(value, "subtasks", f"{where}.subtasks"))
    ]
    rows = []
    for number, entry in enumerate(_list(value, "per_example", f"{where}.per_example")):
        row = row_from_json(entry, f"{where}.per_example[{number}]")
        rows.append((str(entry.get("subtask", "")), row))
    return _made(TaskResult, value, where, subtasks=tuple(subtasks), per_example=tuple(rows))


def _subtask(value: Any, where: str) -> SubtaskResult:
    part = _made(SubtaskResult, value, where)
    preferred = part.score_dict.get(part.preferred_score)
    if not is_finite_number(preferred):
        raise _Malformed(f"{where}.preferred_score must be the key of a number in score_dict")
    return part


def row_from_json(value: Any, where: str = "the row") -> ExampleScore:
    """The scored answer that `row_to_json` wrote.

    Raises:
      ValueError: something is missing or of the wrong kind; the text names it.
    """
    return _made(ExampleScore, value, where)


def _list(value: Any, key: str, where: str) -> list[Any]:
    entries = value.get(key, [])
    if not isinstance(entries, list):
        raise _Malformed(f"{where} must be a list")
    return entries


def _made(cls: type[_Made], value: Any, where: str, **ready: Any) -> _Made:
    """An object of an attrs class from a JSON object, each field checked by its annotation."""
    if not isinstance(value, dict):
        raise _Malformed(f"{where} must be an object")
    arguments = dict(ready)
    for field in attrs.fields(cls):  # type: ignore[arg-type]
        place = f"{where}.{field.name}".lstrip(".")
        if field.name in ready:
            continue
        if field.name in value:
            arguments[field.name] = _checked(value[field.name], str(field.type), place)
        elif field.default is attrs.NOTHING:
            raise _Malformed(f"{place} is missing")
    return cls(**arguments)


def _checked(value: Any, annotation: str, where: str) -> Any:
    wanted = annotation.removesuffix(" | None")
    if value is None and wanted != annotation:
        return None
    expected, read = _READERS[wanted]
    made = read(value)
    if made is None:
        raise _Malformed(f"{where} must be {expected}")
    return made


def _if_any(*types: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        return value if fits else None

    return read


def _number(value: Any) -> Any:
    return value if is_finite_number(value) else None


def _count(value: Any) -> Any:
    # Room for the seeds that numpy draws; much larger ones would overflow when they are squared.
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and abs(value) < 2**128 else None


def _texts(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return tuple(value)
    return None


def _interval(value: Any) -> Any:
    if isinstance(value, list) and len(value) == 2 and all(map(is_finite_number, value)):
        return tuple(value)
    return None


_READERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "str": ("a string", _if_any(str)),
    "bool": ("true or false", _if_any(bool)),
    "int": ("a whole number of at most 128 bits", _count),
    "float": ("a number within the range of floats", _number),
    "Mapping[str, Any]": ("an object", _if_any(dict)),
    "Mapping[str, str]": ("an object", _if_any(dict)),
    "Mapping[str, float]": ("an object", _if_any(dict)),
    "Mapping[str, int]": ("an object", _if_any(dict)),
    "tuple[str, ...]": ("a list of strings", _texts),
    "Interval": ("two numbers", _interval),
}
"""For each annotation of a field: what its JSON must be, and how it is read (None: it is not)."""
