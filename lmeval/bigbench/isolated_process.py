# SPDX-License-Identifier: Apache-2.0
"""The process in which a task runs that executes model-written code; `isolated_task` starts it.

It loads the task, tries it out with empty answers so that all is imported, then gives up files,
network, processes and privileges for good, and only then lets the model's answers in. It speaks
JSON, one object a line: requests and scores out, answers in.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from lmeval.api.model import Model, ModelData
from lmeval.api.task import ScoreData, Task
from lmeval.bigbench.program_model import ProgramModel
from lmeval.bigbench.shim.classes import make_task
from lmeval.bigbench.shim.modules import TaskModules

# The walls are those of the sandbox. Its public interface runs a piece of code at a time, and these
# tasks bring their own way of doing that.
from lmeval.sandbox import _lockdown

_SCORE_FIELDS = (
    "score_dict",
    "preferred_score",
    "number_of_shots",
    "low_score",
    "high_score",
    "subtask_description",
)
_ALL_CPU_SECONDS = 3600.0
_REPEAT_S = 0.05


class _TimeUp(BaseException):
    """Model-written code has run for too long in a `_Process`."""


class _SilentModel(Model):
    """Answers nothing, counts how often it is asked and keeps the patterns it is asked with."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.patterns: set[str] = set()

    def model_data(self) -> ModelData:
        return ModelData("silent", "silent")

    def generate_text(
        self,
        inputs: Any,
        max_length: Any = None,
        stop_string: Any = None,
        output_regex: str | None = None,
    ) -> Any:
        self.n_asked += 1
        if output_regex is not None:
            self.patterns.add(output_regex)
        return "" if isinstance(inputs, str) else [""] * len(inputs)

    def cond_log_prob(self, inputs: Any, targets: Any, *_: Any, **__: Any) -> Any:
        self.n_asked += 1
        one = isinstance(inputs, str)
        rows = [
            [math.log(1 / len(wanted))] * len(wanted) for wanted in ([targets] if one else targets)
        ]
        return rows[0] if one else rows


class _RemoteModel(Model):
    """Asks lmeval's process."""

    def __init__(self, talk: Callable[[Mapping[str, Any]], Any], watch: _Watch) -> None:
        self._talk = talk
        self._watch = watch

    def model_data(self) -> ModelData:
        return ModelData("remote", "remote")

    def generate_text(self, inputs: Any, *limits: Any) -> Any:
        return self._ask("generate_text", inputs, *limits)

    def cond_log_prob(self, inputs: Any, *rest: Any) -> Any:
        return self._ask("cond_log_prob", inputs, *rest)

    def _ask(self, function: str, *arguments: Any) -> Any:
        self._watch.stop()
        answer = self._talk({"ask": function, "arguments": arguments})
        self._watch.start()
        return answer


class _Watch:
    """Interrupts code that computes for too long between two questions to the model."""

    def __init__(self, cpu_s: float) -> None:
        self._cpu_s = cpu_s
        signal.signal(signal.SIGVTALRM, self._interrupt)

    def start(self, cpu_s: float | None = None, error: BaseException | None = None) -> None:
        self._error = error or TimeoutError(f"computed for more than {self._cpu_s:g} s")
        # Again and again, since the code may swallow it.
        signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s or self._cpu_s, _REPEAT_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        raise self._error


def _multiprocessing(watch: _Watch) -> ModuleType:
    """A `multiprocessing` that runs its processes in this one: there can be no others."""

    class Process:
        def __init__(self, target: Callable[..., Any], args: Sequence[Any] = ()) -> None:
            self._run: Callable[[], Any] | None = lambda: target(*args)
            self.exitcode: int | None = None

        def start(self) -> None:
            pass

        def join(self, timeout: float | None = None) -> None:
            run, self._run = self._run, None
            if run is None:
                return
            watch.start(timeout, _TimeUp())
            try:
                run()
                self.exitcode = 0
            except _TimeUp:
                self.exitcode = -signal.SIGTERM
            finally:
                watch.start()

        def is_alive(self) -> bool:
            return self._run is not None

    class End:
        def __init__(self, queue: deque[Any]) -> None:
            self._queue = queue
            self.send = queue.append

        def recv(self) -> Any:
            if not self._queue:
                raise EOFError
            return self._queue.popleft()

    def pipe(duplex: bool = True) -> tuple[End, End]:
        queue: deque[Any] = deque()
        return End(queue), End(queue)

    module = ModuleType("multiprocessing")
    module.Process, module.Pipe = Process, pipe  # type: ignore[attr-defined]
    return module


