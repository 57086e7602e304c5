# SPDX-License-Identifier: Apache-2.0
"""The threads that ask the model: side by side, within time limits, and again after faults.

A batch on its way through the model is a `Job`. A thread works on one job at a time. A call that
takes too long cannot be ended from outside, so its thread is given up: the job goes on in a new
thread, and whatever the old one brings back is dropped.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from lmeval.api.errors import (
    AnswerCountError,
    FatalModelError,
    ModelError,
    TransientModelError,
    UnreachableModelError,
    UnsupportedByModel,
)
from lmeval.api.model import Model
from lmeval.engine.answers import describe_fault, list_of_answers
from lmeval.engine.calls import Call, Job, checked_answers, wanted_and_given_pause
from lmeval.engine.kinds import Answer
from lmeval.engine.schedule import Request, RequestQueue, Ticket, tickets_of
from lmeval.engine.settings import EngineSettings

_ENDS_THE_TASK = (UnsupportedByModel, FatalModelError)
"""Faults that no other request would be spared."""
_LONGEST_GATHERING_S = 0.005
_GATHERING_SHARE = 0.1
_LONGEST_STEP_S = 1.0
_LONG_WAIT_S = 10.0


class Recipient(Protocol):
    """Who gets what the workers bring; called without the workers' lock, from any thread."""

    def answered(self, requests: Sequence[Request], answers: Sequence[Answer]) -> None:
        """Take the answers to `requests`, failed ones among them."""

    def repeated(self, requests: Sequence[Request]) -> None:
        """Learn that `requests` will be asked again."""

    def refused(self, requests: Sequence[Request], failure: Exception) -> None:
        """Learn that the calls behind `requests` end with an exception."""

    def broken(self, failure: BaseException) -> None:
        """Learn that a worker cannot go on, and stop the run."""

    def unreachable(self, fault: UnreachableModelError, attempts: int) -> None:
        """Learn that the model was not there at any of the attempts, and stop the run."""

    def notice(self, message: str) -> None:
        """Pass a sentence on to the user."""


