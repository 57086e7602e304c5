# SPDX-License-Identifier: Apache-2.0
"""One call's jobs: given to workers, collected in order, retried once where the sandbox failed."""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Protocol

from lmeval.sandbox import _wire
from lmeval.sandbox._judge import HarnessFailure, judge
from lmeval.sandbox._process import Reply, WorkerDied, WorkerProcess
from lmeval.sandbox._types import Job, Limits, PairStatus, SandboxError, Verdict

# One runs, one waits in the pipe: enough to keep a worker busy, and little to be stuck behind a
# slow job.
_JOBS_PER_WORKER = 2
_ATTEMPTS = 2
_LONGEST_WAIT_S = 3600.0  # the system takes no more than some days


class Lease(Protocol):
    """Where a batch gets its workers."""

    most: int
    """How many there can be."""

    def acquire(self, wanted: int, wait: bool) -> Sequence[WorkerProcess]:
        """Workers not had before, up to a number; at least one if it is to wait."""

    def give_back(self, worker: WorkerProcess) -> None:
        """Takes back a worker with nothing to do."""

    def discard(self, worker: WorkerProcess) -> None:
        """Takes back a worker that failed."""


class Batch:
    """Jobs with their verdicts so far. Used by one thread."""

    def __init__(self, jobs: Sequence[Job], limits: Limits) -> None:
        self._jobs = jobs
        self._limits = limits
        self._verdicts = [self._verdict_without_run(job) for job in jobs]
        self._waiting = deque(i for i, verdict in enumerate(self._verdicts) if verdict is None)
        self._unsettled = len(self._waiting)
        self._failures: Counter[int] = Counter()
        self._digests: dict[int, str] = {}

    def run(self, lease: Lease) -> list[Verdict]:
        """Works until every job has a verdict.

        Args:
          lease: where the workers come from; giving them back is the caller's part.

        Returns:
          One verdict per job, in order.

        Raises:
          SandboxError: the sandbox failed twice on one job.
          ValueError: a job's inputs are no JSON values.
        """
        working: list[WorkerProcess] = []
        readable: set[WorkerProcess] = set()
        with selectors.DefaultSelector() as selector:
            while self._unsettled:
                if self._waiting and len(working) < lease.most:
                    for worker in lease.acquire(len(self._waiting), wait=not working):
                        selector.register(worker.replies, selectors.EVENT_READ, worker)
                        working.append(worker)
                self._share_out(working)
                for worker in tuple(working):
                    try:
                        self._serve(worker, worker in readable)
                        busy = worker.in_flight or (self._waiting and not worker.spent)
                        leave = None if busy else lease.give_back
                    except WorkerDied as error:
                        self._requeue(worker, str(error))
                        leave = lease.discard
                    if leave:
                        working.remove(worker)
                        selector.unregister(worker.replies)
                        leave(worker)
                readable = _wait(selector, working)
        return [verdict for verdict in self._verdicts if verdict is not None]

    def _verdict_without_run(self, job: Job) -> Verdict | None:
        most = self._limits.source_bytes
        # Four bytes a character at most: only long code is measured exactly.
        if len(job.code) * 4 <= most or len(job.code.encode("utf-8", "surrogatepass")) <= most:
            return None
        pairs: list[PairStatus] = ["no_answer"] * max(1, len(job.inputs))
        return Verdict("error", tuple(pairs), f"the code is longer than {most} bytes")

    def _share_out(self, working: Sequence[WorkerProcess]) -> None:
        """Gives each worker a job to run, then each one to wait."""
        for most in range(1, _JOBS_PER_WORKER + 1):
            for worker in working:
                if self._waiting and not worker.spent and len(worker.in_flight) < most:
                    index = self._waiting.popleft()
                    worker.give(index, *self._request(index))

    def _serve(self, worker: WorkerProcess, readable: bool) -> None:
        """Moves what a worker has to be told, and takes what it has answered."""
        worker.send()
        if readable:
            for index, reply in worker.receive():
                self._settle(index, reply)
        if worker.due is not None and worker.due < time.monotonic():
            raise WorkerDied("it did not answer in time")

    def _request(self, index: int) -> tuple[bytes, bytes]:
        """Header and body of a job's request; the accepted answers are in neither."""
        job = self._jobs[index]
        content = {"code": job.code, "mode": job.mode, "inputs": job.inputs, "tests": job.tests}
        try:
            body = json.dumps(content).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"job {index}: the inputs are no JSON values: {error}.") from error
        token = b""
        if job.mode == "tests":
            token = os.urandom(_wire.TOKEN_BYTES)
            self._digests[index] = hashlib.sha256(token).hexdigest()
        return _wire.JOB.pack(len(body), bool(token), token), body

    def _settle(self, index: int, reply: Reply) -> None:
        accepted: Sequence[Sequence[Any]] = self._jobs[index].accepted
        if index in self._digests:
            # The child learns the token only by reaching the end of its tests.
            accepted = [[self._digests.pop(index)]]
        try:
            verdict = judge(reply, self._jobs[index].mode, accepted, self._limits)
        except HarnessFailure as failure:
            self._count_failure(index, str(failure))
            self._waiting.appendleft(index)
            return
        self._verdicts[index] = verdict
        self._unsettled -= 1

    def _requeue(self, worker: WorkerProcess, reason: str) -> None:
        """Puts a dead worker's jobs back in order; only the one that was running is suspect."""
        in_flight = worker.in_flight
        if in_flight:
            self._count_failure(in_flight[0], f"the worker failed: {reason}")
        self._waiting.extendleft(reversed(in_flight))

    def _count_failure(self, index: int, reason: str) -> None:
        self._failures[index] += 1
        if self._failures[index] >= _ATTEMPTS:
            raise SandboxError(
                f"code_exec's sandbox failed {_ATTEMPTS} times on prediction {index + 1} of "
                f"{len(self._jobs)}, which has no score: {reason}."
            )


def _wait(selector: selectors.BaseSelector, working: Sequence[WorkerProcess]) -> set[WorkerProcess]:
    """Waits until a worker has answered, takes more, or is overdue; returns those that answered."""
    deadlines = [worker.due for worker in working if worker.due is not None]
    if not deadlines:
        return set()
    blocked = [worker for worker in working if worker.has_unsent]
    for worker in blocked:
        selector.register(worker.requests, selectors.EVENT_WRITE, worker)
    patience = min(deadlines) - time.monotonic()
    events = selector.select(min(max(0.0, patience), _LONGEST_WAIT_S))
    for worker in blocked:
        selector.unregister(worker.requests)
    return {key.data for key, mask in events if mask & selectors.EVENT_READ}
