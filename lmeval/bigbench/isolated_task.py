# SPDX-License-Identifier: Apache-2.0
"""BIG-bench tasks that run model-written code, in a process that can do no harm."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmeval.api.errors import TaskError, UsageError
from lmeval.api.model import Model
from lmeval.api.options import TaskOptions
from lmeval.api.task import ScoreData
from lmeval.bigbench.program_model import ProgramModel
from lmeval.bigbench.program_task import ProgramTask
from lmeval.sandbox import Sandbox, SandboxUnavailable

_START_S = 300.0
_SILENCE_S = 120.0
_LONGEST_LINE = 64 << 20


class IsolatedTask(ProgramTask):
    """A task.py that runs model-written code through RestrictedPython.

    RestrictedPython alone keeps nobody in, so the whole task runs in a process of its own that has
    given up files, network and processes, by the walls of `lmeval.sandbox`, before it sees the
    first answer. Code that gets out of RestrictedPython can falsify this task's scores there, and
    nothing else.
    """

    def __init__(self, folder: Path, name: str, options: TaskOptions) -> None:
        """Load a task; see `ProgramTask`.

        Raises:
          UsageError: running code is not allowed.
          TaskError: the task cannot be loaded.
        """
        if options.sandbox is None:
            raise UsageError(
                f"The task {name} runs code that the model wrote; allow it with "
                "--allow_code_exec (in Python: pass a Sandbox)."
            )
        super().__init__(folder, name, options)
        self._folder = folder.resolve()
        self._sandbox: Sandbox = options.sandbox

    def evaluate_model(
        self, model: Model, max_examples: int | None = None
    ) -> ScoreData | list[ScoreData]:
        """See `ProgramTask.evaluate_model`.

        Raises:
          UsageError: the sandbox cannot hold here.
          TaskError: the task failed, or its process ended or fell silent.
        """
        try:
            self._sandbox.start()
        except SandboxUnavailable as error:
            raise UsageError(f"The task {self._name}: {error}") from error
        limits = self._sandbox.limits
        job = {
            "folder": str(self._folder),
            "seed": self._seed,
            "wishes": self._wishes(max_examples or self._options.max_examples),
            "parent": os.getpid(),
            "cpu_s": limits.cpu_s,
            "memory_mb": limits.memory_mb,
            "stack_mb": limits.stack_mb,
            "needs_filter": bool(self._sandbox.report()["seccomp"]),
        }
        with _Conversation(self._name) as process:
            process.send(job)
            return _answer_until_done(self._name, process, ProgramModel(model))


class _Conversation:
    """The task's process, and JSON lines to and from it. It is not believed in anything."""

    def __init__(self, task: str) -> None:
        self._task = task

    def __enter__(self) -> _Conversation:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-m", "lmeval.bigbench.isolated_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Nothing of lmeval's environment, which may hold keys. Threads of their own would be
            # outside of the walls.
            env={
                "PYTHONPATH": path,
                "PYTHONHASHSEED": "0",
                "LC_ALL": "C.UTF-8",
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
            },
            start_new_session=True,
        )
        self._unread = b""
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise TaskError(self._end()) from None

    def receive(self, patience_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        until = time.monotonic() + patience_s
        while b"\n" not in self._unread:
            if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise TaskError(f"The task {self._task} was silent for {patience_s:g} s.")
            block = os.read(descriptor, 1 << 16)
            if not block:
                raise TaskError(self._end())
            self._unread += block
            if len(self._unread) > _LONGEST_LINE:
                raise TaskError(f"The task {self._task} said more than {_LONGEST_LINE} bytes.")
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise TaskError(_nonsense(self._task))
        if "failed" in message:
            reason = " ".join(str(message["failed"]).split())[:300].rstrip(".")
            raise TaskError(f"The task {self._task} failed in its own process: {reason}.")
        return message

    def _end(self) -> str:
        status = self._process.wait()
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"The task {self._task} ended in its own process by {how}."


def _answer_until_done(task: str, process: _Conversation, model: Model) -> list[ScoreData]:
    # All of this line is true: no answer of the model was there before it.
    trial = process.receive(_START_S)
    n_asked, patterns = trial.get("ready"), trial.get("patterns")
    if not isinstance(n_asked, int) or not isinstance(patterns, list):
        raise TaskError(_nonsense(task))
    process.send({"answer": None})
    # It asks what it asked when it was tried out; more can only be foreign code asking.
    for _ in range(n_asked + 1):
        message = process.receive(_SILENCE_S)
        if "scores" in message:
            return _scores(task, message["scores"])
        process.send({"answer": _answer(task, model, message, patterns)})
    raise TaskError(
        f"The task {task} asked the model more than the {n_asked} times that it has to."
    )


def _answer(task: str, model: Model, message: Mapping[str, Any], patterns: Sequence[str]) -> Any:
    function: Any = message.get("ask")
    arguments: Any = message.get("arguments")
    if not _is_question(function, arguments, patterns):
        raise TaskError(_nonsense(task))
    answer = getattr(model, function)(*arguments)
    return str(answer) if isinstance(answer, str) else [_plain(part) for part in answer]


def _is_question(function: Any, arguments: Any, patterns: Sequence[str]) -> bool:
    match function, arguments:
        case "generate_text", [inputs, (int() | None), stop_string, output_regex]:
            # A pattern of foreign code's could keep lmeval busy for ever.
            known = output_regex is None or output_regex in patterns
            return _are_texts(inputs) and known and (stop_string is None or _are_texts(stop_string))
        case "cond_log_prob", [str(), list(targets), bool()]:
            return _are_texts(targets)
        case "cond_log_prob", [list(inputs), list(targets), bool()]:
            rows = all(isinstance(row, list) and _are_texts(row) for row in targets)
            return _are_texts(inputs) and rows and len(inputs) == len(targets)
    return False


def _are_texts(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(text, str) for text in value)
    return isinstance(value, str)


def _plain(part: Any) -> Any:
    if isinstance(part, str):
        return str(part)
    return float(part) if isinstance(part, (int, float)) else [float(value) for value in part]


def _scores(task: str, fields: Any) -> list[ScoreData]:
    try:
        return [ScoreData(**entry) for entry in fields]
    except TypeError as error:
        raise TaskError(_nonsense(task)) from error


def _nonsense(task: str) -> str:
    return (
        f"The task {task} said what it never says; model-written code may have taken over its "
        "process, which was ended."
    )
