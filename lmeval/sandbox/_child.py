# SPDX-License-Identifier: Apache-2.0
"""Runs one prediction in the locked-down child and writes its answers, one JSON object a line.

Nothing here is a wall: it gives honest code a familiar Python and clear errors. Whatever foreign
code does to these objects, it can only write answers, and it does not know the right ones.
"""

from __future__ import annotations

import builtins
import errno
import gc
import hashlib
import io
import json
import os
import random
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from lmeval.sandbox import _wire

ANSWER_DESCRIPTOR = 3
TOKEN_DESCRIPTOR = 4

_CODE_NAME = "<prediction>"
_TESTS_NAME = "<tests>"
_MESSAGE_LENGTH = 200

# Bound before foreign code runs, which may replace what the modules hold.
_exec = exec
_real_import = builtins.__import__
_exit = os._exit
_write = os.write
_read = os.read
_sha256 = hashlib.sha256
_encode = json.JSONEncoder().encode
# Not json.loads: each function that a child runs for the first time costs it copies of pages.
_decode = json.JSONDecoder().raw_decode

# Freed when memory runs out, so that the report of it has room. Untouched pages cost nothing.
_ballast = [bytearray(1 << 20)]

# C code imports through the `__import__` of whoever called it.
_IMPORTED_BY_C = frozenset(
    {
        "_strptime",
        "copyreg",
        "encodings",
        "linecache",
        "_io",
        "_warnings",
        "_collections_abc",
        "_weakrefset",
        "_pydatetime",
        "_pydecimal",
    }
)


class ForbiddenImport(ModuleNotFoundError):
    """A module outside the allow-list; an ImportError, so that code with a fallback takes it."""


class _LoadFailed(Exception):
    """The code could not be loaded; that has been reported."""


def send(answer: dict[str, Any]) -> None:
    """Writes one answer line; blocks while the worker is behind."""
    data = (_encode(answer) + "\n").encode()
    while data:
        data = data[_write(ANSWER_DESCRIPTOR, data) :]


