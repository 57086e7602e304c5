# SPDX-License-Identifier: Apache-2.0
"""How long lmeval takes before it does anything: `python benchmarks/startup.py [repetitions]`.

CPU seconds are what counts on a busy machine; bare Python stands beside them for scale.
"""

from __future__ import annotations

import importlib.util
import sys

from processes import median, print_rows, run_python

MAIN = "from lmeval.cli.main import console; console()"
PROGRAMS = [
    ("python -c pass", ["-c", "pass"], None),
    ("import lmeval", ["-c", "import lmeval"], 0.06),
    ("lmeval --help", ["-c", MAIN, "--help"], 0.2),
    ("lmeval tasks", ["-c", MAIN, "tasks"], 0.3),
]
PEER_PROGRAMS = [
    ("import lm_eval", ["-c", "import lm_eval"], None),
    ("lm_eval --help", ["-m", "lm_eval", "--help"], None),
    ("lm_eval ls tasks", ["-m", "lm_eval", "ls", "tasks"], None),
]


def main(repetitions: int = 7) -> None:
    programs = list(PROGRAMS)
    if importlib.util.find_spec("lm_eval"):
        programs += PEER_PROGRAMS
    rows = []
    for name, arguments, target in programs:
        cost = median([run_python(*arguments) for _ in range(repetitions)])
        rows.append(
            [
                name,
                f"{cost.cpu_s:.3f}",
                f"{cost.wall_s:.3f}",
                f"{cost.peak_mb:.0f}",
                "-" if target is None else f"{target}",
            ]
        )
    print_rows(["what", "CPU s", "wall s", "peak MB", "target s"], rows)
    if len(programs) == len(PROGRAMS):
        print("\nlm_eval is not installed here, so it is not measured beside.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
