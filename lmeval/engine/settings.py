# SPDX-License-Identifier: Apache-2.0
"""How an engine is to run, and what it counts on the way."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import attrs

from lmeval.api.errors import InvalidValueError


def _check_at_least(
    low: float, whole: bool = False, optional: bool = False
) -> Callable[[Any, Any, Any], None]:
    expected = f"a {'whole ' if whole else ''}number of at least {low:g}"
    expected += " or None" if optional else ""

    def check(instance: object, field: attrs.Attribute[Any], value: Any) -> None:
        if value is None and optional:
            return
        right_type = isinstance(value, int if whole else (int, float))
        if not right_type or isinstance(value, bool) or not value >= low:
            raise InvalidValueError(f"{field.name} must be {expected} (got {value!r}).")

    return check


_check_count = _check_at_least(1, whole=True)
_check_number = _check_at_least(0)
_check_optional = _check_at_least(1, whole=True, optional=True)
_check_limit = _check_at_least(0.001, optional=True)
_check_none_or_more = _check_at_least(0, whole=True)


@attrs.frozen(kw_only=True)
class EngineSettings:
    """How requests are batched, run, repeated and kept.

    Raises:
      InvalidValueError: a value is out of range; the text names the field.
    """

    batch_size: int = attrs.field(default=32, validator=_check_count)
    """The most requests in one call of the model."""
    batch_chars: int | None = attrs.field(default=None, validator=_check_optional)
    """The most characters in one call, counted as a padded batch costs them: the longest request
    times the number of requests. A longer request goes alone."""
    concurrency: int = attrs.field(default=1, validator=_check_count)
    """The most calls at once; the model's `max_concurrency` bounds it further."""
    timeout_s: float | None = attrs.field(default=None, validator=_check_limit)
    """Seconds that a request may take; a call with n requests may take n times as long."""
    max_retries: int = attrs.field(default=5, validator=_check_none_or_more)
    """How often a request is asked again after a fault that the model marks as passing."""
    backoff_s: float = attrs.field(default=1.0, validator=_check_number)
    """Seconds to wait before the first retry; doubled for each further one."""
    max_backoff_s: float = attrs.field(default=60.0, validator=_check_number)
    """The longest wait before a retry in seconds, also where the model asks for a longer one."""
    max_consecutive_failures: int | None = attrs.field(default=100, validator=_check_optional)
    """Stop the run after so many failed requests without an answer between them; None: never."""
    cache_dir: pathlib.Path | None = attrs.field(
        default=None, converter=attrs.converters.optional(pathlib.Path)
    )
    """Folder of the store of answers; None for no store."""


@attrs.frozen(kw_only=True)
class Counts:
    """What happened to the requests of one task so far.

    `requests` = `cached` + `shared` + the requests that the model was asked.
    """

    requests: int = 0
    """Requests that the task made."""
    answered: int = 0
    """Requests that are done, failed ones included."""
    cached: int = 0
    """Requests answered from the store."""
    shared: int = 0
    """Requests that got the answer of an equal request made at the same time."""
    errors: int = 0
    """Requests that failed, those out of time not counted."""
    timeouts: int = 0
    """Requests that took longer than `timeout_s`."""
    retries: int = 0
    """Repetitions of requests after a fault, summed over requests."""
    latency_ms: float = 0.0
    """Wall time of the answers that the model gave, summed over requests, in milliseconds."""
