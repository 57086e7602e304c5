# SPDX-License-Identifier: Apache-2.0
"""`lmeval new`: a task folder that runs at once, to be filled with the user's own examples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TextIO

from absl import flags

from lmeval.api.errors import UsageError

USAGE = "new NAME [--kind jsonl|python] [--tasks_dir DIR]"
HELP = "Make a task folder that runs at once."

_ROWS = """\
# One JSON object a line; lines that begin with # and blank lines are skipped.
{"id": "add-1", "prompt": "compute: 2 + 3", "targets": ["5"], "metric": "exact_match"}
{"id": "add-2", "prompt": "compute: 7 + 8", "targets": ["15"], "metric": "exact_match"}
{"id": "multiply-1", "prompt": "compute: 6 * 7", "targets": ["42"], "metric": "exact_match"}
"""

_PROGRAM = '''\
"""@NAME@: replace this with what your task asks."""

import random

from lmeval import ExampleScore, ScoreData, Task, TaskMetadata, get_metric


class @CLASS@(Task):
    """Sums of two small numbers, drawn from a seed."""

    def get_task_details(self):
        return TaskMetadata(
            name="@NAME@",
            description="Sums of two small numbers.",
            keywords=["arithmetic"],
            max_input_length_per_query=4,
            max_queries=20,
        )

    def evaluate_model(self, model, max_examples=20, random_seed=0):
        rng = random.Random(random_seed)
        pairs = [(rng.randrange(100), rng.randrange(100)) for _ in range(max_examples)]
        prompts = [f"compute: {a} + {b}" for a, b in pairs]
        answers = model.generate_text(prompts, stop_string="\\n")  # one call for all of them
        score = get_metric("exact_match")
        rows = [
            ExampleScore(
                id=f"sum-{number}",
                prompt=prompt,
                prediction=answer,
                targets=(str(a + b),),
                score=score(answer, [str(a + b)], {}),
                error=getattr(answer, "error", None),
            )
            for number, ((a, b), prompt, answer) in enumerate(zip(pairs, prompts, answers))
        ]
        return ScoreData(
            score_dict={"exact_match": sum(row.score for row in rows) / len(rows)},
            preferred_score="exact_match",
            number_of_shots=0,
            low_score=0.0,
            high_score=1.0,
            per_example=rows,
        )
'''


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""
    flags.DEFINE_enum(
        "kind", "jsonl", ["jsonl", "python"], "Rows in a file, or a class.", flag_values=flag_values
    )
    flags.DEFINE_string("tasks_dir", ".", "The folder to make it in.", flag_values=flag_values)


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Make the folder NAME with a task of the wanted kind."""
    if len(args) != 1:
        raise UsageError("new takes one name: lmeval new my_task --kind jsonl")
    name = args[0]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"{name!r} is no task name; use letters, digits, '_' and '-'.")
    folder = Path(flag_values.tasks_dir) / name
    files = _jsonl_files(name) if flag_values.kind == "jsonl" else _python_files(name)
    try:
        folder.mkdir(parents=True)
        for file_name, text in files.items():
            (folder / file_name).write_text(text, encoding="utf-8", newline="\n")
    except FileExistsError:
        raise UsageError(f"{folder} exists already; choose another name.") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.") from None
    print(f"Made {folder} with {' and '.join(files)}. Try it:\n", file=out)
    print(
        f"  lmeval evaluate --tasks_dir {flag_values.tasks_dir} --task {name} --model toy", file=out
    )
    print(f"  lmeval check {folder}", file=out)
    return 0


def _jsonl_files(name: str) -> dict[str, str]:
    settings = {
        "name": name,
        "description": "Small sums and products.",
        "keywords": ["arithmetic"],
    }
    return {"task.jsonl": _ROWS, "task.json": json.dumps(settings, indent=1) + "\n"}


def _python_files(name: str) -> dict[str, str]:
    words = re.split(r"[_-]+", name)
    class_name = "".join(word[:1].upper() + word[1:] for word in words) + "Task"
    if class_name[0].isdigit():
        class_name = f"Task{class_name}"
    return {"task.py": _PROGRAM.replace("@NAME@", name).replace("@CLASS@", class_name)}
