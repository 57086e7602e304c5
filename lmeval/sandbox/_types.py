# SPDX-License-Identifier: Apache-2.0
"""What goes into the sandbox and what comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["value", "stdout", "program", "tests"]
Outcome = Literal["ok", "error", "output_limit", "timeout", "memory", "forbidden"]
PairStatus = Literal["matched", "mismatch", "unencodable", "error", "no_answer"]

OUTCOMES: tuple[Outcome, ...] = (
    "ok",
    "error",
    "output_limit",
    "timeout",
    "memory",
    "forbidden",
)
"""Every outcome of a job, from best to worst."""


class SandboxUnavailable(RuntimeError):
    """The sandbox can't hold here, so nothing was run; the text says why and what to do."""


class SandboxError(RuntimeError):
    """The sandbox itself failed, twice on one job, which has no verdict and must not be scored."""


@dataclass(frozen=True)
class Limits:
    """What one prediction may use. All its pairs together count, unless said otherwise.

    Attributes:
      cpu_s: CPU time in seconds. It does not depend on how busy the machine is.
      wall_s: time by the clock in seconds, waiting included. Raise this one, not `cpu_s`, on a busy
        machine.
      memory_mb: address space in MiB on top of the bare interpreter's.
      result_bytes: what it may answer in total, encoded as JSON.
      stdout_bytes: what it may print per pair where output is compared.
      source_bytes: length of the code.
      stack_mb: the C stack in MiB.

    Raises:
      ValueError: a limit that is too low to tell slow code from a busy machine, or to run at all.
    """

    cpu_s: float = 5.0
    wall_s: float = 10.0
    memory_mb: int = 256
    result_bytes: int = 1 << 20
    stdout_bytes: int = 64 << 10
    source_bytes: int = 1 << 20
    stack_mb: int = 64

    def __post_init__(self) -> None:
        # Lower times would make scores depend on the load of the machine.
        seconds = {"cpu_s": 0.2, "wall_s": 1.0}
        whole = {
            "memory_mb": 16,
            "result_bytes": 1024,
            "stdout_bytes": 1,
            "source_bytes": 1,
            "stack_mb": 1,
        }
        for name, least in {**seconds, **whole}.items():
            value = getattr(self, name)
            kinds = (int, float) if name in seconds else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds):
                expected = "a number" if name in seconds else "a whole number"
                raise ValueError(f"'{name}' must be {expected} (got {value!r}).")
            if not math.isfinite(value) or value < least:
                raise ValueError(f"'{name}' must be at least {least} (got {value!r}).")


@dataclass(frozen=True)
class Job:
    """One prediction to run.

    Attributes:
      code: Python source; see `extract_source` for getting it out of a model's answer.
      inputs: in modes `value` and `stdout` the arguments of the calls `f(x)`, as JSON values; in
        mode `program` the texts given on standard input, one run of the whole code each.
      accepted: for each input the answers that count as right, as JSON values. They never leave
        this process.
      mode: `value` compares what `f(x)` returns; `stdout` what it prints; `program` what the code
        prints; `tests` runs `tests` after the code in the same namespace, as one pair.
      tests: statements that raise if the code is wrong; only in mode `tests`.
    """

    code: str
    inputs: Sequence[Any] = ()
    accepted: Sequence[Sequence[Any]] = ()
    mode: Mode = "value"
    tests: str = ""

    def __post_init__(self) -> None:
        if self.mode not in ("value", "stdout", "program", "tests"):
            raise ValueError(f"'mode' must be value, stdout, program or tests (got {self.mode!r}).")
        if self.mode == "tests":
            if self.inputs or self.accepted or not self.tests.strip():
                raise ValueError("a job of mode tests needs 'tests', and no inputs or answers.")
        elif self.tests:
            raise ValueError(f"'tests' has no meaning in mode {self.mode}.")
        elif not self.inputs or len(self.inputs) != len(self.accepted):
            raise ValueError(
                f"a job needs one set of accepted answers per input "
                f"(got {len(self.inputs)} inputs and {len(self.accepted)} sets)."
            )
        elif self.mode == "program" and not all(isinstance(text, str) for text in self.inputs):
            raise ValueError("in mode program each input is the text for standard input.")


@dataclass(frozen=True)
class Verdict:
    """What came of one job.

    Attributes:
      outcome: how it went, the worst that happened. Not the score: wrong answers given in good
        order are `ok`.
      pairs: one status per input, in order (a single one in mode `tests`).
      detail: a short text for people, "" when there is nothing to say.
    """

    outcome: Outcome
    pairs: tuple[PairStatus, ...]
    detail: str = ""

    @property
    def score(self) -> float:
        """The share of pairs that matched, in [0, 1], whatever the outcome."""
        return self.pairs.count("matched") / len(self.pairs)
