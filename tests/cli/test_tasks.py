# SPDX-License-Identifier: Apache-2.0
"""`lmeval tasks`, `lmeval new` and `lmeval check`."""

import json

import pytest

from lmeval.cli.check import read_keywords

SHIPPED = [
    "arithmetic",
    "boolean_expressions_generated",
    "code-exec",
    "generation",
    "list_functions_generated",
    "multiple-choice",
    "needle_retrieval",
    "ngram_overlap",
    "simple_arithmetic",
    "summary",
    "twenty_questions_numbers",
]


def test_the_shipped_tasks_are_listed(lmeval):
    assert lmeval("tasks") == 0
    lines = lmeval.out.splitlines()[2:]
    assert [line.split()[0] for line in lines[: len(SHIPPED)]] == SHIPPED
    assert lines[-1] == f"{len(SHIPPED)} tasks"


def test_patterns_and_keywords_narrow_the_list(lmeval):
    assert lmeval("tasks", "*_generated") == 0
    assert "2 tasks" in lmeval.out
    assert lmeval("tasks", "--keyword", "arithmetic") == 0
    assert "summary" not in lmeval.out


def test_no_task_that_fits_is_said(lmeval):
    assert lmeval("tasks", "--keyword", "nothing like it") == 2
    assert "No task fits" in lmeval.err


def test_tasks_stand_under_their_keywords(lmeval):
    assert lmeval("tasks", "--by_keyword") == 0
    (line,) = [line for line in lmeval.out.splitlines() if line.startswith("arithmetic (")]
    assert "simple_arithmetic" in line


def test_markdown_is_a_table(lmeval):
    assert lmeval("tasks", "--markdown") == 0
    lines = lmeval.out.splitlines()
    assert lines[0] == "| task | kind | keywords | description |"
    assert len(lines) == 2 + len(SHIPPED)


def test_a_broken_task_is_listed_as_broken(lmeval):
    (lmeval.folder / "t" / "bad").mkdir(parents=True)
    (lmeval.folder / "t" / "bad" / "task.py").write_text("1 / 0")
    (lmeval.folder / "t" / "good.jsonl").write_text("")
    assert lmeval("tasks", "--tasks_dir", "t") == 1
    assert "cannot be listed: bad: " in lmeval.out
    assert "1 task\n" in lmeval.out


@pytest.mark.parametrize("kind", ["jsonl", "python"])
def test_a_new_task_runs_at_once_and_passes_its_check(lmeval, kind):
    assert lmeval("new", "my_task", "--kind", kind) == 0
    commands = [line.split() for line in lmeval.out.splitlines() if line.startswith("  lmeval ")]
    assert len(commands) == 2
    for command in commands:
        assert lmeval(*command[1:]) == 0, lmeval.out
    assert json.loads((lmeval.folder / "leaderboard.json").read_text())["overall_score"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["new"], "new takes one name"),
        (["new", "a", "b"], "new takes one name"),
        (["new", "../a"], "is no task name"),
        (["new", "a", "--kind", "yaml"], "kind"),
        (["check"], "check takes task folders"),
        (["check", "--keywords", "none.md", "a"], "cannot be read"),
    ],
)
def test_wrong_usage_is_said(lmeval, arguments, reason):
    assert lmeval(*arguments) == 2
    assert reason in lmeval.err


def test_an_existing_folder_is_not_touched(lmeval):
    assert lmeval("new", "a") == 0
    assert lmeval("new", "a") == 2
    assert "exists already" in lmeval.err


ROW = {"id": "1", "prompt": "2 + 2?", "targets": ["4"], "metric": "exact_match"}
SETTINGS = {"name": "mine", "description": "d", "keywords": ["arithmetic"]}


