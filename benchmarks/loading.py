# SPDX-License-Identifier: Apache-2.0
"""Time and memory of loading a large JSONL task: `python benchmarks/loading.py [rows]`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from processes import print_rows, run_python

LOAD = """
import sys
from pathlib import Path
from lmeval.api.options import TaskOptions
from lmeval.api.registry import content_hash, load_task, source_of
limit = int(sys.argv[2]) or None
path = Path(sys.argv[1])
task = load_task(source_of(path), TaskOptions(max_examples=limit))
content_hash(path)
print(len(task.examples))
"""


def main(rows: int = 1_000_000) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "large.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(rows):
                row = {
                    "id": f"row-{number:07d}",
                    "prompt": f"compute: {number} + {number + 1}; "
                    + "answer with the number. " * 2,
                    "targets": [str(2 * number + 1)],
                    "metric": "exact_match",
                }
                file.write(json.dumps(row) + "\n")
        size = path.stat().st_size / 1e6
        table = []
        for limit, target in ((0, "1,200"), (100, "150")):
            cost = run_python("-c", LOAD, str(path), str(limit))
            table.append(
                [
                    "all rows" if limit == 0 else f"--max_examples {limit}",
                    f"{cost.cpu_s:.2f}",
                    f"{cost.peak_mb:,.0f}",
                    target,
                ]
            )
        print(f"{rows:,} rows, {size:.0f} MB\n")
        print_rows(["loaded", "CPU s", "peak MB", "target MB"], table)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
