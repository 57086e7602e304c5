# SPDX-License-Identifier: Apache-2.0
"""One worker process as lmeval sees it: started, spoken to without blocking, ended for sure."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from lmeval.sandbox import _wire
from lmeval.sandbox._types import SandboxUnavailable

# All that the interpreter gets. A fixed hash seed, since the order of sets would change scores
# between runs; one thread, since a thread that numpy starts in a child kills it.
_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_BOOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_boot.py")

# Without it some interpreters don't start. Its path is no secret, and the worker drops it at once.
_KEPT_FOR_THE_LOADER = "LD_LIBRARY_PATH"

# A fresh worker now and then: whatever a kernel or an interpreter may leak ends with it.
_MOST_JOBS = 10_000

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 5.0
_CHUNK = 256 << 10


def _environment() -> dict[str, str]:
    kept = os.environ.get(_KEPT_FOR_THE_LOADER)
    return _ENVIRONMENT if kept is None else {**_ENVIRONMENT, _KEPT_FOR_THE_LOADER: kept}


class WorkerDied(Exception):
    """The worker ended, or its answer is so late that it must have failed."""


@dataclass(frozen=True)
class Reply:
    """What the worker says about one job: how the child ended, its wait status, its bytes."""

    ending: int
    status: int
    output: bytes


@dataclass
class _InFlight:
    index: int
    due: float


class WorkerProcess:
    """A worker and the jobs that it has been given and not yet answered.

    Not safe for use from two threads at once: whoever owns it (`owner`) uses it.
    """

    def __init__(self, python: str, settings: dict[str, Any], reply_timeout_s: float) -> None:
        """Starts the process and returns at once; `read_hello` waits for it.

        Raises:
          SandboxUnavailable: the interpreter can't be started.
        """
        try:
            # Not a fork of this process: it may have threads, gigabytes and secrets.
            self._process = subprocess.Popen(
                [python, "-s", "-S", "-B", "-X", "utf8", _BOOT],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(
                f"code_exec can't start the Python at {python!r}: {error.strerror}; "
                "name another one (python=)."
            ) from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._requests = self._process.stdin.fileno()
        self._replies = self._process.stdout.fileno()
        self._python = python
        self._reply_timeout_s = reply_timeout_s
        self._started_by = os.getpid()
        self._unsent = bytearray()
        self._received = bytearray()
        self._in_flight: deque[_InFlight] = deque()
        self.owner: object | None = None
        self.admitted = False
        self._jobs_given = 0
        os.set_blocking(self._requests, False)
        os.set_blocking(self._replies, False)
        text = json.dumps(settings).encode()
        self._unsent += _wire.LENGTH.pack(len(text)) + text

    @property
    def pid(self) -> int:
        """The worker's process number."""
        return self._process.pid

    @property
    def replies(self) -> int:
        """The descriptor to wait on for answers."""
        return self._replies

    @property
    def requests(self) -> int:
        """The descriptor to wait on while `has_unsent`."""
        return self._requests

    @property
    def has_unsent(self) -> bool:
        """Whether requests wait for room in the pipe."""
        return bool(self._unsent)

    @property
    def in_flight(self) -> list[int]:
        """The indexes of the jobs given and not answered, the one that runs first."""
        return [job.index for job in self._in_flight]

    @property
    def spent(self) -> bool:
        """Whether it has had its share of jobs and is to be replaced."""
        return self._jobs_given >= _MOST_JOBS

    @property
    def due(self) -> float | None:
        """When the running job must have been answered (monotonic clock); None when idle."""
        return self._in_flight[0].due if self._in_flight else None

    def read_hello(self) -> dict[str, Any]:
        """Waits until the worker is ready and says what holds.

        Raises:
          SandboxUnavailable: it did not start.
        """
        deadline = time.monotonic() + _START_TIMEOUT_S
        arrival = select.poll()
        arrival.register(self._replies, select.POLLIN)
        try:
            self.send()
            while (hello := self._take_frame(_wire.LENGTH.size)) is None:
                remaining = deadline - time.monotonic()
                if remaining < 0 or not arrival.poll(remaining * 1000):
                    raise WorkerDied("it did not answer in time")
                self._receive()
        except WorkerDied as error:
            raise SandboxUnavailable(
                f"code_exec's worker did not start with {self._python}: {self._last_words(error)}."
            ) from None
        facts = json.loads(hello[_wire.LENGTH.size :])
        if "fault" in facts:
            raise SandboxUnavailable(
                f"code_exec's worker did not start with {self._python}: {facts['fault']}."
            )
        assert self._process.stderr
        self._process.stderr.close()
        return dict(facts)

    def _last_words(self, error: WorkerDied) -> str:
        assert self._process.stderr
        self.kill()
        lines = self._process.stderr.read().decode(errors="replace").split("\n")
        self.stop()
        return next((line.strip() for line in reversed(lines) if line.strip()), str(error))

    def give(self, index: int, header: bytes, body: bytes) -> None:
        """Queues a job; `send` moves it."""
        if not self._in_flight:
            self._in_flight.append(_InFlight(index, time.monotonic() + self._reply_timeout_s))
        else:
            self._in_flight.append(_InFlight(index, 0.0))
        self._unsent += header
        self._unsent += body
        self._jobs_given += 1

    def send(self) -> None:
        """Writes as much as the pipe takes.

        Raises:
          WorkerDied: nobody reads it any more.
        """
        try:
            while self._unsent:
                count = os.write(self._requests, memoryview(self._unsent)[:_CHUNK])
                del self._unsent[:count]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise WorkerDied("it ended") from None

    def receive(self) -> list[tuple[int, Reply]]:
        """The answers that have come, each with its job's index.

        Raises:
          WorkerDied: the worker has ended.
        """
        self._receive()
        answers = []
        while (frame := self._take_frame(_wire.REPLY.size)) is not None:
            _, ending, status = _wire.REPLY.unpack_from(frame)
            job = self._in_flight.popleft()
            if self._in_flight:
                self._in_flight[0].due = time.monotonic() + self._reply_timeout_s
            answers.append((job.index, Reply(ending, status, frame[_wire.REPLY.size :])))
        return answers

    def _receive(self) -> None:
        try:
            data = os.read(self._replies, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise WorkerDied("it ended")
        self._received += data

    def _take_frame(self, header_size: int) -> bytes | None:
        if len(self._received) < header_size:
            return None
        end = header_size + int.from_bytes(self._received[:4], "little")
        if len(self._received) < end:
            return None
        frame = bytes(self._received[:end])
        del self._received[:end]
        return frame

    def kill(self) -> None:
        """Ends the process, and with it the child that it may be running; no other effect."""
        # As another user's process it may be out of reach.
        with contextlib.suppress(PermissionError):
            self._process.kill()

    def stop(self) -> None:
        """Ends the process for sure and closes the pipes; safe to call twice."""
        if self._started_by != os.getpid():
            return
        with contextlib.suppress(OSError, ValueError):
            # For a worker that this process may not signal, while a fork of it holds the pipe open.
            os.write(self._requests, _wire.JOB.pack(0, 0, b""))
        self.kill()
        self._close_pipes()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_TIMEOUT_S)

    def abandon(self) -> None:
        """Lets go of it in a fork of lmeval: the worker is the parent's."""
        self._close_pipes()
        # Else subprocess would say that a process of this one still runs.
        self._process.returncode = 0

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
