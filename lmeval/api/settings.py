# SPDX-License-Identifier: Apache-2.0
"""The settings of a JSONL task: what `task.json` beside its rows may say."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from lmeval.api import strict_json
from lmeval.api.answers import ANSWER_EXTRACTIONS
from lmeval.api.errors import InvalidValueError, TaskFileError
from lmeval.api.model import compile_output_regex
from lmeval.api.task import is_finite_number

IGNORED_KEYS = frozenset({"canary", "comment", "comments", "contributors", "reference", "license"})
"""Keys that inform readers and change nothing."""


def _refuse(field: attrs.Attribute[Any], expected: str, value: object) -> None:
    raise InvalidValueError(f"{field.name!r} must be {expected}, found {value!r}.")


def _text(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        _refuse(field, "a string", value)


def _words(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, tuple) or not all(isinstance(word, str) for word in value):
        _refuse(field, "a list of strings", value)


def _count(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(field, "a whole number of at least 1", value)


def _number(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not is_finite_number(value):
        _refuse(field, "a number", value)


def _regex(_: object, field: attrs.Attribute[Any], value: object) -> None:
    _text(_, field, value)
    compile_output_regex(value)  # type: ignore[arg-type]


def _stops(_: object, field: attrs.Attribute[Any], value: object) -> None:
    _words(_, field, value)
    if "" in value:  # type: ignore[operator]
        _refuse(field, "free of empty strings", value)


def _extraction(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or value not in ANSWER_EXTRACTIONS:
        _refuse(field, "one of " + ", ".join(map(repr, ANSWER_EXTRACTIONS)), value)


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _stops_as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else _as_tuple(value)


_optional = attrs.validators.optional


@attrs.frozen(kw_only=True)
class TaskSettings:
    """How a JSONL task builds its prompts and reads its answers.

    Raises:
      InvalidValueError: a setting has a value that it cannot have; the text names it.
    """

    name: str | None = attrs.field(default=None, validator=_optional(_text))
    """The task's name; must be the folder's."""
    description: str = attrs.field(default="", validator=_text)
    """One or two sentences."""
    keywords: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple, validator=_words)
    """Keywords from keywords.md."""
    metric: str | None = attrs.field(default=None, validator=_optional(_text))
    """The metric of rows that name none."""
    metrics: tuple[str, ...] = attrs.field(default=(), converter=_as_tuple, validator=_words)
    """Further metrics to report beside the rows' own."""
    preferred_score: str | None = attrs.field(default=None, validator=_optional(_text))
    """The score that stands for the task; the rows' metric unless stated."""
    low_score: float | None = attrs.field(default=None, validator=_optional(_number))
    """Chance level; the metric's lowest score unless stated."""
    high_score: float | None = attrs.field(default=None, validator=_optional(_number))
    """A very good score; the metric's highest unless stated."""
    task_prefix: str = attrs.field(default="", validator=_text)
    """Put once before everything, shots included."""
    example_input_prefix: str = attrs.field(default="", validator=_text)
    """Put before the prompt of each shot and of the example."""
    example_output_prefix: str = attrs.field(default="", validator=_text)
    """Put after the prompt of each shot and of the example."""
    few_shot_example_separator: str = attrs.field(default="\n\n", validator=_text)
    """Put between the shots and before the example."""
    max_length: int | None = attrs.field(default=None, validator=_optional(_count))
    """The longest answer, in characters."""
    stop_string: tuple[str, ...] = attrs.field(
        default=(), converter=_stops_as_tuple, validator=_stops
    )
    """Text that ends the answer and is no part of it; one string or several."""
    output_regex: str | None = attrs.field(default=None, validator=_optional(_regex))
    """The answer is the first match (its group, if it has one); "" without a match."""
    answer_extraction: str | None = attrs.field(default=None, validator=_optional(_extraction))
    """How to find the answer in free text: "letter" or "number"."""
    num_samples: int = attrs.field(default=1, validator=_count)
    """How often each prompt is asked; an example's score is the mean over its samples."""
    pass_at_k: tuple[int, ...] = attrs.field(default=(), converter=_as_tuple)
    """Report pass@k for these k, estimated from the `num_samples` answers to each prompt."""

    @pass_at_k.validator
    def _check_pass_at_k(self, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, tuple):
            _refuse(field, "a list of whole numbers", value)
        for k in value:  # type: ignore[attr-defined]
            if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= self.num_samples:
                _refuse(field, f"numbers from 1 to num_samples ({self.num_samples})", value)


SETTING_NAMES = tuple(field.name for field in attrs.fields(TaskSettings))


def settings_from_json(values: Mapping[str, Any]) -> TaskSettings:
    """Settings from the object that a task.json holds.

    Raises:
      InvalidValueError: a key is unknown or a value is not as it must be.
    """
    for key in values:
        if key not in SETTING_NAMES and key not in IGNORED_KEYS:
            close = difflib.get_close_matches(key, SETTING_NAMES, n=1)
            hint = (
                f"did you mean {close[0]!r}?" if close else f"known are {', '.join(SETTING_NAMES)}."
            )
            raise InvalidValueError(f"unknown setting {key!r}; {hint}")
    return TaskSettings(**{key: values[key] for key in values if key in SETTING_NAMES})


def read_settings(path: str | os.PathLike[str]) -> TaskSettings:
    """Read the task.json of a JSONL task.

    Raises:
      TaskFileError: the file cannot be read, is no JSON object, or holds a wrong setting.
    """
    values = read_json_object(path)
    try:
        return settings_from_json(values)
    except InvalidValueError as error:
        raise TaskFileError(path, str(error)) from None


def read_json_object(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The one JSON object that is a whole file.

    Raises:
      TaskFileError: the file cannot be read, or holds anything else.
    """
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TaskFileError(path, f"cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise TaskFileError(
            path, f"the byte at position {error.start} is not UTF-8; save the file as UTF-8."
        ) from None
    try:
        value = strict_json.parse(text)
    except strict_json.JsonFault as fault:
        line, column = fault.line_and_column(text)
        raise TaskFileError(path, f"{fault.reason}.", line, column) from None
    if not isinstance(value, dict):
        raise TaskFileError(path, "one JSON object expected.", 1)
    return value