class Workers:
    """Takes requests and brings answers.

    Args:
      model: the model to ask.
      settings: batch sizes, limits, retries.
      recipient: gets the answers.
      clock: seconds, only ever growing.
      rng: spreads the waits before retries.
    """

    def __init__(
        self,
        model: Model,
        settings: EngineSettings,
        recipient: Recipient,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._model = model
        self._settings = settings
        self._recipient = recipient
        self._clock = clock
        self._rng = rng
        self._most_calls = max(1, model.max_concurrency)
        self._most_jobs = min(settings.concurrency, self._most_calls)
        self._queue = RequestQueue(
            settings.batch_size, settings.batch_chars, keeps_order=model.keeps_order
        )
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._arrival = threading.Condition(self._lock)
        self._change = threading.Condition(self._lock)
        self._stopping = threading.Event()
        self._idle = 0
        self._threads = 0
        self._jobs = 0
        self._calls: set[Call] = set()
        self._given_up: dict[Call, float] = {}
        self._returning: set[int] = set()
        self._gathering_s = 0.0
        self._announced_until = -math.inf
        self._told_of_counts = False

    def submit(self, requests: Sequence[Request]) -> None:
        """Ask `requests`, all of one kind, as soon as a worker is free."""
        with self._lock:
            self._queue.add(requests)
            self._arrival.notify_all()
            wanted = min(len(requests), self._most_jobs)
            woken = min(wanted, self._idle)
            self._idle -= woken
            self._work.notify(woken)
            missing = max(0, min(wanted - woken, self._most_jobs - self._threads))
            self._threads += missing
        # Not under the lock, for which the new threads would queue up one by one.
        for number in range(missing):
            try:
                self._start_thread(None)
            except BaseException:
                with self._lock:
                    self._threads -= missing - number
                raise

    def waiting(
        self, ticket: Ticket, tick: Callable[[], None], longest_step_s: float
    ) -> Iterator[None]:
        """Wait until the call behind `ticket` is over, and see to the time limits meanwhile.

        Yields at least every `longest_step_s` seconds, so that the caller can look at what came.
        """
        while not ticket.wait(min(self._step(), longest_step_s)):
            self.give_up_late_calls()
            tick()
            yield

    def give_up_late_calls(self) -> None:
        """End the calls whose time is over."""
        if self._settings.timeout_s is None:
            return
        now = self._clock()
        with self._lock:
            late = [call for call in self._calls if call.is_late(now)]
            for call in late:
                self._calls.remove(call)
                call.job.call = None
                self._given_up[call] = now + call.limit
                self._threads -= 1
        for call in late:
            try:
                self._out_of_time(call, now)
            finally:
                with self._lock:
                    self._threads += 1
                self._start_thread(call.job)

    def calls_under_way(self) -> int:
        """How many calls of the model have not come back yet, given up ones aside."""
        with self._lock:
            return len(self._calls)

    def stop(self) -> None:
        """Start no further call; those under way go on, and their answers are delivered."""
        with self._lock:
            self._stopping.set()
            self._queue.clear()
            for condition in (self._work, self._arrival, self._change):
                condition.notify_all()

    def drain(self) -> None:
        """After `stop`: wait until no call is under way any more, save those given up."""
        while True:
            self.give_up_late_calls()
            with self._lock:
                if not self._jobs:
                    return
                self._change.wait(self._step_locked())

    def _step(self) -> float:
        with self._lock:
            return self._step_locked()

    def _step_locked(self) -> float:
        limit = self._settings.timeout_s
        if limit is None:
            return _LONGEST_STEP_S
        due = min((call.started + call.limit for call in self._calls), default=math.inf)
        due -= self._clock()
        return max(0.001, min(_LONGEST_STEP_S, limit / 4, due))

    def _start_thread(self, job: Job | None) -> None:
        # Daemon threads, because a call that never returns must not keep the process alive.
        threading.Thread(target=self._run, args=(job,), name="lmeval-model", daemon=True).start()

    def _run(self, job: Job | None) -> None:
        """What a thread does until there is nothing more to do or it is given up."""
        try:
            while (job := job or self._next_job()) is not None:
                if not self._finish(job):
                    return
                job = None
        except BaseException as failure:  # without this, its callers would wait for ever
            self._recipient.broken(failure)
            if job is not None:
                self._leave(job)

    def _next_job(self) -> Job | None:
        with self._lock:
            while not self._stopping.is_set():
                if self._queue:
                    self._gather()
                    batch = self._queue.take(max(1, self._most_jobs - self._jobs))
                    if batch:
                        self._jobs += 1
                        return Job(batch)
                else:
                    self._idle += 1  # whoever wakes a worker counts it out again
                    self._work.wait()
            self._threads -= 1
            return None

    def _gather(self) -> None:
        """Wait a moment for the threads that were just answered, and so make a fuller batch.

        They are about to come back with their next requests. A thread that is alone never waits
        here, nor does anybody while another worker is free.
        """
        if self._jobs + 1 < self._most_jobs:
            return
        end = self._clock() + self._gathering_s
        while not self._queue.is_full() and not self._stopping.is_set():
            left = end - self._clock()
            if left <= 0 or self._returning <= self._queue.next_callers():
                break
            self._arrival.wait(left)
        self._returning = set()

    def _finish(self, job: Job) -> bool:
        """Ask until every request of the job is done; False when this thread was given up."""
        while (part := self._next_part(job)) and (call := self._begin(job, part)):
            outcome: Any
            try:
                outcome = list_of_answers(part[0].kind.ask(self._model, [r.payload for r in part]))
            except SystemExit as fault:
                outcome = ModelError(f"the model called sys.exit({fault.code!r})")
            except BaseException as fault:
                outcome = fault
            if not self._end(call):
                return False
            if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
                raise outcome
            self._settle(call, outcome)
        self._leave(job)
        return True

    def _next_part(self, job: Job) -> list[Request] | None:
        """What to ask next; None when the job is done.

        What has failed at one level is asked again at the next, after a pause if a fault may pass.
        """
        if not job.now:
            job.now, job.later = job.later, []
            if job.pause is not None:
                job.attempt += 1
                self._stopping.wait(job.pause)
                job.pause = None
        return job.now.pop() if job.now else None

    def _leave(self, job: Job) -> None:
        with self._lock:
            self._jobs -= 1
            self._change.notify_all()

    def _begin(self, job: Job, part: list[Request]) -> Call | None:
        """Enter a call as soon as the model may take one; None when the run stops."""
        with self._lock:
            while not self._stopping.is_set():
                now = self._clock()
                # A call that does not come back within its limit once more is written off.
                self._given_up = {c: end for c, end in self._given_up.items() if end > now}
                if len(self._calls) + len(self._given_up) < self._most_calls:
                    job.call = Call(job, part, now, self._settings.timeout_s)
                    self._calls.add(job.call)
                    return job.call
                soonest = min(self._given_up.values(), default=now + _LONGEST_STEP_S)
                self._change.wait(soonest - now)
            return None

    def _end(self, call: Call) -> bool:
        """Leave a call; False when it was given up and its outcome is to be dropped."""
        call.ended = self._clock()
        with self._lock:
            if call.job.call is not call:
                self._given_up.pop(call, None)
                self._change.notify_all()
                return False
            call.job.call = None
            self._calls.remove(call)
            if self._given_up:
                self._change.notify_all()
            self._returning = {ticket.caller for ticket in tickets_of(call.part)}
            self._gathering_s = min(
                _LONGEST_GATHERING_S, _GATHERING_SHARE * (call.ended - call.started)
            )
            return True

    def _settle(self, call: Call, outcome: Any) -> None:
        """Deliver what a call brought, or decide how its requests go on."""
        if call.is_late(call.ended):
            self._out_of_time(call, call.ended)
        elif isinstance(outcome, Exception):
            self._fault(call, outcome)
        else:
            latency_ms = (call.ended - call.started) * 1000
            try:
                answers = checked_answers(call.part, outcome, latency_ms)
            except Exception as fault:  # an answer may be any object, and raise when looked at
                self._fault(call, fault)
            else:
                self._recipient.answered(call.part, answers)

    def _out_of_time(self, call: Call, now: float) -> None:
        """Single requests have had their time; those of a batch get it one by one."""
        if len(call.part) > 1:
            self._recipient.repeated(call.part)
            call.job.now.extend([request] for request in call.part)
        else:
            self._give_answer_up(call, "timeout", now)

    def _fault(self, call: Call, fault: Exception) -> None:
        """Halve a batch until the guilty request is alone; ask that again if the fault may pass."""
        part, job = call.part, call.job
        if isinstance(fault, AnswerCountError) and len(part) > 1 and not self._told_of_counts:
            self._told_of_counts = True
            said = str(fault).rstrip(".")
            self._recipient.notice(f"{said}; they are asked again in smaller batches.")
        if isinstance(fault, _ENDS_THE_TASK) and len(tickets_of(part)) == 1:
            self._recipient.refused(part, fault)
            return
        may_pass = isinstance(fault, TransientModelError)
        may_pass = may_pass and job.attempt < self._settings.max_retries
        if may_pass:
            job.pause = max(job.pause or 0.0, self._pause(job.attempt, fault))
        elif isinstance(fault, UnreachableModelError):
            # Further requests would fail as this one did, each after as many attempts.
            self._recipient.unreachable(fault, job.attempt + 1)
            return
        if len(part) > 1:
            middle = (len(part) + 1) // 2
            job.later += [part[middle:], part[:middle]]
        elif may_pass:
            job.later.append(part)
        elif isinstance(fault, _ENDS_THE_TASK):
            self._recipient.refused(part, fault)
            return
        else:
            self._give_answer_up(call, describe_fault(fault), call.ended)
            return
        self._recipient.repeated(part)

    def _give_answer_up(self, call: Call, error: str, now: float) -> None:
        latency_ms = (now - call.started) * 1000
        failed = [one.kind.failed(one.payload, error, latency_ms) for one in call.part]
        self._recipient.answered(call.part, failed)

    def _pause(self, attempt: int, fault: Exception) -> float:
        """Seconds until the next attempt."""
        wanted, pause = wanted_and_given_pause(fault, attempt, self._settings, self._rng)
        now = self._clock()
        if pause >= _LONG_WAIT_S and now >= self._announced_until:
            self._announced_until = now + pause
            asked = "" if wanted <= pause else f" (it asked for {wanted:.0f} s)"
            self._recipient.notice(f"Waiting {pause:.0f} s for the model{asked}: {fault}")
        return pause
