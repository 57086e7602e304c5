# SPDX-License-Identifier: Apache-2.0
"""What a run that executes code says of it, in the table and in the file."""

import io
import json

import attrs
import pytest

from lmeval import read_leaderboard
from lmeval.cli.report import print_leaderboard

ROWS = [
    ("right", "def f(x): return x + 1"),
    ("wrong", "def f(x): return x"),
    ("raises", "def f(x): return 1 / 0"),
    ("forbidden", "import os"),
]


@pytest.fixture
def board(lmeval):
    folder = lmeval.folder / "tasks" / "plus-one"
    folder.mkdir(parents=True)
    with open(folder / "task.jsonl", "w") as task, open(lmeval.folder / "a.jsonl", "w") as answers:
        for name, code in ROWS:
            row = {"id": name, "prompt": name, "targets": ["ok"], "metric": "code_exec"}
            task.write(json.dumps({**row, "extras": {"io_pairs": [[1, 2]]}}) + "\n")
            answers.write(json.dumps({"task": "plus-one", "id": name, "prediction": code}) + "\n")
    arguments = ["--tasks_dir", "tasks", "--task", "plus-one", "--model", "replay"]
    arguments += ["--model_args", "path=a.jsonl", "--include_per_example", "--allow_code_exec"]
    assert lmeval("evaluate", *arguments) == 0
    return read_leaderboard(lmeval.folder / "leaderboard.json")


def test_outcomes_are_counted_and_printed(lmeval, board):
    (task,) = board.tasks
    assert (task.score, task.isolation) == (0.25, "required")
    assert task.outcomes == {"ok": 2, "error": 1, "forbidden": 1}
    assert "plus-one: code ended 2 ok, 1 error, 1 forbidden" in lmeval.out
    assert "reduced" not in lmeval.out


def test_reduced_isolation_is_marked(board):
    out = io.StringIO()
    reduced = attrs.evolve(board.tasks[0], isolation="reduced")
    print_leaderboard(attrs.evolve(board, tasks=(reduced,)), out)
    assert "code_exec (reduced)" in out.getvalue()
    assert "Code ran with reduced isolation" in out.getvalue()
