# SPDX-License-Identifier: Apache-2.0
"""The filter, interpreted for every call number that the kernel's headers know."""

import json
import os
import pathlib
import struct

import pytest

from lmeval.sandbox import Job, _seccomp

# Names and numbers of all system calls, taken from the headers of Linux 6.1.
SYSTEM_CALLS = json.loads(pathlib.Path(__file__).with_name("system_calls.json").read_text())


def _names(text: str) -> set[str]:
    return set(text.split())


ALLOWED = _names(
    """
    read write close fstat lseek munmap brk mremap madvise rt_sigaction rt_sigprocmask rt_sigreturn
    rt_sigsuspend rt_sigpending sigaltstack futex clock_gettime clock_getres clock_nanosleep
    gettimeofday time nanosleep getpid gettid getrandom exit exit_group sched_yield
    restart_syscall poll ppoll select pselect6 getrusage times getuid geteuid getgid getegid uname
    getcpu rseq set_robust_list membarrier sched_getaffinity setitimer getitimer alarm pause
    """
)
DEADLY = _names(
    """
    execve execveat fork vfork clone clone3 ptrace process_vm_readv process_vm_writev socket
    socketpair connect accept accept4 bind listen sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg
    kill tkill rt_sigqueueinfo pidfd_open pidfd_getfd pidfd_send_signal unshare setns mount umount2
    move_mount fsopen fsmount pivot_root chroot bpf io_uring_setup userfaultfd keyctl add_key
    request_key memfd_create prctl seccomp setuid setgid setreuid setregid setresuid setresgid
    setgroups capset personality open_by_handle_at
    """
)
MACHINES = ("x86_64", "aarch64")
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
ALLOW, DENY, KILL = 0x7FFF0000, 0x00050001, 0x80000000


def interpret(program: bytes, nr: int, arch: int, args: tuple[int, ...] = (0,) * 6) -> int:
    """What a filter returns for one call: the few instructions of classic BPF that filters use."""
    data = struct.pack("<iIQ6Q", nr, arch, 0, *args)
    at = accumulator = steps = 0
    while True:
        steps += 1
        assert steps <= len(program) // 8
        code, if_true, if_false, constant = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return constant
        if code == 0x20:
            assert constant % 4 == 0 and constant <= len(data) - 4
            (accumulator,) = struct.unpack_from("<I", data, constant)
            continue
        holds = {
            0x15: accumulator == constant,
            0x35: accumulator >= constant,
            0x45: bool(accumulator & constant),
        }[code]
        at += if_true if holds else if_false


@pytest.fixture(params=MACHINES)
def machine(request):
    return request.param


@pytest.fixture
def verdict_on(machine):
    program = _seccomp.build_filter(machine)
    return lambda name, *args: interpret(
        program, SYSTEM_CALLS[machine][name], ARCH[machine], (*args, *(0,) * (6 - len(args)))
    )


def test_every_call_gets_its_verdict(machine, verdict_on):
    by_argument = {"mmap", "mprotect", "prlimit64"}
    for name in SYSTEM_CALLS[machine].keys() - by_argument:
        verdict = verdict_on(name)
        if name in ALLOWED:
            assert verdict == ALLOW, name
        elif name in DEADLY:
            assert verdict == KILL, name
        else:
            assert verdict in (DENY, KILL), name


def test_the_numbers_are_those_of_the_kernel_headers(machine):
    tables = (_seccomp.allowed(machine), _seccomp.fatal(machine), _seccomp.by_argument(machine))
    for table in tables:
        for name, number in table.items():
            assert SYSTEM_CALLS[machine][name] == number, name


@pytest.mark.parametrize("name", ["openat", "unlinkat", "mkdirat", "fchmodat", "statx", "ioctl"])
def test_files_are_denied_with_an_error_that_python_can_raise(verdict_on, name):
    assert verdict_on(name) == DENY


def test_signals_by_tgkill_are_denied_not_deadly(verdict_on):
    # abort() uses it; a crash is no attack
    assert verdict_on("tgkill") == DENY


@pytest.mark.parametrize("name", ["mmap", "mprotect"])
@pytest.mark.parametrize("protection", range(16))
def test_memory_is_never_executable(verdict_on, name, protection):
    expected = DENY if protection & 4 else ALLOW
    assert verdict_on(name, 0, 4096, protection) == expected
    assert verdict_on(name, 2**64 - 1, 2**64 - 1, protection | 2**32) == expected


@pytest.mark.parametrize(
    ("new_limit", "expected"),
    [(0, ALLOW), (1, DENY), (2**32 - 1, DENY), (2**32, DENY), (2**63, DENY), (2**64 - 1, DENY)],
)
def test_limits_can_be_read_but_not_set(verdict_on, new_limit, expected):
    assert verdict_on("prlimit64", 0, 7, new_limit, 2**47) == expected


@pytest.mark.parametrize("arch", [I386, 0, 0xFFFFFFFF, ARCH["x86_64"], ARCH["aarch64"]])
def test_calls_in_another_machines_way_are_deadly(machine, arch):
    program = _seccomp.build_filter(machine)
    read = SYSTEM_CALLS[machine]["read"]
    assert interpret(program, read, arch) == (ALLOW if arch == ARCH[machine] else KILL)


@pytest.mark.parametrize("nr", [0x40000000, 0x40000000 + 1, 0x7FFFFFFF, -1, -(2**31)])
def test_x32_and_negative_numbers_are_deadly(machine, nr):
    assert interpret(_seccomp.build_filter(machine), nr, ARCH[machine]) == KILL


def test_calls_of_future_kernels_are_denied(machine):
    program = _seccomp.build_filter(machine)
    for nr in [*range(470, 1200), 0x3FFFFFFF]:
        assert interpret(program, nr, ARCH[machine]) == DENY


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(KeyError):
        _seccomp.build_filter("riscv64")


# Calls the kernel directly, past everything that Python would check.
RAW_CALLS = """
import sys
ctypes = sys.modules['ctypes']
libc = ctypes.CDLL(None, use_errno=True)
def f(number):
    ctypes.set_errno(0)
    return [libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno()]
"""


def test_the_kernel_denies_what_the_filter_denies(sandbox):
    machine = os.uname().machine
    program = _seccomp.build_filter(machine)
    numbers = SYSTEM_CALLS[machine].values()
    verdicts = {number: interpret(program, number, ARCH[machine]) for number in numbers}
    denied = [number for number in numbers if verdicts[number] == DENY]
    deadly = [number for number in numbers if verdicts[number] == KILL]
    assert len(denied) > 150 and len(deadly) > 60
    jobs = [Job(RAW_CALLS, denied, [[[-1, 1]]] * len(denied))]
    jobs += [Job(RAW_CALLS, [number], [[[-1, 1]]]) for number in deadly]
    first, *others = sandbox.evaluate(jobs)
    assert first.score == 1.0, first
    assert {verdict.outcome for verdict in others} == {"forbidden"}
