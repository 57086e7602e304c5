# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest
from bigbench_data import task_data, write_task

from lmeval.api.errors import TaskFileError
from lmeval.bigbench import read_metadata
from lmeval.bigbench.summary import TaskSummary

EXPECTED = TaskSummary(name="sums", description="Add numbers.", keywords=("arithmetic",))


def test_the_head_of_a_task_is_enough(tmp_path):
    folder = write_task(tmp_path / "sums", task_data())
    text = (folder / "task.json").read_text()
    broken = text[: text.index('"examples"')] + '"examples": [broken'
    (folder / "task.json").write_text(broken)
    assert read_metadata(folder) == EXPECTED


def test_members_behind_the_examples_are_found(tmp_path):
    data = task_data()
    folder = write_task(tmp_path / "sums", {"examples": data.pop("examples"), **data})
    assert read_metadata(folder) == EXPECTED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"keywords": None}, "has no 'keywords'"),
        ({"keywords": "x"}, "list of texts"),
        ({"name": 3}, "texts"),
    ],
)
def test_what_is_missing_is_named(tmp_path, changes, reason):
    with pytest.raises(TaskFileError, match=reason):
        read_metadata(write_task(tmp_path / "sums", task_data(**changes)))


PROGRAMS = [
    (
        "class T:\n  def f(self):\n    return task.TaskMetadata(name='sums', "
        "description='Add ' 'numbers.', keywords=['arithmetic'], max_queries=N)",
        EXPECTED,
    ),
    ("TaskMetadata('sums', 'Add numbers.', ['arithmetic'], 1, 1)", EXPECTED),
    (
        "TaskMetadata(name=NAME, description=f'{x}', keywords=WORDS)",
        TaskSummary(name="folder", description="", keywords=()),
    ),
    ("print('hello')", TaskSummary(name="folder", description="", keywords=())),
]


@pytest.mark.parametrize(("program", "summary"), PROGRAMS)
def test_a_program_is_read_without_being_run(tmp_path, program, summary):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "task.py").write_text(f"import does_not_exist\n{program}\n")
    assert read_metadata(folder) == summary


def test_a_program_that_is_no_python_is_refused(tmp_path):
    (tmp_path / "task.py").write_text("def (")
    with pytest.raises(TaskFileError, match="no Python"):
        read_metadata(tmp_path)


def test_reading_metadata_imports_no_numpy(tmp_path):
    folder = write_task(tmp_path / "sums", task_data())
    program = (
        "import pathlib, sys; from lmeval.bigbench import read_metadata; "
        "read_metadata(pathlib.Path(sys.argv[1])); print('numpy' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True
    )
    assert result.stdout.strip() == "False", result.stderr