class _Output(io.RawIOBase):
    """What is printed: thrown away, or kept up to a limit beyond which the child ends."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: bytearray | None = None
        self._pair = 0

    def start(self, pair: int) -> None:
        self._kept, self._pair = bytearray(), pair

    def take(self) -> str:
        kept, self._kept = self._kept, None
        return (kept or b"").decode(errors="replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = len(data)
        if self._kept is not None:
            self._kept += data
            if len(self._kept) > self._limit:
                message = f"printed more than {self._limit} bytes"
                send({"i": self._pair, "e": ["output_limit", "", message, ""]})
                _exit(0)
        return size


class Stage:
    """What foreign code finds around it. Set up once, in the worker: each child then inherits it.

    Args:
      allowed: top-level modules that the prediction may import.
      trusted: names of the modules that are loaded; what they import in turn goes through.
      stdout_bytes: how much may be printed per pair where that is kept.
    """

    def __init__(self, allowed: frozenset[str], trusted: frozenset[str], stdout_bytes: int) -> None:
        self._captured = _Output(stdout_bytes)
        self._text = _text_writer(self._captured)
        sys.stdout = sys.__stdout__ = self._text  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _text_writer(_Output(0))  # type: ignore[misc]
        sys.argv = ["prediction.py"]
        self.give_input("")
        builtins.__import__ = _guarded_import(allowed, trusted)
        builtins.open = io.open = _no_files
        _seed()

    def give_input(self, text: str) -> None:
        """Sets what the code can read from standard input."""
        data = io.BytesIO(text.encode("utf-8", "surrogatepass"))
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(data, encoding="utf-8")  # type: ignore[misc]

    def start(self, pair: int) -> None:
        """Keeps what is printed from now on for this pair; what came before belongs to none."""
        self._flush()
        self._captured.start(pair)

    def take(self) -> str:
        """What was printed since `start`."""
        self._flush()
        return self._captured.take()

    def _flush(self) -> None:
        # Code may close its standard output; what it had printed by then was flushed in closing.
        if not self._text.closed:
            self._text.flush()


def _text_writer(raw: _Output) -> io.TextIOWrapper:
    # Real text streams, since honest code writes to `sys.stdout.buffer`.
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", newline="\n"
    )


def run(body: bytes, stage: Stage) -> None:
    """Runs one job and reports it on the answer descriptor.

    Args:
      body: the job as JSON: `code`, `mode`, `inputs`, `tests`.
      stage: what the worker prepared.
    """
    job = _decode(body.decode())[0]
    code, mode = job["code"], job["mode"]
    gc.enable()
    _write(ANSWER_DESCRIPTOR, _wire.READY)
    try:
        if mode == "program":
            _run_program(code, job["inputs"], stage)
        elif mode == "tests":
            _run_tests(code, job["tests"])
        else:
            _run_function(code, job["inputs"], stage if mode == "stdout" else None)
    except _LoadFailed:
        pass
    send({"end": 1})


def _run_function(code: str, inputs: Iterable[Any], stage: Stage | None) -> None:
    namespace = _load(_compile(code, _CODE_NAME))
    if "f" not in namespace:
        _fail_load(["error", "NameError", "the code defines no f", ""])
    function = namespace["f"]
    for pair, argument in enumerate(inputs):
        if stage:
            stage.start(pair)
        try:
            value = function(argument)
        except BaseException as error:
            send({"i": pair, "e": _describe(error)})
            continue
        if stage:
            send({"i": pair, "v": stage.take()})
        else:
            _send_value(pair, value)


def _send_value(pair: int, value: Any) -> None:
    try:
        send({"i": pair, "v": value})
    except MemoryError as error:
        send({"i": pair, "e": _describe(error)})
    except BaseException as error:
        # Encoding runs foreign code too: an `items` of a dict's child class, for one.
        send({"i": pair, "u": [type(value).__name__, type(error).__name__]})


def _run_program(code: str, inputs: Iterable[str], stage: Stage) -> None:
    compiled = _compile(code, _CODE_NAME)
    for pair, text in enumerate(inputs):
        _seed()
        stage.give_input(text)
        stage.start(pair)
        try:
            _exec(compiled, _new_namespace("__main__"))
        except BaseException as error:
            if not (type(error) is SystemExit and error.code in (None, 0)):
                send({"i": pair, "e": _describe(error)})
                continue
        send({"i": pair, "v": stage.take()})


def _run_tests(code: str, tests: str) -> None:
    # Compiled first, so that the code can't change how its tests are compiled.
    compiled_tests = _compile(tests, _TESTS_NAME)
    namespace = _load(_compile(code, _CODE_NAME))
    try:
        _exec(compiled_tests, namespace)
    except AssertionError as error:
        send({"i": 0, "f": _describe(error)})
    except BaseException as error:
        send({"i": 0, "e": _describe(error)})
    else:
        # Read only now: while the code ran, the token was nowhere in this process's memory.
        token = _read(TOKEN_DESCRIPTOR, _wire.TOKEN_BYTES)
        send({"i": 0, "v": _sha256(token).hexdigest()})


def _compile(code: str, name: str) -> types.CodeType:
    try:
        return compile(code, name, "exec", dont_inherit=True)
    except BaseException as error:
        _fail_load(_describe(error))


def _load(compiled: types.CodeType) -> dict[str, Any]:
    # Not named __main__: what a main guard holds is not asked for.
    namespace = _new_namespace("prediction")
    try:
        _exec(compiled, namespace)
    except BaseException as error:
        _fail_load(_describe(error))
    return namespace


def _new_namespace(name: str) -> dict[str, Any]:
    # A real module: dataclasses and get_type_hints look it up in sys.modules.
    module = types.ModuleType(name)
    sys.modules[name] = module
    return module.__dict__


def _fail_load(fault: list[Any]) -> NoReturn:
    send({"load": fault})
    raise _LoadFailed


def _describe(error: BaseException) -> list[Any]:
    """Kind, type, message and place of an exception."""
    kind = "error"
    if isinstance(error, MemoryError):
        _ballast.clear()
        kind = "memory"
    elif isinstance(error, ForbiddenImport) or (
        isinstance(error, PermissionError) and error.errno in (errno.EPERM, errno.EACCES)
    ):
        kind = "forbidden"
    try:
        message = str(error)[:_MESSAGE_LENGTH]
    except BaseException:
        message = "(its text can't be had)"
    return [kind, type(error).__name__, message, _place(error)]


def _place(error: BaseException) -> str:
    """Where it happened: the innermost line of the code or of its tests."""
    place = f"line {error.lineno}" if type(error) is SyntaxError else ""
    step = error.__traceback__
    while step is not None:
        name = step.tb_frame.f_code.co_filename
        if name == _CODE_NAME:
            place = f"line {step.tb_lineno}"
        elif name == _TESTS_NAME:
            place = f"line {step.tb_lineno} of the tests"
        step = step.tb_next
    return place


def _seed() -> None:
    """The same prediction must get the same score each time."""
    random.seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)


def _guarded_import(allowed: frozenset[str], trusted: frozenset[str]) -> Callable[..., Any]:
    def guarded(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        importer = globals.get("__name__") if globals else None
        top = name.partition(".")[0]
        if importer in trusted or top in allowed or top in _IMPORTED_BY_C:
            return _real_import(name, globals, locals, fromlist, level)
        raise ForbiddenImport(f"importing {name!r} is not allowed", name=name)

    return guarded


def _no_files(file: Any, *_: Any, **__: Any) -> Any:
    raise PermissionError(errno.EPERM, "files are not available", str(file))
