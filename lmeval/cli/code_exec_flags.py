# SPDX-License-Identifier: Apache-2.0
"""The flags that allow model-written code to run, and the sandbox that they describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from absl import flags

from lmeval.api.errors import UsageError
from lmeval.cli.flag_kinds import define_integer, define_joined_list

if TYPE_CHECKING:
    from lmeval.sandbox import Sandbox


LIMIT_FLAGS = (
    "code_exec_isolation",
    "code_exec_cpu_s",
    "code_exec_wall_s",
    "code_exec_memory_mb",
    "code_exec_modules",
)
"""Those of the flags that can change what code comes to."""


def define_code_exec_flags(values: flags.FlagValues) -> None:
    """Define `--allow_code_exec` and the flags that go with it."""
    flags.DEFINE_boolean(
        "allow_code_exec", False, "Run code that the model wrote, in a sandbox.", flag_values=values
    )
    flags.DEFINE_enum(
        "code_exec_isolation",
        "required",
        ["required", "reduced"],
        "What to do where the sandbox cannot hold: refuse, or run with less.",
        flag_values=values,
    )
    flags.DEFINE_float("code_exec_cpu_s", 5.0, "CPU seconds per answer.", flag_values=values)
    flags.DEFINE_float("code_exec_wall_s", 10.0, "Seconds per answer.", flag_values=values)
    define_integer(values, "code_exec_memory_mb", 256, "Memory per answer in MiB.", 16)
    define_integer(values, "code_exec_workers", None, "Sandbox workers (default: 2, or 1 core).", 1)
    define_joined_list(values, "code_exec_modules", [], "Further modules that code may import.")


def make_sandbox(values: flags.FlagValues) -> Sandbox | None:
    """The sandbox that the flags describe; None if code must not run.

    Raises:
      UsageError: a limit is out of range.
    """
    if not values.allow_code_exec:
        return None
    from lmeval.sandbox import Limits, Sandbox

    try:
        limits = Limits(
            cpu_s=values.code_exec_cpu_s,
            wall_s=values.code_exec_wall_s,
            memory_mb=values.code_exec_memory_mb,
        )
    except ValueError as error:
        raise UsageError(f"--code_exec_…: {error}") from None
    return Sandbox(
        limits=limits,
        isolation=values.code_exec_isolation,
        workers=values.code_exec_workers,
        extra_modules=tuple(values.code_exec_modules),
    )
