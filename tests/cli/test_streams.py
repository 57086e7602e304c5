# SPDX-License-Identifier: Apache-2.0
"""Standard streams that fail, other locales, and programs that leave: real processes."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX shells and devices")

COMMAND = f"{sys.executable} -c 'from lmeval.cli.main import console; console()'"
EVALUATE = f"{COMMAND} evaluate --task arithmetic --model toy"


def shell(folder, line, **environment):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / ".cache"), **environment},
    )


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("| true", 1, ""),  # `true` is gone long before anything is printed
        ("> /dev/full", 1, "lmeval: Standard output cannot be written: No space left on device.\n"),
        (">&-", 0, ""),
        ("2> /dev/full", 0, ""),
        ("2>&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_the_file_is_there_whatever_becomes_of_the_streams(
    tmp_path, redirection, code, said, unbuffered
):
    done = shell(tmp_path, f"{EVALUATE} {redirection}", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (code, said)
    assert json.loads((tmp_path / "leaderboard.json").read_text())["overall_score"] == 1.0


@pytest.mark.parametrize("arguments", ["tasks", "--help", "evaluate --help", "--version"])
def test_a_full_disk_is_one_sentence(tmp_path, arguments):
    done = shell(tmp_path, f"{COMMAND} {arguments} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "lmeval: Standard output cannot be written: No space left on device.\n"


def test_a_task_has_its_name_in_every_locale(tmp_path):
    row = {"prompt": "compute: 1 + 1", "targets": ["2"], "metric": "exact_match"}
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "東京.jsonl").write_text(json.dumps(row))
    for name, locale in (("utf8.json", {}), ("c.json", {"LC_ALL": "C", "PYTHONUTF8": "0"})):
        line = f"{COMMAND} evaluate --tasks_dir tasks --task 東京 --model toy --output {name}"
        done = shell(tmp_path, line, PYTHONCOERCECLOCALE="0", **locale)
        assert done.returncode == 0, done.stderr
        assert "東京" in done.stdout
        (task,) = json.loads((tmp_path / name).read_text(encoding="utf-8"))["tasks"]
        assert task["task"] == "東京"


def test_what_a_person_types_is_utf8_in_every_locale(tmp_path):
    row = {"prompt": "Where?", "targets": ["東京"], "metric": "exact_match"}
    (tmp_path / "where.jsonl").write_text(json.dumps(row))
    line = f"echo 東京 | {COMMAND} evaluate --tasks_dir . --task where --model human"
    done = shell(tmp_path, line, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "leaderboard.json").read_text())["overall_score"] == 1.0


def test_a_folder_that_is_gone_is_one_sentence(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = shell(gone, f"rmdir {gone}; {EVALUATE}")
    assert done.returncode == 2
    assert done.stderr == "lmeval: The current folder is gone; change to one that exists.\n"
