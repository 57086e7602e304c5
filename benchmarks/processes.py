# SPDX-License-Identifier: Apache-2.0
"""What the scripts beside this one share: running a program and reading what it cost."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]


@attrs.frozen
class Cost:
    """What a process used, its children included."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def run(arguments: Sequence[str], folder: Path | None = None) -> Cost:
    """Run a program to its end and measure it; a failure ends the benchmark with its output."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode != 0:
        sys.exit(f"{' '.join(arguments)} failed:\n{output.decode(errors='replace')}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def run_python(*arguments: str, folder: Path | None = None) -> Cost:
    """Run this Python with arguments."""
    return run([sys.executable, *arguments], folder)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure by itself."""
    return Cost(
        statistics.median(cost.cpu_s for cost in costs),
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.peak_mb for cost in costs),
    )


def print_rows(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print an aligned table."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    for row in [headers, ["-" * width for width in widths], *rows]:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
