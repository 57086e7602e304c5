# SPDX-License-Identifier: Apache-2.0
"""The settings of the Hugging Face model: what `--model_args` may say."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from lmeval.api.errors import ModelError

DTYPES = ("auto", "float32", "bfloat16", "float16")
_Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _refuse(field: attrs.Attribute[Any], expected: str, value: object) -> None:
    raise ModelError(f"The setting {field.name!r} must be {expected} (got {value!r}).")


def _switch(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, bool):
        _refuse(field, "true or false", value)


def _count(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(field, "a whole number of at least 1", value)


def _whole(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(field, "a whole number of at least 0", value)


def _text(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value:
        _refuse(field, "text that is not empty", value)


def _number(low: float, high: float, *, low_is_allowed: bool) -> _Validator:
    low_end = f"from {low:g}" if low_is_allowed else f"above {low:g}"

    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not low <= value <= high or (value == low and not low_is_allowed):  # type: ignore[operator]
            _refuse(field, f"a number {low_end} up to {high:g}", value)

    return check


def _as_text(value: object) -> object:
    """A revision such as 1e3 or 12 arrives as a number; a path may be a Path."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number else value


_optional = attrs.validators.optional


@attrs.frozen(kw_only=True)
class Settings:
    """How a Hugging Face model is loaded and asked.

    Raises:
      ModelError: a setting has a value that it cannot have; the text names it.
    """

    path: str = attrs.field(converter=_as_text, validator=_text)
    """A folder, a .gguf file, or a name on the hub (owner/name, or owner/name/file.gguf)."""
    revision: str | None = attrs.field(default=None, converter=_as_text, validator=_optional(_text))
    """Branch, tag or commit on the hub."""
    trust_remote_code: bool = attrs.field(default=False, validator=_switch)
    """Whether Python code that comes with the model may run."""
    dtype: str = attrs.field(default="auto")
    """One of `DTYPES`; "auto" is the checkpoint's own on an accelerator, float32 on a CPU."""
    device: str = attrs.field(default="auto", validator=_text)
    """"auto" (an accelerator if there is one) or a name that torch knows, such as "cuda:1"."""
    batch_tokens: int | None = attrs.field(default=None, validator=_optional(_count))
    """Tokens in one forward pass; 256 on a CPU and 2,048 elsewhere unless stated."""
    batch_size: int = attrs.field(default=64, validator=_count)
    """The most texts that are written at the same time."""
    add_bos: bool | None = attrs.field(default=None, validator=_optional(_switch))
    """Whether every text begins with the BOS token; None for what the tokenizer does itself."""
    chat_template: bool = attrs.field(default=False, validator=_switch)
    """Whether prompts are wrapped by the tokenizer's chat template."""
    system_prompt: str | None = attrs.field(default=None, validator=_optional(_text))
    """The system message that every conversation begins with; needs `chat_template`."""
    context_length: int | None = attrs.field(default=None, validator=_optional(_count))
    """The most tokens the model may see at once; the model's own limit unless stated."""
    max_new_tokens: int = attrs.field(default=256, validator=_count)
    """The longest answer in tokens."""
    temperature: float = attrs.field(default=0.0, validator=_number(0, 100, low_is_allowed=True))
    """0 takes the likeliest token each time (greedy); above it tokens are drawn."""
    top_p: float = attrs.field(default=1.0, validator=_number(0, 1, low_is_allowed=False))
    """Draw from the smallest set of likeliest tokens with at least this probability."""
    seed: int = attrs.field(default=0, validator=_whole)
    """Seed of what is drawn."""

    @dtype.validator
    def _check_dtype(self, field: attrs.Attribute[Any], value: object) -> None:
        if value not in DTYPES:
            _refuse(field, "one of " + ", ".join(DTYPES), value)

    def __attrs_post_init__(self) -> None:
        if self.system_prompt is not None and not self.chat_template:
            raise ModelError(
                "The setting 'system_prompt' needs chat_template=true; a plain text prompt has no "
                "place for it."
            )
        if self.temperature == 0 and self.top_p != 1:
            raise ModelError(
                "The setting 'top_p' needs a temperature above 0; at 0 nothing is drawn."
            )


def read_settings(values: Mapping[str, Any]) -> Settings:
    """Settings from keyword arguments.

    Raises:
      ModelError: a name is unknown, the path is missing, or a value is not as it must be.
    """
    known = [field.name for field in attrs.fields(Settings)]
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}."
            raise ModelError(f"The model huggingface has no setting {name!r}; {hint}")
    if "path" not in values:
        raise ModelError(
            "The model huggingface needs the setting 'path'; pass --model_args path=…, a folder, "
            "a .gguf file or a name on the hub."
        )
    return Settings(**values)
