# SPDX-License-Identifier: Apache-2.0
import json

TASK = {
    "canary": "none",
    "name": "sums",
    "description": "Add numbers.",
    "keywords": ["arithmetic"],
    "metrics": ["exact_str_match"],
    "preferred_score": "exact_str_match",
    "examples": [{"input": f"{i} + 1", "target": f"{i + 1}"} for i in range(4)],
}


def write_leaderboard(lmeval):
    folder = lmeval.folder / "tasks" / "sums"
    folder.mkdir(parents=True)
    (folder / "task.json").write_text(json.dumps(TASK))
    arguments = ("--tasks_dir", "tasks", "--task", "sums", "--model", "toy", "--shots", "0,2")
    assert lmeval("evaluate", *arguments, "--output", "board.json") == 0, lmeval.err


def test_a_run_becomes_bigbenchs_files(lmeval):
    write_leaderboard(lmeval)
    assert lmeval("export-bigbench", "board.json", "--output_dir", "out") == 0
    (file,) = (lmeval.folder / "out" / "sums" / "results").iterdir()
    assert lmeval.out == f"{file.relative_to(lmeval.folder)}\n"
    content = json.loads(file.read_text())
    assert content["task"] == {"task_name": "sums"}
    assert [score["number_of_shots"] for score in content["scores"]] == [0, 2]
    assert all("normalized_aggregate_score" in score["score_dict"] for score in content["scores"])


def test_an_older_file_is_mentioned(lmeval):
    write_leaderboard(lmeval)
    for _ in range(2):
        assert lmeval("export-bigbench", "board.json") == 0
    assert "backup_000001" in lmeval.out


def test_one_leaderboard_must_be_named(lmeval):
    assert lmeval("export-bigbench") == 2
    assert "takes one leaderboard" in lmeval.err
