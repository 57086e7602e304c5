# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

from lmeval.sandbox import Limits, Sandbox


def processes() -> dict[int, tuple[int, str]]:
    """Every process: its parent and its state (Z: ended, not yet reaped)."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(entry.name)] = (int(fields[1]), fields[0])
    return found


def descendants(pid: int) -> set[int]:
    """The living processes below one."""
    known = processes()
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, (parent, _) in known.items() if parent in level}
        found |= level
    return {child for child in found if known[child][1] != "Z"}


@pytest.fixture(scope="session")
def short() -> Limits:
    return Limits(cpu_s=1.0, wall_s=3.0)


@pytest.fixture(scope="session")
def sandbox(short):
    """A sandbox with one worker, so that each job follows the one before on the same worker."""
    with Sandbox(short, workers=1) as sandbox:
        yield sandbox
