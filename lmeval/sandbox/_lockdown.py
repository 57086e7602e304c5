# SPDX-License-Identifier: Apache-2.0
"""The walls: seccomp, Landlock, resource limits, change of user; for the worker and its children.

Constants and layouts are those of the kernel's headers `linux/prctl.h`, `linux/seccomp.h` and
`linux/landlock.h`.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import resource
import signal
import struct
import sys

from lmeval.sandbox import _seccomp

LINUX = sys.platform == "linux"
NOBODY = 65534

_SIGKILL = int(signal.SIGKILL)
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION_QUERY = 1
# How many kinds of file access each version of Landlock can deny, from version 1 on.
_LANDLOCK_FILE_RIGHTS = (13, 14, 15, 15, 16)
_LANDLOCK_ABSENT = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)

_libc = ctypes.CDLL(None, use_errno=True)
if LINUX:
    _libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    _libc.syscall.restype = ctypes.c_long


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def _prctl(option: int, value: int, further: int = 0) -> None:
    if _libc.prctl(option, value, further, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def forbid_new_privileges() -> None:
    """Makes set-uid programs harmless; seccomp and Landlock ask for it.

    Raises:
      OSError: the kernel refuses.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def hide_memory() -> None:
    """Keeps other processes of the same user from tracing or reading this one."""
    _prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, which must have a single thread.

    To be called after `drop_root`: a change of user undoes it.
    """
    if LINUX:
        _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class SystemCallFilter:
    """The seccomp filter, built once in the worker, installed in each child."""

    def __init__(self) -> None:
        machine = os.uname().machine
        if not LINUX or machine not in _seccomp.AUDIT_ARCH or struct.calcsize("P") != 8:
            raise OSError(errno.ENOSYS, f"no system call table for {sys.platform} on {machine}")
        instructions = _seccomp.build_filter(machine)
        # Kept, since the program holds its bare address.
        self._instructions = ctypes.create_string_buffer(instructions, len(instructions))
        self._program = _FilterProgram(len(instructions) // 8, ctypes.addressof(self._instructions))
        self._address = ctypes.addressof(self._program)

    def install(self) -> None:
        """Puts this process under the filter, for good.

        Raises:
          OSError: the kernel has no seccomp filters or refuses.
        """
        _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, self._address)


def deny_files_and_network() -> int:
    """Lets Landlock deny every access it knows of, for this process and all its children.

    Returns:
      The version of Landlock's interface, 0 where the kernel has none.

    Raises:
      OSError: Landlock is there but fails.
    """
    if not LINUX:
        return 0
    version = _create_ruleset(b"", _LANDLOCK_VERSION_QUERY)
    if version < 1:
        return _absent_or_raise()
    file_rights = _LANDLOCK_FILE_RIGHTS[min(version, len(_LANDLOCK_FILE_RIGHTS)) - 1]
    handled = [(1 << file_rights) - 1]
    if version >= 4:
        handled.append(0b11)  # TCP bind and connect
    if version >= 6:
        handled.append(0b11)  # abstract sockets and signals out of the domain
    ruleset = _create_ruleset(struct.pack(f"={len(handled)}Q", *handled), 0)
    if ruleset < 0:
        return _absent_or_raise()
    try:
        if _libc.syscall(_LANDLOCK_RESTRICT_SELF, ctypes.c_long(ruleset), ctypes.c_long(0)) != 0:
            return _absent_or_raise()
    finally:
        os.close(ruleset)
    return version


def _create_ruleset(attributes: bytes, flags: int) -> int:
    return int(
        _libc.syscall(
            _LANDLOCK_CREATE_RULESET,
            attributes or None,
            ctypes.c_long(len(attributes)),
            ctypes.c_long(flags),
        )
    )


def _absent_or_raise() -> int:
    code = ctypes.get_errno()
    if code not in _LANDLOCK_ABSENT:
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return 0


def drop_root() -> None:
    """Turns root into nobody; a container's root that may not change user stays what it is."""
    if os.geteuid() != 0:
        return
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EINVAL):
            raise


def address_space() -> int | None:
    """The size of this process in bytes, None where the system does not say."""
    if not LINUX:
        return None
    with open("/proc/self/statm", encoding="ascii") as statistics:
        return int(statistics.read().split()[0]) * resource.getpagesize()


def limit_worker(stack_mb: int) -> None:
    """Limits that the worker itself can live with and its children inherit."""
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (_at_most(stack_mb << 20, hard), hard))


def child_limits(
    cpu_s: float, memory_bytes: int | None, descriptors: int
) -> list[tuple[int, tuple[int, int]]]:
    """Limits of a child as arguments for `resource.setrlimit`, so that each child only sets them.

    Args:
      cpu_s: CPU time. The worker also watches it, to the exact value; here it is whole seconds.
      memory_bytes: address space in all; None where it can't be known.
      descriptors: how many may be open.
    """
    seconds = math.ceil(cpu_s)
    wanted = {
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_NOFILE: (descriptors, descriptors),
        resource.RLIMIT_NPROC: (0, 0),
    }
    if memory_bytes is not None:
        wanted[resource.RLIMIT_AS] = (memory_bytes, memory_bytes)
    limits = []
    for kind, (soft, hard) in wanted.items():
        present = resource.getrlimit(kind)[1]
        limits.append((kind, (_at_most(soft, present), _at_most(hard, present))))
    return limits


def limit_child(cpu_s: float, memory_bytes: int | None, descriptors: int) -> None:
    """Sets `child_limits` on this process."""
    for kind, limit in child_limits(cpu_s, memory_bytes, descriptors):
        resource.setrlimit(kind, limit)


def _at_most(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
