# SPDX-License-Identifier: Apache-2.0
"""Checks of what a model gave, so that nothing but answers goes further."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lmeval.api.errors import ModelError
from lmeval.api.failures import place_of, what_was_raised
from lmeval.api.model import Completion, LogProbs

_LONGEST_ERROR = 500


def list_of_answers(outcome: Any) -> list[Any]:
    """What the model gave, as a list.

    Raises:
      ModelError: it is none.
    """
    if isinstance(outcome, str) or not isinstance(outcome, Iterable):
        raise ModelError(f"the model gave a {type(outcome).__name__} instead of a list of answers")
    return list(outcome)


def checked_completion(answer: Any, latency_ms: float) -> Completion:
    """A model's text as a Completion with its latency.

    Raises:
      ModelError: it is no string.
    """
    if type(answer) is str:
        return Completion(answer, latency_ms=latency_ms)
    if isinstance(answer, Completion):
        if type(answer.latency_ms) is float:
            return answer
        if answer.latency_ms is not None:
            latency_ms = float(answer.latency_ms)
        # A copy, because a model may give one object for several requests.
        return Completion(str(answer), **{**answer.facts(), "latency_ms": latency_ms})
    if isinstance(answer, str):
        return Completion(str(answer), latency_ms=latency_ms)
    raise ModelError(
        f"the model gave {answer!r:.200}, a {type(answer).__name__}, instead of a string"
    )


def checked_log_probs(answer: Any, expected: int, latency_ms: float) -> LogProbs:
    """A model's log-probabilities of `expected` targets as LogProbs with their latency.

    Raises:
      ModelError: they are no numbers below plus infinity, or not so many.
    """
    try:
        values = [float(value) for value in answer]
    except (TypeError, ValueError):
        raise ModelError(f"the model gave {answer!r:.200} instead of log-probabilities") from None
    if len(values) != expected:
        raise ModelError(f"the model gave {len(values)} log-probabilities for {expected} targets")
    if any(math.isnan(value) or value == math.inf for value in values):
        raise ModelError(f"the model gave {values!r:.200}, which are no log-probabilities")
    if not isinstance(answer, LogProbs):
        return LogProbs(values, latency_ms=latency_ms)
    facts = answer.facts()
    stated = facts["latency_ms"]
    facts["latency_ms"] = latency_ms if stated is None else float(stated)
    return LogProbs(values, **facts)


def describe_fault(fault: Exception) -> str:
    """What stands in a failed answer: "error: ", then the text of the exception.

    That of a foreign one with its class and the line of the user's own code.
    """
    is_foreign = not isinstance(fault, ModelError)
    text = what_was_raised(fault) if is_foreign else " ".join(str(fault).split())
    if len(text) > _LONGEST_ERROR:
        text = text[:_LONGEST_ERROR] + "..."
    if is_foreign and (place := place_of(fault)):
        text += f" ({place})"
    return f"error: {text}"
