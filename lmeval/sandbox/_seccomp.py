# SPDX-License-Identifier: Apache-2.0
"""The seccomp filter that is the sandbox's wall: call tables and a builder of classic BPF.

Pure functions, so that a test can interpret the program for every call number. The numbers come
from the kernel's headers: `asm/unistd_64.h` (x86_64) and `asm-generic/unistd.h` (aarch64). The
layout of what a filter reads is `struct seccomp_data` of `linux/seccomp.h`.
"""

from __future__ import annotations

import errno
import itertools
import struct

ALLOW = 0x7FFF0000
KILL_PROCESS = 0x80000000
DENY = 0x00050000 | errno.EPERM

X86_64, AARCH64 = "x86_64", "aarch64"
AUDIT_ARCH = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
X32_FLAG = 0x40000000
PROT_EXEC = 0x4

# Each entry: name, number on x86_64, number on aarch64 ("-": the machine has no such call).
_ALLOWED = """
read 0 63, write 1 64, close 3 57, fstat 5 80, lseek 8 62, poll 7 -, ppoll 271 73, select 23 -,
pselect6 270 72, munmap 11 215, brk 12 214, mremap 25 216, madvise 28 233,
rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
rt_sigsuspend 130 133, sigaltstack 131 132, pause 34 -, alarm 37 -, getitimer 36 102,
setitimer 38 103, nanosleep 35 101, clock_nanosleep 230 115, clock_gettime 228 113,
clock_getres 229 114, gettimeofday 96 169, time 201 -, times 100 153, getrusage 98 165,
futex 202 98, set_robust_list 273 99, rseq 334 293, membarrier 324 283, sched_yield 24 124,
sched_getaffinity 204 123, getcpu 309 168, restart_syscall 219 128, getpid 39 172, gettid 186 178,
getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, uname 63 160,
getrandom 318 278, exit 60 93, exit_group 231 94
"""

# Calls that no honest prediction makes by accident: the process dies, which can't be caught or
# hidden.
_FATAL = """
execve 59 221, execveat 322 281, fork 57 -, vfork 58 -, clone 56 220, clone3 435 435,
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440,
process_mrelease 448 448, kill 62 129, tkill 200 130, rt_sigqueueinfo 129 138,
rt_tgsigqueueinfo 297 240, pidfd_open 434 434, pidfd_getfd 438 438, pidfd_send_signal 424 424,
socket 41 198, socketpair 53 199, connect 42 203, accept 43 202, accept4 288 242, bind 49 200,
listen 50 201, sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212, sendmmsg 307 269,
recvmmsg 299 243, shutdown 48 210, getsockname 51 204, getpeername 52 205, setsockopt 54 208,
getsockopt 55 209, unshare 272 97, setns 308 268, mount 165 40, umount2 166 39,
move_mount 429 429, open_tree 428 428, fsopen 430 430, fsconfig 431 431, fsmount 432 432,
fspick 433 433, mount_setattr 442 442, pivot_root 155 41, chroot 161 51, swapon 167 224,
swapoff 168 225, reboot 169 142, acct 163 89, quotactl 179 60, bpf 321 280,
perf_event_open 298 241, io_uring_setup 425 425, io_uring_enter 426 426,
io_uring_register 427 427, userfaultfd 323 282, keyctl 250 219, add_key 248 217,
request_key 249 218, memfd_create 319 279, memfd_secret 447 447, prctl 157 167,
arch_prctl 158 -, seccomp 317 277, landlock_create_ruleset 444 444, landlock_add_rule 445 445,
landlock_restrict_self 446 446, setuid 105 146, setgid 106 144, setreuid 113 145,
setregid 114 143, setresuid 117 147, setresgid 119 149, setgroups 116 159, setfsuid 122 151,
setfsgid 123 152, capset 126 91, personality 135 92, open_by_handle_at 304 265,
init_module 175 105, finit_module 313 273, delete_module 176 106, kexec_load 246 104,
kexec_file_load 320 294, modify_ldt 154 -, iopl 172 -, ioperm 173 -, settimeofday 164 170,
clock_settime 227 112
"""

