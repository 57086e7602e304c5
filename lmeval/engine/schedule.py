# SPDX-License-Identifier: Apache-2.0
"""What waits to be asked, and how it is cut into batches."""

from __future__ import annotations

import collections
import math
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from lmeval.api.errors import LmevalError
from lmeval.engine.kinds import Answer, Kind
from lmeval.engine.settings import Counts


class RunStopped(LmevalError):
    """The run was stopped before this request was answered; what was answered is kept."""

    exit_code = 1


class Tally:
    """The counters of one task; `Counts` is their frozen copy. Changed under the engine's lock."""

    def __init__(self, task: str) -> None:
        self.task = task
        self.requests = 0
        self.answered = 0
        self.cached = 0
        self.shared = 0
        self.errors = 0
        self.timeouts = 0
        self.retries = 0
        self.latency_ms = 0.0
        self.told_at = -math.inf
        """When progress was last told of it."""

    def add(self, answer: Answer, shared: bool) -> None:
        """Count an answer; `shared` when it was asked for by another request."""
        self.answered += 1
        if answer.error == "timeout":
            self.timeouts += 1
        elif answer.error is not None:
            self.errors += 1
        if shared:
            self.shared += 1
        elif answer.cached:
            self.cached += 1
        elif answer.latency_ms is not None:
            self.latency_ms += answer.latency_ms

    def counts(self) -> Counts:
        """The counters as they stand."""
        return Counts(**{field.name: getattr(self, field.name) for field in attrs.fields(Counts)})


class Ticket:
    """One call of the engine: the answers that came, and a lock to wait for the last of them."""

    __slots__ = ("_done", "arrived", "caller", "failure", "remaining", "tally")

    def __init__(self, n_requests: int, tally: Tally) -> None:
        self.arrived: list[tuple[int, Answer]] = []
        """Answers with their positions, in the order of arrival; the waiting thread takes them."""
        self.remaining = n_requests
        self.failure: BaseException | None = None
        self.tally = tally
        self.caller = threading.get_ident()
        self._done = threading.Lock()
        self._done.acquire()

    def put(self, position: int, answer: Answer) -> None:
        """Take the answer at `position`; the last one ends the wait."""
        self.arrived.append((position, answer))
        self.remaining -= 1
        if not self.remaining and self.failure is None:
            self._done.release()

    def fail(self, failure: BaseException) -> None:
        """End the wait with an exception; what still arrives is of no interest."""
        if self.failure is None and self.remaining:
            self.failure = failure
            self._done.release()

    def wait(self, seconds: float) -> bool:
        """Whether the call is over, waiting for it no longer than `seconds`."""
        return self._done.acquire(timeout=seconds)


class Request:
    """One thing to ask the model, and the places in calls that wait for its answer."""

    __slots__ = ("key", "kind", "occurrence", "payload", "size", "waiters")

    def __init__(
        self,
        kind: Kind,
        payload: Any,
        key: bytes | None,
        occurrence: int,
        waiter: tuple[Ticket, int],
    ) -> None:
        self.kind = kind
        self.payload = payload
        self.size = kind.size(payload)
        self.key = key
        self.occurrence = occurrence
        self.waiters = [waiter]

    def is_wanted(self) -> bool:
        """Whether a call still waits for it."""
        return any(ticket.failure is None for ticket, _ in self.waiters)


def tickets_of(requests: Iterable[Request]) -> set[Ticket]:
    """The calls that wait for any of `requests`."""
    return {ticket for request in requests for ticket, _ in request.waiters}


class RequestQueue:
    """Requests by kind. Not safe for threads by itself: its user holds a lock.

    Args:
      batch_size: the most requests in a batch.
      batch_chars: the most characters, counted as longest request times number of requests.
      keeps_order: whether requests stay in the order in which they come.
    """

    def __init__(self, batch_size: int, batch_chars: int | None, keeps_order: bool = False) -> None:
        self._batch_size = batch_size
        self._batch_chars = batch_chars
        self._keeps_order = keeps_order
        self._by_kind: collections.OrderedDict[Kind, collections.deque[Request]] = (
            collections.OrderedDict()
        )

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def add(self, requests: Sequence[Request]) -> None:
        """Put requests of one kind at the end, the longest first if their order is free.

        The longest first: what does not fit into memory fails at once, and no long request is left
        to the end, when nothing else is there to run beside it.
        """
        if requests:
            queue = self._by_kind.setdefault(requests[0].kind, collections.deque())
            if not self._keeps_order:
                requests = sorted(requests, key=lambda request: -request.size)
            queue.extend(requests)

    def take(self, idle_workers: int = 1) -> list[Request]:
        """Remove the next batch; [] when there is none.

        Args:
          idle_workers: for how many workers the waiting requests have to suffice. Few requests are
            shared out between them, so that none stands by while another has a full batch.
        """
        while self._by_kind:
            kind, queue = self._by_kind.popitem(last=False)
            batch = self._cut(queue, math.ceil(len(queue) / idle_workers))
            if queue:
                self._by_kind[kind] = queue
            if batch:
                return batch
        return []

    def _cut(self, queue: collections.deque[Request], share: int) -> list[Request]:
        batch: list[Request] = []
        longest = 0
        while queue and len(batch) < min(self._batch_size, share):
            longest = max(longest, queue[0].size)
            too_many = self._batch_chars and longest * (len(batch) + 1) > self._batch_chars
            if batch and too_many:
                break
            request = queue.popleft()
            if request.is_wanted():
                batch.append(request)
        return batch

    def is_full(self) -> bool:
        """Whether the next batch would have `batch_size` requests, or there is nothing to take."""
        queue = next(iter(self._by_kind.values()), None)
        return queue is None or len(queue) >= self._batch_size

    def next_callers(self) -> set[int]:
        """The threads that wait for requests of the next batch, if that is not full."""
        queue = next(iter(self._by_kind.values()))
        return {request.waiters[0][0].caller for request in queue}

    def clear(self) -> None:
        """Forget everything that waits."""
        self._by_kind.clear()
