# SPDX-License-Identifier: Apache-2.0
"""The sandbox: workers shared between threads, and batches of jobs spread over them."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from lmeval.sandbox import _admission
from lmeval.sandbox._batch import Batch
from lmeval.sandbox._process import WorkerProcess
from lmeval.sandbox._types import Job, Limits, SandboxUnavailable, Verdict

Isolation = Literal["required", "reduced"]

# Beyond the limit by the clock, which the worker itself enforces.
_REPLY_GRACE_S = 30.0


class Sandbox:
    """Runs predictions, each in a locked-down process of its own, and judges what they answer.

    Nothing is started before the first use. It may be used from many threads at once, and in a
    process that was forked after its use; each process has its own workers. As a context manager it
    closes itself; one that is left open ends with its process.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        isolation: Isolation = "required",
        workers: int | None = None,
        python: str | None = None,
        extra_modules: Iterable[str] = (),
    ) -> None:
        """Says how to run code; runs nothing yet.

        Args:
          limits: what one prediction may use.
          isolation: `required` refuses to run unless a seccomp filter is in force and a self-test
            has shown that it holds. `reduced` takes the walls that there are.
          workers: how many predictions run at once; by default one per core, at most 2.
          python: the interpreter for the predictions; by default this one.
          extra_modules: modules installed for that interpreter that predictions may import besides
            the pure ones of the standard library, such as `numpy`.

        Raises:
          ValueError: an argument makes no sense.
        """
        if isolation not in ("required", "reduced"):
            raise ValueError(f"'isolation' must be required or reduced (got {isolation!r}).")
        if workers is not None and workers < 1:
            raise ValueError(f"'workers' must be at least 1 (got {workers}).")
        if isinstance(extra_modules, str):
            raise ValueError("'extra_modules' must be a list of names, not one text.")
        self.limits = limits or Limits()
        self.isolation = isolation
        self.workers = workers or min(2, _cores())
        self.python = python if python is not None else sys.executable
        self.extra_modules = tuple(extra_modules)
        self._without: tuple[str, ...] = ()  # walls that a test leaves out
        self._facts: dict[str, Any] | None = None
        self._closed = False
        self._pool: list[WorkerProcess] = []
        self._changed = threading.Condition()
        weakref.finalize(self, _stop_all, self._pool)
        _alive.add(self)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def evaluate(self, jobs: Iterable[Job]) -> list[Verdict]:
        """Runs jobs, several at once.

        Args:
          jobs: any number of them; one batch is faster than many calls.

        Returns:
          One verdict per job, in order.

        Raises:
          SandboxUnavailable: the sandbox can't hold here.
          SandboxError: the sandbox failed twice on one job.
          ValueError: the sandbox is closed, or a job's inputs are no JSON values.
        """
        lease = _Lease(self)
        try:
            return Batch(list(jobs), self.limits).run(lease)
        finally:
            # Also after an error or Ctrl-C: a worker that still owes answers can't be used again.
            self._release(lease)

    def start(self) -> None:
        """Starts a worker unless there was one, to learn early whether the sandbox holds.

        Raises:
          SandboxUnavailable: it can't hold here; the text says why and what to do.
        """
        if self._facts is None:
            self.evaluate([job for job, _ in _admission.CANARIES[:1]])

    def report(self) -> dict[str, Any]:
        """What actually held, by trying it, as a JSON object for the results.

        Returns:
          `isolation`, `started`, `limits` and `modules`; once a worker has started also `seccomp`,
          `landlock_abi` (0: none), `uid`, `selftest` and `python`.
        """
        return {
            "isolation": self.isolation,
            "started": self._facts is not None,
            "limits": asdict(self.limits),
            "modules": list(self.extra_modules),
            **(self._facts or {}),
        }

    def close(self) -> None:
        """Ends the workers; what still runs in other threads fails."""
        with self._changed:
            self._closed = True
            for worker in tuple(self._pool):
                if worker.owner is None:
                    self._drop(worker)
                else:
                    # The thread that uses it is told by the end of its pipe, and drops it.
                    worker.kill()
            self._changed.notify_all()

    def _acquire(self, lease: _Lease, wanted: int, wait: bool) -> list[WorkerProcess]:
        """Idle or new workers, up to a number, now the lease's; at least one if it may wait."""
        with self._changed:
            while not self._closed:
                taken = [worker for worker in self._pool if worker.owner is None][:wanted]
                for worker in taken:
                    worker.owner = lease
                for _ in range(min(wanted - len(taken), self.workers - len(self._pool))):
                    worker = self._new_worker()
                    worker.owner = lease
                    self._pool.append(worker)
                    taken.append(worker)
                if taken or not wait:
                    return taken
                self._changed.wait()
        raise ValueError("this Sandbox is closed.")

    def _new_worker(self) -> WorkerProcess:
        _admission.check_platform(self.isolation)
        if not self.python:
            raise SandboxUnavailable(
                "code_exec does not know which Python to run, since sys.executable is empty: name "
                "one (python=)."
            )
        settings = {
            "limits": asdict(self.limits),
            "modules": self.extra_modules,
            "without": self._without,
        }
        return WorkerProcess(self.python, settings, self.limits.wall_s + _REPLY_GRACE_S)

    def _admit(self, worker: WorkerProcess) -> None:
        """Lets a new worker prove itself before it gets its first job."""
        facts = worker.read_hello()
        _admission.check_walls(facts, self.isolation)
        canaries = Batch([job for job, _ in _admission.CANARIES], self.limits)
        _admission.check_canaries(canaries.run(_OnProbation(worker)))
        worker.admitted = True
        self._facts = facts

    def _release(self, lease: _Lease) -> None:
        with self._changed:
            for worker in [worker for worker in self._pool if worker.owner is lease]:
                self._give_back(worker)

    def _give_back(self, worker: WorkerProcess) -> None:
        with self._changed:
            if worker.in_flight or worker.spent or self._closed or not worker.admitted:
                self._drop(worker)
            worker.owner = None
            self._changed.notify_all()

    def _drop(self, worker: WorkerProcess) -> None:
        with self._changed:
            worker.stop()
            if worker in self._pool:
                self._pool.remove(worker)

    def _forget_workers(self) -> None:
        """In a fork of this process: the workers are the parent's, and the lock may stay held."""
        for worker in self._pool:
            worker.abandon()
        self._pool.clear()
        self._changed = threading.Condition()


