# SPDX-License-Identifier: Apache-2.0
"""The Engine: a model that stands between tasks and another model.

What a task asks is looked up in the store, batched, run side by side and within time limits,
repeated after passing faults, kept, and given back in the task's order.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from lmeval.api.errors import UnreachableModelError
from lmeval.api.model import Model, ModelData
from lmeval.engine.cache import AnswerStore, NewAnswer
from lmeval.engine.executors import Workers
from lmeval.engine.keys import KeyMaker, occurrence_key
from lmeval.engine.kinds import Answer, Kind
from lmeval.engine.progress import LoggedProgress, ProgressSink
from lmeval.engine.schedule import Request, RunStopped, Tally, Ticket, tickets_of
from lmeval.engine.settings import Counts, EngineSettings
from lmeval.engine.views import Asker, TaskView

_LOOKED_UP_AT_ONCE = 2000
_TOLD_EVERY_S = 0.1
_PART_EVERY_S = 0.25


class Engine(Asker):
    """A model that asks another one in batches, side by side, and forgets no answer.

    It may be used from several threads at once. Without `for_task`, requests count under "".

    Args:
      model: the model to ask.
      settings: how to ask it.
      clock: seconds, only ever growing; for latencies and time limits.
      rng: spreads the waits before retries; they have no part in any score.
      progress: is told of every batch; None to log notices only.

    Raises:
      UsageError: the store cannot be opened.
    """

    def __init__(
        self,
        model: Model,
        settings: EngineSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        progress: ProgressSink | None = None,
    ) -> None:
        super().__init__(self, Tally(""))
        self.settings = settings or EngineSettings()
        self.deterministic = model.deterministic
        self._model = model
        self._clock = clock
        self._progress = LoggedProgress() if progress is None else progress
        self._lock = threading.Lock()
        self._tallies = {"": self.tally}
        self._asked: dict[bytes, Request] = {}
        self._open_tickets: set[Ticket] = set()
        self._failures_in_a_row = 0
        self._stopped: BaseException | None = None
        self._drained = False
        self._stored_under = ""
        self._store = self._open_store()
        self._workers = Workers(model, self.settings, self, clock, rng or random.Random())
        if self.settings.concurrency > model.max_concurrency:
            self.notice(
                f"The model {model.name} takes {model.max_concurrency} calls at once; "
                f"concurrency {self.settings.concurrency} is lowered to that."
            )

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def for_task(self, name: str) -> TaskView:
        """The model that the task `name` is to be given.

        Its requests are counted under that name. Equal requests through one view are numbered, so
        that each has its own place in the store where the model is not deterministic; a new view
        begins anew, and so finds the answers of an earlier one again.
        """
        with self._lock:
            return TaskView(self, self._tallies.setdefault(name, Tally(name)))

    def counts(self, task: str = "") -> Counts:
        """What happened to the requests of `task` so far."""
        with self._lock:
            return self._tallies.get(task, Tally(task)).counts()

    def finished(self, task: str) -> None:
        """Pass on to whoever shows progress that `task` makes no further request."""
        self._progress.finished(task)

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self._model.name

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return self._model.model_data()

    def fingerprint(self) -> str | None:
        """See `Model.fingerprint`."""
        return self._model.fingerprint()

    def usage(self) -> dict[str, float]:
        """See `Model.usage`."""
        return self._model.usage()

    def stop(self, reason: BaseException | str) -> None:
        """Start no further call of the model; everybody who waits for an answer gets RunStopped.

        Calls under way go on, and their answers are kept.
        """
        failure = RunStopped(reason) if isinstance(reason, str) else reason
        with self._lock:
            if self._stopped is None:
                self._stopped = failure
            for ticket in self._open_tickets:
                ticket.fail(self._stopped)
        self._workers.stop()

    def interrupt(self) -> None:
        """End the run as a first Ctrl-C wants it: calls under way are finished and kept."""
        self.stop(f"Interrupted; {self._how_it_goes_on()}.")
        if not self._drained and (n_calls := self._workers.calls_under_way()):
            calls = "1 call" if n_calls == 1 else f"{n_calls} calls"
            self.notice(f"Waiting for {calls} under way to finish; Ctrl-C again ends at once.")
        self.drain()

    def drain(self) -> None:
        """After `stop`: wait until the calls under way are over and their answers kept.

        A second call does not wait, so that a second Ctrl-C ends the program at once.
        """
        if not self._drained:
            self._drained = True
            self._workers.drain()

    def close(self) -> None:
        """Stop, wait for calls under way, and close the store and the model."""
        self.stop("The engine is closed.")
        self.drain()
        if self._store is not None:
            self._store.close()
        self._model.close()

    def answered(self, requests: Sequence[Request], answers: Sequence[Answer]) -> None:
        """Keep the answers of the model, then hand them out."""
        if self._store is not None:
            pairs = zip(requests, answers, strict=True)
            kept = [_kept(*pair) for pair in pairs if not pair[1].error]
            if kept:
                self._store.add(kept)
        with self._lock:
            for answer in answers:
                failures = self._failures_in_a_row + 1 if answer.error else 0
                self._failures_in_a_row = failures
            self._hand_out(requests, answers)
        self._tell(requests)
        limit = self.settings.max_consecutive_failures
        if limit is not None and failures >= limit:
            self.stop(
                f"Stopped after {failures} failed requests in a row, the last one with "
                f'"{answers[-1].error}"; mend the cause, and {self._how_it_goes_on()}.'
            )

    def repeated(self, requests: Sequence[Request]) -> None:
        """Count a retry of `requests`."""
        with self._lock:
            for request in requests:
                request.waiters[0][0].tally.retries += 1

    def refused(self, requests: Sequence[Request], failure: BaseException) -> None:
        """End the calls behind `requests` with `failure`."""
        with self._lock:
            self._forget(requests)
            for ticket in tickets_of(requests):
                ticket.fail(failure)

    def broken(self, failure: BaseException) -> None:
        """End everything with `failure`."""
        self.stop(failure)

    def unreachable(self, fault: UnreachableModelError, attempts: int) -> None:
        """Stop, because the model was not there at any of the attempts."""
        said = str(fault).rstrip(".")
        self.stop(
            f"Stopped after {attempts} attempts to reach the model: {said}; see that it runs, and "
            f"{self._how_it_goes_on()}."
        )

    def notice(self, message: str) -> None:
        """Pass a sentence on to whoever shows progress."""
        self._progress.notice(message)

    def _how_it_goes_on(self) -> str:
        if self._store is None:
            return "the same command begins anew, because no answer is kept"
        return "the same command goes on from here"

    def _open_store(self) -> AnswerStore | None:
        if self.settings.cache_dir is None:
            return None
        fingerprint = self._model.fingerprint()
        if fingerprint is None:
            if self._model.is_costly:
                self.notice(
                    f"The model {self._model.name} does not state what its answers depend on, so "
                    "they are not stored, and a run that breaks off cannot be resumed; give it a "
                    "fingerprint() to change that."
                )
            return None
        self._stored_under = fingerprint  # once only: it may take a hash over all weights
        return AnswerStore(self.settings.cache_dir, self._model.name, fingerprint, self.notice)

    def ask(self, asker: Asker, kind: Kind, payloads: list[Any]) -> list[Any]:
        """The answers to `payloads`, in order."""
        answers: list[Any] = [None] * len(payloads)
        for part in self.ask_as_completed(asker, kind, payloads, math.inf):
            for place, answer in part:
                answers[place] = answer
        return answers

    def ask_as_completed(
        self, asker: Asker, kind: Kind, payloads: list[Any], longest_step_s: float = _PART_EVERY_S
    ) -> Generator[list[tuple[int, Any]]]:
        """Places in `payloads` with their answers, as they come; each place once.

        What came before a failure is given before that is raised. Closing the generator early takes
        back what is not asked yet.

        Args:
          asker: in whose name to ask.
          kind: what kind of request the payloads are.
          payloads: what to ask.
          longest_step_s: how long an answer may wait for others to be given together with it.
        """
        if not payloads:
            return
        ticket = Ticket(len(payloads), asker.tally)
        failure: BaseException | None = None
        try:
            requests = self._register(asker, kind, payloads, ticket)
            if asker.tally.told_at == -math.inf:  # what begins shows, and its pace counts from now
                self._tell_of([asker.tally])
            self._start(requests)
            for _ in self._workers.waiting(ticket, self._progress.tick, longest_step_s):
                if longest_step_s < math.inf and (part := self._take_arrived(ticket)):
                    yield part
        except KeyboardInterrupt as interrupt:
            self.interrupt()
            failure = interrupt
        finally:
            self._put_away(ticket)
        if part := self._take_arrived(ticket):
            yield part
        if failure := failure or ticket.failure:
            raise failure

    def _take_arrived(self, ticket: Ticket) -> list[tuple[int, Any]]:
        with self._lock:
            arrived, ticket.arrived = ticket.arrived, []
        return arrived

    def _put_away(self, ticket: Ticket) -> None:
        """Let go of a call that is over, or that nobody waits for any more."""
        with self._lock:
            self._open_tickets.discard(ticket)
            if ticket.remaining:
                ticket.fail(RunStopped("Nobody waits for the answers any more."))
                self._forget([one for one in self._asked.values() if not one.is_wanted()])

    def _start(self, requests: list[Request]) -> None:
        """Answer what is stored and have the rest asked."""
        try:
            missing = self._look_up(requests)
            if missing:
                self._workers.submit(missing)
        except BaseException as failure:
            self.refused(requests, failure)  # others may have come to wait for them too
            raise

    def _register(
        self, asker: Asker, kind: Kind, payloads: list[Any], ticket: Ticket
    ) -> list[Request]:
        """The requests that nobody else has asked for already, in order."""
        keys, numbers = self._keys(asker, kind, payloads)
        requests = []
        with self._lock:
            if self._stopped is not None:
                raise self._stopped
            self._open_tickets.add(ticket)
            ticket.tally.requests += len(payloads)
            for place, payload in enumerate(payloads):
                key = keys[place] if keys else None
                twin = self._asked.get(key) if key else None
                if twin is not None and twin.is_wanted():
                    twin.waiters.append((ticket, place))
                    continue
                number = numbers[place] if numbers else 0
                payload = kind.numbered(payload, number)
                request = Request(kind, payload, key, number, (ticket, place))
                requests.append(request)
                if key:
                    self._asked[key] = request
        return requests

    def _keys(self, asker: Asker, kind: Kind, payloads: list[Any]) -> tuple[list[bytes], list[int]]:
        """Keys and occurrence numbers, each empty where there is no need for them."""
        maker = KeyMaker(self._stored_under, kind)
        if self._store is None and not self.deterministic:
            with self._lock:
                return [], asker.number([maker.key(kind.identity(one)) for one in payloads])
        keys = [maker.key(kind.texts(payload)) for payload in payloads]
        if self.deterministic:
            return keys, []
        with self._lock:
            numbers = asker.number(keys)
        return list(map(occurrence_key, keys, numbers)), numbers

    def _look_up(self, requests: list[Request]) -> list[Request]:
        """Answer what is stored; the requests that are not."""
        if self._store is None:
            return requests
        missing: list[Request] = []
        for start in range(0, len(requests), _LOOKED_UP_AT_ONCE):
            chunk = requests[start : start + _LOOKED_UP_AT_ONCE]
            stored = self._store.find([request.key for request in chunk if request.key])
            known = [request for request in chunk if request.key in stored]
            answers = [one.kind.unpack(*stored[one.key]) for one in known if one.key]
            if known:
                with self._lock:
                    self._hand_out(known, answers)
                self._tell(known)
            missing += [request for request in chunk if request.key not in stored]
        return missing

    def _hand_out(self, requests: Sequence[Request], answers: Sequence[Answer]) -> None:
        """Give every waiter its answer and count it; the caller holds the lock."""
        self._forget(requests)
        for request, answer in zip(requests, answers, strict=True):
            for turn, (ticket, place) in enumerate(request.waiters):
                ticket.tally.add(answer, shared=turn > 0)
                ticket.put(place, answer)

    def _forget(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.key and self._asked.get(request.key) is request:
                del self._asked[request.key]

    def _tell(self, requests: Sequence[Request]) -> None:
        """Tell of progress, no oftener than anybody can see, but always of the last answer."""
        self._tell_of({ticket.tally for ticket in tickets_of(requests)})

    def _tell_of(self, tallies: Iterable[Tally]) -> None:
        now = self._clock()
        for tally in tallies:
            is_done = tally.answered == tally.requests
            if is_done or now - tally.told_at >= _TOLD_EVERY_S:
                tally.told_at = now
                self._progress.advanced(tally.task, self.counts(tally.task))


def _kept(request: Request, answer: Answer) -> NewAnswer:
    packed = request.kind.pack(answer)
    return NewAnswer(request.key or b"", request.occurrence, request.kind, request.payload, packed)