def check(lmeval, rows, settings=SETTINGS):
    folder = lmeval.folder / "mine"
    folder.mkdir()
    (folder / "task.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "task.json").write_text(json.dumps(settings))
    return lmeval("check", "mine")


@pytest.mark.parametrize(
    ("changes", "settings", "fault"),
    [
        ({"prompt": "2 + 2?", "id": "2"}, {}, "duplicates: 1 = 2"),
        (
            {"prompt": "2 + 2?", "id": "2", "targets": ["5"]},
            {},
            "same prompt, other targets: 1 = 2",
        ),
        ({}, {"keywords": ["arithmetic", "no such word"]}, "does not list: 'no such word'"),
        ({}, {"keywords": []}, "has no keywords"),
        ({}, {"description": " "}, "has no description"),
        ({"targets": ["four"]}, {"output_regex": r"\d+"}, "does not reach: 1 ('four' scores 0)"),
        ({"targets": ["4."]}, {"answer_extraction": "number"}, "does not count as right"),
        ({"targets": ["2 + 2?"]}, {}, "the echo model reaches the high score"),
        ({"targets": []}, {}, "task.jsonl, line 1"),
        ({}, {"low_score": 1.0}, "high_score must be above low_score"),
    ],
)
def test_faults_are_found(lmeval, changes, settings, fault):
    rows = [ROW, {**ROW, **changes}] if "id" in changes else [{**ROW, **changes}]
    assert check(lmeval, rows, {**SETTINGS, **settings}) == 1
    assert fault in lmeval.out
    assert "FAULT" in lmeval.out


def test_a_good_task_has_no_faults(lmeval):
    assert check(lmeval, [ROW]) == 0
    assert lmeval.out.splitlines()[-1] == "no faults"


def test_what_is_no_task_is_said(lmeval):
    assert lmeval("check", "nothing") == 1
    assert "is no task" in lmeval.out


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_tasks_pass(lmeval, name):
    import lmeval as package

    folder = f"{package.__path__[0]}/tasks/{name}"
    assert lmeval("check", folder) == 0, lmeval.out


def test_the_keywords_are_read_from_the_list():
    assert "arithmetic" in read_keywords()


PROGRAM = """
from lmeval import ScoreData, Task, TaskMetadata
class T(Task):
    def get_task_details(self):
        {details}
    def evaluate_model(self, model):
        {scores}
"""
GOOD_DETAILS = "return TaskMetadata('odd', 'd', ['arithmetic'], 1, 1)"
GOOD_SCORES = "return ScoreData({'m': 0.5}, 'm', 0, 0.0, 1.0)"


def write_program(lmeval, details=GOOD_DETAILS, scores=GOOD_SCORES):
    folder = lmeval.folder / "t" / "odd"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(PROGRAM.format(details=details, scores=scores))
    (lmeval.folder / "t" / "good.jsonl").write_text(json.dumps(ROW))


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("return None", "None"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("open('none.txt')", "FileNotFoundError"),
        ("raise ValueError('two\\nlines')", "two lines"),
    ],
)
def test_details_that_fail_cost_one_line_and_no_other_task(lmeval, details, reason):
    write_program(lmeval, details=details)
    assert lmeval("tasks", "--tasks_dir", "t") == 1
    assert "1 task\n" in lmeval.out
    (line,) = [line for line in lmeval.out.splitlines() if "cannot be listed" in line]
    assert line.startswith("cannot be listed: odd: ")
    assert reason in line
    assert lmeval("check", "t/odd", "t/good.jsonl") == 1
    assert reason in lmeval.out
    assert "loads (jsonl" in lmeval.out


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ("1 / 0", "task.py, line 7: ZeroDivisionError"),
        ("return None", "evaluate_model gives None, where ScoreData are due"),
        ("return []", "evaluate_model gives [], where ScoreData are due"),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
    ],
)
def test_scores_that_fail_are_a_fault(lmeval, scores, reason):
    write_program(lmeval, scores=scores)
    assert lmeval("check", "t/odd") == 1
    assert "fails with the mute model: " in lmeval.out
    assert reason in lmeval.out
    assert lmeval.out.endswith("\n2 faults\n")


def test_only_broken_tasks_are_listed_too(lmeval):
    write_program(lmeval, details="return None")
    (lmeval.folder / "t" / "good.jsonl").unlink()
    assert lmeval("tasks", "--tasks_dir", "t") == 1
    assert "0 tasks\ncannot be listed: odd: " in lmeval.out


def test_a_folder_that_cannot_be_looked_at_is_a_fault(lmeval):
    (lmeval.folder / "good.jsonl").write_text(json.dumps(ROW))
    assert lmeval("check", "x" * 300, "good.jsonl") == 1
    assert "File name too long" in lmeval.out
    assert "loads (jsonl" in lmeval.out


def test_keywords_may_be_named_one_by_one(lmeval):
    assert lmeval("tasks", "--keyword", "arithmetic", "--keyword", "zero-shot") == 0
    assert lmeval.out.endswith("\n1 task\n")