# Allowed by argument: memory must not be executable, limits may be read but not changed.
_BY_ARGUMENT = "mmap 9 222, mprotect 10 226, prlimit64 302 261"

_LOAD_WORD = 0x20
_JUMP_EQUAL = 0x15
_JUMP_AT_LEAST = 0x35
_JUMP_ANY_BIT = 0x45
_RETURN = 0x06

_NR_OFFSET = 0
_ARCH_OFFSET = 4
# Both machines are little-endian, so the low half of an argument comes first.
_THIRD_ARGUMENT_LOW = 16 + 8 * 2
_THIRD_ARGUMENT_HIGH = _THIRD_ARGUMENT_LOW + 4

_Instruction = tuple[int, int, int, int]


def _numbers(table: str, machine: str) -> dict[str, int]:
    column = 1 + (machine == AARCH64)
    rows = (entry.split() for entry in table.split(","))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


def allowed(machine: str) -> dict[str, int]:
    """Names and numbers of the calls that pass whatever their arguments."""
    return _numbers(_ALLOWED, machine)


def fatal(machine: str) -> dict[str, int]:
    """Names and numbers of the calls that kill the process."""
    return _numbers(_FATAL, machine)


def by_argument(machine: str) -> dict[str, int]:
    """Names and numbers of the calls that pass only with harmless arguments."""
    return _numbers(_BY_ARGUMENT, machine)


def _return(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)


def _argument_rules(machine: str) -> list[_Instruction]:
    """Rules for `by_argument`; the call number must be loaded, and stays so for what follows."""
    number = by_argument(machine)
    program: list[_Instruction] = []
    for name in ("mmap", "mprotect"):
        program += [
            (_JUMP_EQUAL, 0, 4, number[name]),
            (_LOAD_WORD, 0, 0, _THIRD_ARGUMENT_LOW),
            (_JUMP_ANY_BIT, 0, 1, PROT_EXEC),
            _return(DENY),
            _return(ALLOW),
        ]
    return [
        *program,
        (_JUMP_EQUAL, 0, 6, number["prlimit64"]),
        (_LOAD_WORD, 0, 0, _THIRD_ARGUMENT_LOW),
        (_JUMP_EQUAL, 0, 3, 0),
        (_LOAD_WORD, 0, 0, _THIRD_ARGUMENT_HIGH),
        (_JUMP_EQUAL, 0, 1, 0),
        _return(ALLOW),
        _return(DENY),
    ]


def _intervals(machine: str) -> list[tuple[int, int]]:
    """(first call number, action) pairs: each action holds up to the next pair's number."""
    actions = dict.fromkeys(allowed(machine).values(), ALLOW)
    actions.update(dict.fromkeys(fatal(machine).values(), KILL_PROCESS))
    by_number = [(number, actions.get(number, DENY)) for number in range(max(actions) + 2)]
    runs = itertools.groupby(by_number, key=lambda pair: pair[1])
    return [*(next(run) for _, run in runs), (X32_FLAG, KILL_PROCESS)]


def _decision_tree(intervals: list[tuple[int, int]]) -> list[_Instruction]:
    """A binary search over the intervals.

    The kernel runs a new filter once for every call number, in order to remember what is always
    allowed. A search of depth 8 in place of a list of 100 comparisons makes each fork cheaper.
    """
    if len(intervals) == 1:
        return [_return(intervals[0][1])]
    middle = len(intervals) // 2
    low, high = _decision_tree(intervals[:middle]), _decision_tree(intervals[middle:])
    return [(_JUMP_AT_LEAST, len(low), 0, intervals[middle][0]), *low, *high]


def build_filter(machine: str) -> bytes:
    """The filter as an array of `struct sock_filter`.

    Args:
      machine: `X86_64` or `AARCH64`, as `os.uname().machine` names it.

    Returns:
      8 bytes per instruction.

    Raises:
      KeyError: there is no call table for the machine.
    """
    program = [
        (_LOAD_WORD, 0, 0, _ARCH_OFFSET),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]),
        _return(KILL_PROCESS),
        (_LOAD_WORD, 0, 0, _NR_OFFSET),
        *_argument_rules(machine),
        *_decision_tree(_intervals(machine)),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
