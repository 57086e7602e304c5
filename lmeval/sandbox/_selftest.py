# SPDX-License-Identifier: Apache-2.0
"""Tries the forbidden things under the full lock-down, each in a child of its own.

What counts is what happened, not what was set up: a filter that the kernel accepted and ignores is
found.
"""

from __future__ import annotations

import _socket
import errno
import mmap
import os
import signal
from collections.abc import Callable

BLOCKED = "blocked"
GOT_THROUGH = "got through"

_EXIT_GOT_THROUGH = 10
_EXIT_REFUSED = 11
_REFUSALS = (errno.EPERM, errno.EACCES)


def _try_open() -> None:
    os.open("/", os.O_RDONLY)


def _try_stat() -> None:
    os.stat("/")


def _try_unlink() -> None:
    os.unlink("/lmeval-selftest-no-such-file")


def _try_socket() -> None:
    _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)


def _try_udp() -> None:
    _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)


def _try_fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _try_exec() -> None:
    os.execv("/lmeval-selftest-no-such-file", ["no-such-file"])


def _try_kill() -> None:
    os.kill(os.getppid(), 0)


def _try_executable_memory() -> None:
    mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)


_PROBES: dict[str, Callable[[], None]] = {
    "open": _try_open,
    "stat": _try_stat,
    "unlink": _try_unlink,
    "socket": _try_socket,
    "udp": _try_udp,
    "fork": _try_fork,
    "exec": _try_exec,
    "kill": _try_kill,
    "executable_memory": _try_executable_memory,
}


def run(lock_down: Callable[[], None], memory_mb: int) -> dict[str, str]:
    """Runs every probe.

    Args:
      lock_down: what each child does first.
      memory_mb: the memory limit in MiB; the last probe asks for a gibibyte more.

    Returns:
      For each probe `BLOCKED`, `GOT_THROUGH`, or how its child ended if that tells neither.
    """

    def _try_memory() -> None:
        bytearray((memory_mb + 1024) << 20)

    probes = _PROBES | {"memory": _try_memory}
    return {name: _result(probe, lock_down) for name, probe in probes.items()}


def fault_of(action: Callable[[], None]) -> str:
    """Why an action fails when a child tries it, "" if it works."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
            os.write(writer, b"done")
        except OSError as error:
            os.write(writer, str(error.strerror).encode())
        finally:
            os._exit(0)
    os.close(writer)
    # A child that was killed writes nothing.
    told = os.read(reader, 200).decode() or "the child that tried it was killed"
    os.close(reader)
    os.waitpid(child, 0)
    return "" if told == "done" else told


def _result(probe: Callable[[], None], lock_down: Callable[[], None]) -> str:
    child = os.fork()
    if child == 0:
        _attempt(probe, lock_down)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
        return BLOCKED
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _EXIT_REFUSED:
        return BLOCKED
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _EXIT_GOT_THROUGH:
        return GOT_THROUGH
    return f"unclear (wait status {status})"


def _attempt(probe: Callable[[], None], lock_down: Callable[[], None]) -> None:
    code = 1
    try:
        lock_down()
        code = _EXIT_GOT_THROUGH
        probe()
    except MemoryError:
        code = _EXIT_REFUSED
    except OSError as error:
        # Any other fault, such as a missing file, means that the call was carried out.
        if error.errno in _REFUSALS:
            code = _EXIT_REFUSED
    finally:
        os._exit(code)