class _LoadedTask:
    """A task whose modules are all imported."""

    def __init__(self, folder: Path, seed: int, wishes: Mapping[str, int]) -> None:
        self._folder = folder
        self._seed = seed
        self._wishes = wishes
        self._modules = TaskModules(folder.parent)
        self._task = self._make([])

    def _make(self, further_modules: Sequence[str]) -> Task:
        with self._modules.installed(self._seed):
            module = importlib.import_module(f"bigbench.benchmark_tasks.{self._folder.name}.task")
            for name in further_modules:
                importlib.import_module(name)
            return make_task(module)

    def try_out(self) -> _SilentModel:
        """Run with empty answers, then load all that this has imported anew.

        Returns:
          The model that the task asked.
        """
        model = _SilentModel()
        self.run(model)
        imported = self._modules.own_names()
        self._modules = TaskModules(self._folder.parent)
        self._task = self._make(imported)
        return model

    def run(self, model: Model) -> list[ScoreData]:
        with self._modules.installed(self._seed):
            scores: Any = self._task.evaluate_model(ProgramModel(model), **self._wishes)
        return list(scores) if isinstance(scores, (list, tuple)) else [scores]


def _lock_down(parent: int, memory_mb: int, stack_mb: int, needs_filter: bool) -> None:
    size = _lockdown.address_space()
    _lockdown.drop_root()
    _lockdown.die_with_parent(parent)  # after it: a change of user takes this away again
    _lockdown.limit_worker(stack_mb)
    if _lockdown.LINUX:
        _lockdown.forbid_new_privileges()
        _lockdown.hide_memory()
    _lockdown.deny_files_and_network()
    memory = None if size is None else size + (memory_mb << 20)
    _lockdown.limit_child(_ALL_CPU_SECONDS, memory, descriptors=0)
    if needs_filter:
        _lockdown.SystemCallFilter().install()
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return
        raise OSError("files can still be opened")


def _lines(descriptor: int) -> Iterator[bytes]:
    text = b""
    while block := os.read(descriptor, 1 << 16):
        text += block
        while (end := text.find(b"\n")) >= 0:
            yield text[:end]
            text = text[end + 1 :]
    # lmeval has hung up.
    os._exit(1)


def main() -> None:
    """Run the task that the first line on standard input describes."""
    incoming = _lines(0)
    outgoing = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def send(message: Mapping[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(outgoing, data) :]

    def talk(message: Mapping[str, Any]) -> Any:
        send(message)
        return json.loads(next(incoming))["answer"]

    try:
        scores = _run(json.loads(next(incoming)), talk)
    except Exception as error:  # a task may raise anything
        send({"failed": f"{type(error).__name__}: {error}"})
    else:
        send({"scores": _plain(scores)})


def _run(job: Mapping[str, Any], talk: Callable[[Mapping[str, Any]], Any]) -> list[dict[str, Any]]:
    watch = _Watch(job["cpu_s"])
    sys.modules["multiprocessing"] = _multiprocessing(watch)
    task = _LoadedTask(Path(job["folder"]), job["seed"], job["wishes"])
    trial = task.try_out()
    watch.stop()
    _lock_down(job["parent"], job["memory_mb"], job["stack_mb"], job["needs_filter"])
    talk({"ready": trial.n_asked, "patterns": sorted(trial.patterns)})
    scores = task.run(_RemoteModel(talk, watch))
    watch.stop()
    return [{name: getattr(score, name) for name in _SCORE_FIELDS} for score in scores]


def _plain(value: Any) -> Any:
    """The value with numpy's numbers as Python's."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return value.item() if hasattr(value, "item") else value


if __name__ == "__main__":
    main()
