# SPDX-License-Identifier: Apache-2.0
"""lmeval's own work per example: `python benchmarks/overhead.py [rows] [repetitions]`.

A model that answers at once, exact_match, the whole `lmeval evaluate`: load, prompt, ask, score,
record. The figure per row is the difference to a run of ten rows. Where lm_eval is installed, it
runs the same rows with its dummy model.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from processes import Cost, median, print_rows, run_python

MAIN = "from lmeval.cli.main import console; console()"
ADAPTER = """
import uuid
class Instant:
    name = "instant"
    def fingerprint(self):
        return uuid.uuid4().hex  # so that no run finds another's answers
    def generate(self, prompts):
        return ["7"] * len(prompts)
"""
PEER_TASK = """
task: big_{rows}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs: {{until: ["\\n"]}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


def write_rows(folder: Path, count: int) -> Path:
    path = folder / f"big_{count}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {
                "id": f"r{number:07d}",
                "prompt": f"compute: {number} + {number + 1}; answer with the number alone, please",
                "targets": [str(2 * number + 1)],
                "metric": "exact_match",
            }
            file.write(json.dumps(row) + "\n")
    return path


def run_lmeval(folder: Path, rows: int, *flags: str) -> Cost:
    return run_python(
        *("-c", MAIN, "evaluate", "--tasks_dir", ".", "--task", f"big_{rows}"),
        *("--model", "instant.py:Instant", "--overwrite", "--quiet", *flags),
        folder=folder,
    )


def run_peer(folder: Path, rows: int) -> Cost:
    peer = folder / "peer"
    peer.mkdir(exist_ok=True)
    data = peer / f"rows_{rows}.jsonl"
    if not data.exists():
        with data.open("w", encoding="utf-8") as file:
            for line in (folder / f"big_{rows}.jsonl").read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                pair = {"prompt": row["prompt"], "target": row["targets"][0]}
                file.write(json.dumps(pair) + "\n")
        task = PEER_TASK.format(rows=rows, file=data)
        (peer / f"big_{rows}.yaml").write_text(task, encoding="utf-8")
    return run_python(
        *("-m", "lm_eval", "run", "--model", "dummy", "--tasks", f"big_{rows}"),
        *("--include_path", str(peer)),
        folder=folder,
    )


def main(rows: int = 10_000, repetitions: int = 5) -> None:
    programs: dict[str, Callable[[Path, int], Cost]] = {
        "lmeval, answers stored": lambda folder, n: run_lmeval(folder, n, "--cache_dir", "store"),
        "lmeval, no store": lambda folder, n: run_lmeval(folder, n, "--nocache"),
        "lmeval, with every answer written": lambda folder, n: run_lmeval(
            folder, n, "--nocache", "--include_per_example"
        ),
    }
    if importlib.util.find_spec("lm_eval"):
        programs["lm_eval, dummy model"] = run_peer
    table = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "instant.py").write_text(ADAPTER, encoding="utf-8")
        for count in (10, rows):
            write_rows(folder, count)
        for label, program in programs.items():
            few = median([program(folder, 10) for _ in range(repetitions)])
            many = median([program(folder, rows) for _ in range(repetitions)])
            per_row = (many.cpu_s - few.cpu_s) / (rows - 10) * 1e6
            table.append(
                [
                    label,
                    f"{per_row:.1f}",
                    f"{few.cpu_s:.2f}",
                    f"{many.cpu_s:.2f}",
                    f"{many.wall_s:.2f}",
                    f"{many.peak_mb:.0f}",
                ]
            )
    headers = ["program", "CPU µs a row", "CPU s, 10 rows", f"CPU s, {rows:,}", "wall s", "peak MB"]
    print_rows(headers, table)
    print("\ntarget: under 20 µs a row, the whole process under 1 s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