class _Lease:
    """The workers of one call."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.most = sandbox.workers

    def acquire(self, wanted: int, wait: bool) -> list[WorkerProcess]:
        workers = self._sandbox._acquire(self, wanted, wait)
        for worker in workers:
            if not worker.admitted:
                self._sandbox._admit(worker)
        return workers

    def give_back(self, worker: WorkerProcess) -> None:
        self._sandbox._give_back(worker)

    def discard(self, worker: WorkerProcess) -> None:
        self._sandbox._drop(worker)


class _OnProbation:
    """A single worker that is not replaced."""

    most = 1

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker: WorkerProcess | None = worker

    def acquire(self, wanted: int, wait: bool) -> list[WorkerProcess]:
        if not wait:
            return []
        worker, self._worker = self._worker, None
        if worker is None:
            raise SandboxUnavailable("code_exec's worker failed while it was being checked.")
        return [worker]

    def give_back(self, worker: WorkerProcess) -> None:
        """It stays with whoever put it on probation, who also ends it if it failed."""

    discard = give_back


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stop_all(pool: list[WorkerProcess]) -> None:
    for worker in pool:
        worker.stop()
    pool.clear()


# The one piece of global state: a fork can't be noticed in time in any other way.
_alive: weakref.WeakSet[Sandbox] = weakref.WeakSet()


def _after_fork() -> None:
    for sandbox in list(_alive):
        sandbox._forget_workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
