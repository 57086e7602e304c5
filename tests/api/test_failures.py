# SPDX-License-Identifier: Apache-2.0
"""What a user's program raised is told with the user's own line."""

import importlib.util
import json
from pathlib import Path

import pytest

from lmeval.api.errors import TaskError
from lmeval.api.failures import describe_failure, place_of, what_was_raised
from lmeval.api.loading import load_module


def caught(function):
    with pytest.raises(Exception) as info:
        function()
    return info.value


def module_of(tmp_path, text):
    file = tmp_path / "mine.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location("mine", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("two\n lines"), "ValueError: two lines"),
        (KeyError("x"), "KeyError: 'x'"),
        (IndexError(), "IndexError"),
    ],
)
def test_an_exception_in_one_line(error, words):
    assert what_was_raised(error) == words


def test_the_users_line_counts_and_not_that_of_what_it_called(tmp_path):
    mine = module_of(tmp_path, "import json\ndef ask():\n    return json.loads('{')\n")
    error = caught(mine.ask)
    assert place_of(error) == "mine.py, line 3"
    assert describe_failure(error).startswith(f"{tmp_path / 'mine.py'}, line 3: JSONDecodeError")


def test_lines_of_libraries_are_no_place():
    error = caught(lambda: json.loads("{"))
    error.__traceback__ = error.__traceback__.tb_next.tb_next  # what is left is the library's
    assert place_of(error) is None


def test_a_failing_import_is_told_with_the_line_that_asks_for_it(tmp_path, monkeypatch):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "task.py").write_text("import math\nimport no_such_module\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskError, match=r"task\.py, line 2: ModuleNotFoundError: No module named"):
        load_module(Path("t", "task.py"), "lmeval_tasks.t")


def test_a_syntax_error_has_its_own_place(tmp_path):
    (tmp_path / "task.py").write_text("x = (\n")
    with pytest.raises(TaskError, match=r"task\.py, line 1: .*never closed"):
        load_module(tmp_path / "task.py", "lmeval_tasks.t")
