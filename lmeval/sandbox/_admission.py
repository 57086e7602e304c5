# SPDX-License-Identifier: Apache-2.0
"""Decides whether a worker that has started may be trusted with scores."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from lmeval.sandbox._selftest import BLOCKED
from lmeval.sandbox._types import Job, SandboxUnavailable, Verdict

_REMEDY = (
    "run lmeval on Linux (x86_64 or aarch64; a container will do), or ask for "
    "--code_exec_isolation=reduced, which leaves your files and network open to the code"
)

CANARIES: tuple[tuple[Job, float], ...] = (
    (Job("def f(x):\n    return x * 2\n", [1, 3], [[2], [6]]), 1.0),
    (Job("def f(x):\n    return 0\n", [1, 3], [[2], [6]]), 0.0),
    (Job("def f(x):\n    return x * 2\n", mode="tests", tests="assert f(3) == 6"), 1.0),
    (Job("def f(x):\n    return 0\n", mode="tests", tests="assert f(3) == 6"), 0.0),
)
"""Jobs with known scores. A harness that never runs the tests gives the wrong ones full marks."""


def check_platform(isolation: str) -> None:
    """Refuses where no worker can hold, before one is started.

    Raises:
      SandboxUnavailable: the platform lacks what the isolation needs.
    """
    if sys.platform == "win32":
        raise SandboxUnavailable(
            "code_exec can't run on Windows, which has no fork: run lmeval under Linux, WSL 2 or "
            "in a Linux container."
        )
    if sys.platform != "linux" and isolation == "required":
        raise SandboxUnavailable(
            f"code_exec needs Linux's seccomp, which {sys.platform} lacks: {_REMEDY}."
        )


def check_walls(facts: Mapping[str, Any], isolation: str) -> None:
    """Refuses a worker whose walls do not hold.

    Args:
      facts: what the worker found, by trying.
      isolation: `required` or `reduced`; the latter accepts what there is.

    Raises:
      SandboxUnavailable: `required`, and something forbidden got through.
    """
    if isolation != "required":
        return
    if not facts["seccomp"]:
        raise SandboxUnavailable(
            f"code_exec needs a seccomp filter, which could not be installed "
            f"({facts['seccomp_fault']}): {_REMEDY}."
        )
    open_doors = [
        f"{name}: {result}" for name, result in facts["selftest"].items() if result != BLOCKED
    ]
    if open_doors:
        raise SandboxUnavailable(
            "code_exec's self-test found that the sandbox does not hold "
            f"({', '.join(open_doors)}): {_REMEDY}."
        )


def check_canaries(verdicts: list[Verdict]) -> None:
    """Refuses a harness that can't tell right from wrong code.

    Args:
      verdicts: those of `CANARIES`, in order.

    Raises:
      SandboxUnavailable: a canary got another score than it must.
    """
    for (job, score), verdict in zip(CANARIES, verdicts, strict=True):
        if verdict.score != score:
            raise SandboxUnavailable(
                f"code_exec's check of itself failed: known {'right' if score else 'wrong'} code "
                f"in mode {job.mode} scored {verdict.score:g} ({verdict.outcome} "
                f"{verdict.detail}); please report this as a bug of lmeval."
            )
