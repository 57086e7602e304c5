# SPDX-License-Identifier: Apache-2.0
"""Cutting a model's text: length, stop strings, output regex, by BIG-bench's rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmeval.api.completion import Completion
from lmeval.api.errors import InvalidValueError

StopStrings = str | Sequence[str] | None
"""One stop string, several (the earliest in the text counts), or None."""


def stop_strings(stop_string: StopStrings) -> tuple[str, ...]:
    """The stop strings as a tuple.

    Raises:
      InvalidValueError: one of them is empty, which would stop before the first character.
    """
    if stop_string is None:
        return ()
    stops = (stop_string,) if isinstance(stop_string, str) else tuple(stop_string)
    if "" in stops:
        raise InvalidValueError("stop_string must not be empty; leave it out for none.")
    return stops


def compile_output_regex(output_regex: str | None) -> re.Pattern[str] | None:
    """The compiled regex.

    Raises:
      InvalidValueError: it is no regular expression, or has more than one group, so that it does
        not say which part is the answer.
    """
    if output_regex is None:
        return None
    try:
        pattern = re.compile(output_regex)
    except re.error as error:
        raise InvalidValueError(
            f"output_regex {output_regex!r} is no regular expression: {error}."
        ) from error
    if pattern.groups > 1:
        raise InvalidValueError(
            f"output_regex {output_regex!r} has {pattern.groups} groups; "
            "use at most one, and (?:...) for the others."
        )
    return pattern


def first_match(pattern: re.Pattern[str], text: str) -> str:
    """The first match of `pattern` (its group if it has one) in `text`, or ""."""
    found = pattern.search(text)
    if found is None:
        return ""
    return found.group(pattern.groups) or ""


def cut_after_stop(text: str, stops: Sequence[str]) -> str:
    """`text` up to and including the earliest stop string; one at position 0 does not count.

    Both are BIG-bench's rules.
    """
    found = [(position, len(stop)) for stop in stops if (position := text.find(stop)) > 0]
    if not found:
        return text
    position, length = min(found)
    return text[: position + length]


def postprocess_output(
    text: str,
    max_length: int | None = None,
    stop_string: StopStrings = None,
    output_regex: str | None = None,
) -> str:
    """Cut a model's text as BIG-bench does.

    In this order: to `max_length` characters; after the first stop string, which is kept (one at
    position 0 is ignored); to the first match of `output_regex` ("" without a match, the group if
    it has one).

    Args:
      text: what the model wrote.
      max_length: characters to keep, or None.
      stop_string: one stop string, several (the earliest counts), or None.
      output_regex: a regular expression with at most one group, or None.

    Returns:
      The text that is left.

    Raises:
      InvalidValueError: the regex has several groups or is none, or a stop string is empty.
    """
    pattern = compile_output_regex(output_regex)
    return str(finish_completion(str(text), max_length, stop_strings(stop_string), pattern))


def finish_completion(
    text: str, max_length: int | None, stops: Sequence[str], pattern: re.Pattern[str] | None
) -> Completion:
    """`text` cut by `postprocess_output`'s rules, as a Completion that remembers the whole."""
    answer = text if isinstance(text, Completion) else Completion(text)
    if max_length is None and not stops and pattern is None:
        return answer
    cut = str(answer)
    if max_length is not None:
        cut = cut[:max_length]
    cut = cut_after_stop(cut, stops)
    if pattern is not None:
        cut = first_match(pattern, cut)
    return answer if len(cut) == len(answer) else answer.with_text(cut)
