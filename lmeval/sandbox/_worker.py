# SPDX-License-Identifier: Apache-2.0
"""The worker: a small single-threaded process that is locked down once and forks a child per job.

It never parses what a child writes, and never keeps a job's bytes longer than the job.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

from lmeval.sandbox import _child, _lockdown, _preload, _selftest, _wire
from lmeval.sandbox._answers import ANSWER_DESCRIPTOR
from lmeval.sandbox._stage import Stage

_FIRST_HIGH_DESCRIPTOR = 64
_FIRST_WAIT_S = 0.005
_LOOK_AROUND_S = 0.05
_PARENT_CHECK_S = 2.0
_CHUNK = 64 << 10


def _exit_if_orphaned(parent: int) -> None:
    # The closed pipe tells it too, but not while a fork of lmeval holds a copy of the pipe.
    if os.getppid() != parent:
        raise SystemExit


class _Pipes:
    """The two pipes to lmeval, on descriptors that no child keeps."""

    def __init__(self) -> None:
        self.requests = fcntl.fcntl(0, fcntl.F_DUPFD, _FIRST_HIGH_DESCRIPTOR)
        self.replies = fcntl.fcntl(1, fcntl.F_DUPFD, _FIRST_HIGH_DESCRIPTOR)
        self._null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(self._null, standard)

    def silence_errors(self) -> None:
        os.dup2(self._null, 2)
        os.close(self._null)

    def fill(self, view: memoryview) -> None:
        """Reads exactly as much as the view holds, so that the next job stays in the pipe."""
        while view:
            count = os.readv(self.requests, [view])
            if count == 0:
                raise SystemExit
            view = view[count:]

    def send(self, *parts: bytes | memoryview) -> None:
        # In one call where that is enough, so that lmeval wakes up once.
        views = [memoryview(part) for part in parts]
        while views:
            sent = os.writev(self.replies, views)
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if views:
                views[0] = views[0][sent:]

    def send_hello(self, hello: dict[str, Any]) -> None:
        text = json.dumps(hello).encode()
        self.send(_wire.LENGTH.pack(len(text)), text)


class Worker:
    """Forks one child per job, limits it from outside, and passes on what it wrote."""

    def __init__(self, pipes: _Pipes, settings: dict[str, Any]) -> None:
        self._pipes = pipes
        self._parent = os.getppid()
        self._pid = os.getpid()
        self._limits = settings["limits"]
        self._body = bytearray(_CHUNK)
        self._output = bytearray(self._limits["result_bytes"] + _CHUNK)
        self._filter: _lockdown.SystemCallFilter | None = None
        self._child_limits: list[tuple[int, tuple[int, int]]] = []
        self._stage: Stage | None = None
        self._poll = select.poll()
        self._poll.register(pipes.requests, 0)

    def prepare(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Loads what children may need, then locks this process down.

        Returns:
          What holds, by what happened when it was tried.
        """
        modules, without = settings["modules"], settings["without"]
        _preload.load(modules)
        size = _lockdown.address_space()
        self._child_limits = _lockdown.child_limits(
            self._limits["cpu_s"],
            None if size is None else size + (self._limits["memory_mb"] << 20),
            # The standard ones, answers, token.
            descriptors=5,
        )
        self._pipes.silence_errors()
        _lockdown.drop_root()
        _lockdown.limit_worker(self._limits["stack_mb"])
        if _lockdown.LINUX:
            _lockdown.forbid_new_privileges()
            _lockdown.hide_memory()
        landlock = 0 if "landlock" in without else _lockdown.deny_files_and_network()
        seccomp_fault = self._set_up_filter("seccomp" in without)
        allowed = {name.partition(".")[0] for name in (*_preload.PURE_MODULES, *modules)}
        trusted = frozenset(sys.modules) - {"__main__"}
        self._stage = Stage(frozenset(allowed), trusted, self._limits["stdout_bytes"])
        return {
            "python": ".".join(map(str, sys.version_info[:3])),
            "seccomp": self._filter is not None,
            "seccomp_fault": seccomp_fault,
            "landlock_abi": landlock,
            "uid": os.geteuid(),
            "selftest": _selftest.run(self._lock_child_down, self._limits["memory_mb"]),
        }

    def _set_up_filter(self, switched_off: bool) -> str:
        """Builds the filter and has a child try it on; returns why there is none, else ""."""
        if switched_off:
            return "switched off"
        try:
            candidate = _lockdown.SystemCallFilter()
        except OSError as error:
            return str(error.strerror)
        fault = _selftest.fault_of(candidate.install)
        if not fault:
            self._filter = candidate
        return fault

    def _lock_child_down(self) -> None:
        """What every child does to itself first; the order matters, the filter comes last."""
        _lockdown.die_with_parent(self._pid)
        for kind, limit in self._child_limits:
            resource.setrlimit(kind, limit)
        if self._filter is not None:
            self._filter.install()

    def serve(self) -> NoReturn:
        """Runs jobs until lmeval says so, hangs up or dies."""
        idle = select.poll()
        idle.register(self._pipes.requests, select.POLLIN)
        header = bytearray(_wire.JOB.size)
        while True:
            while not idle.poll(_PARENT_CHECK_S * 1000):
                _exit_if_orphaned(self._parent)
            self._pipes.fill(memoryview(header))
            length = int.from_bytes(header[:4], "little")
            if length == 0:
                raise SystemExit
            if length > len(self._body):
                self._body = bytearray(length)
            body = memoryview(self._body)[:length]
            self._pipes.fill(body)
            token = self._offer_token(header)
            size, ending, status = self._run(body, token)
            if token is not None:
                os.close(token)
            output = memoryview(self._output)[:size]
            self._pipes.send(_wire.REPLY.pack(size, ending, status), output)
            # The next child inherits this memory: it must not hold another prediction's answers.
            body[:] = bytes(length)
            output[:] = bytes(size)

    def _offer_token(self, header: bytearray) -> int | None:
        """Moves the token out of this memory, which the child inherits, into a pipe."""
        # Not unpacked: that would leave a copy.
        view = memoryview(header)[-_wire.TOKEN_BYTES :]
        token = None
        if header[_wire.TOKEN_FLAG]:
            token, writer = os.pipe()
            os.write(writer, view)
            os.close(writer)
        view[:] = bytes(_wire.TOKEN_BYTES)
        return token

    def _run(self, body: memoryview, token: int | None) -> tuple[int, int, int]:
        """One child, from fork to grave: length of its output, how it ended, wait status."""
        reader, writer = os.pipe()
        try:
            child = os.fork()
        except OSError as error:
            os.close(reader)
            os.close(writer)
            reason = f"fork: {error.strerror}".encode()
            self._output[: len(reason)] = reason
            return len(reason), _wire.NEVER_STARTED, 0
        if child == 0:
            self._be_child(body, writer, token)
        os.close(writer)
        try:
            size, ending = self._watch(child, reader)
        finally:
            # Also at the end of its output: a child may close the pipe and run on.
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            os.close(reader)
        return size, ending, status

    def _be_child(self, body: memoryview, writer: int, token: int | None) -> NoReturn:
        try:
            kept = ANSWER_DESCRIPTOR
            if token is not None:
                kept = _child.TOKEN_DESCRIPTOR
                # Out of the way, in case that it has the token's number.
                writer = fcntl.fcntl(writer, fcntl.F_DUPFD, _FIRST_HIGH_DESCRIPTOR)
                os.dup2(token, kept)
            os.dup2(writer, ANSWER_DESCRIPTOR)
            os.closerange(kept + 1, 256)
            self._lock_child_down()
            assert self._stage
            _child.run(bytes(body), self._stage)
        finally:
            os._exit(0)

    def _watch(self, child: int, reader: int) -> tuple[int, int]:
        """Collects the child's output until it ends or passes a limit."""
        # At first only its end: being woken for each line of a short answer would cost more.
        self._poll.register(reader, 0)
        wait_s = _FIRST_WAIT_S
        start = last_check = time.monotonic()
        size, most = 0, self._limits["result_bytes"]
        view = memoryview(self._output)
        try:
            while True:
                ready = dict(self._poll.poll(wait_s * 1000))
                if self._pipes.requests in ready:
                    raise SystemExit
                if reader in ready:
                    count = os.readv(reader, [view[size : size + _CHUNK]])
                    size += count
                    if count == 0:
                        return size, _wire.ENDED_ITSELF
                    if size > most:
                        return size, _wire.ENDED_BY_OUTPUT
                elif wait_s == _FIRST_WAIT_S:
                    self._poll.modify(reader, select.POLLIN)
                    wait_s = _LOOK_AROUND_S
                now = time.monotonic()
                if now - start > self._limits["wall_s"]:
                    return size, _wire.ENDED_BY_WALL_CLOCK
                if _cpu_time(child) > self._limits["cpu_s"]:
                    return size, _wire.ENDED_BY_CPU_TIME
                if now - last_check > _PARENT_CHECK_S:
                    last_check = now
                    _exit_if_orphaned(self._parent)
        finally:
            self._poll.unregister(reader)


def _cpu_time(process: int) -> float:
    """CPU seconds of another process, by its CPU clock: this needs no file."""
    if not _lockdown.LINUX:
        return 0.0  # RLIMIT_CPU is left
    try:
        # The kernel's number for the scheduler clock of a whole process.
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0  # it has just ended, or the kernel has no such clock; RLIMIT_CPU is left


def main() -> None:
    """Says what holds, then serves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipes = _Pipes()
    length = bytearray(_wire.LENGTH.size)
    pipes.fill(memoryview(length))
    settings_text = bytearray(_wire.LENGTH.unpack(length)[0])
    pipes.fill(memoryview(settings_text))
    settings = json.loads(settings_text)
    worker = Worker(pipes, settings)
    try:
        hello = worker.prepare(settings)
    except Exception as error:
        pipes.send_hello({"fault": f"{type(error).__name__}: {error}"})
        raise
    # Children share this memory until they write to it; the collector would write to all of it.
    gc.collect()
    gc.freeze()
    gc.disable()
    pipes.send_hello(hello)
    worker.serve()
