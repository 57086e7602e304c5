# SPDX-License-Identifier: Apache-2.0
"""Runs one prediction in the locked-down child.

Nothing here is a wall. Whatever foreign code does to these objects, it can only write answers, and
it does not know the right ones.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
import types
from collections.abc import Iterable
from typing import Any, NoReturn

from lmeval.sandbox import _wire
from lmeval.sandbox._answers import ANSWER_DESCRIPTOR, CODE_NAME, TESTS_NAME, describe, send
from lmeval.sandbox._stage import Stage, seed

TOKEN_DESCRIPTOR = 4

# Bound before foreign code runs, which may replace what the modules hold.
_exec = exec
_write = os.write
_read = os.read
_sha256 = hashlib.sha256
# Not json.loads: each function that a child runs for the first time costs it copies of pages.
_decode = json.JSONDecoder().raw_decode


class _LoadFailed(Exception):
    """The code could not be loaded; that has been reported."""


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
    namespace = _load(_compile(code, CODE_NAME))
    if "f" not in namespace:
        _fail_load(["error", "NameError", "the code defines no f", ""])
    function = namespace["f"]
    for pair, argument in enumerate(inputs):
        try:
            if stage:
                stage.start(pair)
            value = function(argument)
            if stage:
                value = stage.take()
        except BaseException as error:
            send({"i": pair, "e": describe(error)})
        else:
            _send_value(pair, value)


def _send_value(pair: int, value: Any) -> None:
    try:
        send({"i": pair, "v": value})
    except MemoryError as error:
        send({"i": pair, "e": describe(error)})
    except BaseException as error:
        # Encoding runs foreign code too: an `items` of a dict's child class, for one.
        send({"i": pair, "u": [type(value).__name__, type(error).__name__]})


def _run_program(code: str, inputs: Iterable[str], stage: Stage) -> None:
    compiled = _compile(code, CODE_NAME)
    for pair, text in enumerate(inputs):
        seed()
        stage.give_input(text)
        try:
            stage.start(pair)
            _run_to_the_end(compiled)
            _send_value(pair, stage.take())
        except BaseException as error:
            send({"i": pair, "e": describe(error)})


def _run_to_the_end(program: types.CodeType) -> None:
    try:
        _exec(program, _new_namespace("__main__"))
    except SystemExit as error:
        if error.code not in (None, 0):
            raise


def _run_tests(code: str, tests: str) -> None:
    # Compiled first, so that the code can't change how its tests are compiled.
    compiled_tests = _compile(tests, TESTS_NAME)
    namespace = _load(_compile(code, CODE_NAME))
    try:
        _exec(compiled_tests, namespace)
    except AssertionError as error:
        send({"i": 0, "f": describe(error)})
    except BaseException as error:
        send({"i": 0, "e": describe(error)})
    else:
        # Read only now: while the code ran, the token was nowhere in this process's memory.
        token = _read(TOKEN_DESCRIPTOR, _wire.TOKEN_BYTES)
        send({"i": 0, "v": _sha256(token).hexdigest()})


def _compile(code: str, name: str) -> types.CodeType:
    try:
        return compile(code, name, "exec", dont_inherit=True)
    except BaseException as error:
        _fail_load(describe(error))


def _load(compiled: types.CodeType) -> dict[str, Any]:
    # Not named __main__: what a main guard holds is not asked for.
    namespace = _new_namespace("prediction")
    try:
        _exec(compiled, namespace)
    except BaseException as error:
        _fail_load(describe(error))
    return namespace


def _new_namespace(name: str) -> dict[str, Any]:
    # A real module: dataclasses and get_type_hints look it up in sys.modules.
    module = types.ModuleType(name)
    sys.modules[name] = module
    return module.__dict__


def _fail_load(fault: list[Any]) -> NoReturn:
    send({"load": fault})
    raise _LoadFailed
