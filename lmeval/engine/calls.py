# SPDX-License-Identifier: Apache-2.0
"""A batch on its way through the model: its calls, what they brought, the wait before the next."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from lmeval.api.errors import AnswerCountError, ModelError
from lmeval.engine.answers import describe_fault
from lmeval.engine.kinds import Answer
from lmeval.engine.schedule import Request
from lmeval.engine.settings import EngineSettings


class Job:
    """A batch until all of its requests are done."""

    __slots__ = ("attempt", "call", "later", "now", "pause")

    def __init__(self, batch: list[Request]) -> None:
        self.now = [batch]
        self.later: list[list[Request]] = []
        self.attempt = 0
        self.pause: float | None = None
        self.call: Call | None = None


class Call:
    """A call of the model that is running."""

    __slots__ = ("ended", "job", "limit", "part", "started")

    def __init__(self, job: Job, part: list[Request], started: float, limit: float | None) -> None:
        self.job = job
        self.part = part
        self.started = started
        self.ended = started
        # A model may answer the requests of a batch one after another.
        self.limit = math.inf if limit is None else limit * len(part)

    def is_late(self, now: float) -> bool:
        """Whether its time is over."""
        return now - self.started > self.limit


def wanted_and_given_pause(
    fault: Exception, attempt: int, settings: EngineSettings, rng: random.Random
) -> tuple[float, float]:
    """Seconds before a request is asked again: what the fault asks for, and what it gets.

    Args:
      fault: the passing fault, with or without `retry_after`.
      attempt: how often the request was asked again before.
      settings: the first wait and the longest one.
      rng: decides on half of a wait that the fault does not state.
    """
    wanted = _stated_pause(fault)
    if wanted is None:
        # Half of the wait is left to chance, so that clients do not march in step.
        doubled = 2.0 ** min(attempt, 60)
        wanted = settings.backoff_s * doubled * (0.5 + rng.random() / 2)
    return wanted, min(max(0.0, wanted), settings.max_backoff_s)


def _stated_pause(fault: Exception) -> float | None:
    # Models pass the header Retry-After on as it came: text, and at times a date.
    try:
        return float(getattr(fault, "retry_after", None))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def checked_answers(
    part: Sequence[Request], given: Sequence[Any], latency_ms: float
) -> list[Answer]:
    """What the model gave for `part`, one answer for each request.

    An answer of a wrong type becomes a failed one; the others of its batch stand.

    Raises:
      ModelError: there is not one answer for each request, so that none can be attributed.
    """
    if len(given) != len(part):
        raise AnswerCountError(f"the model gave {len(given)} answers to {len(part)} requests")
    answers = []
    for request, answer in zip(part, given, strict=True):
        try:
            answers.append(request.kind.checked(request.payload, answer, latency_ms))
        except ModelError as fault:
            error = describe_fault(fault)
            answers.append(request.kind.failed(request.payload, error, latency_ms))
    return answers
