# SPDX-License-Identifier: Apache-2.0
"""The command line as a whole: verbs, help, usage errors, start-up imports."""

import os
import subprocess
import sys

import pytest

from lmeval.api.errors import ModelError, UsageError
from lmeval.cli import tasks
from lmeval.cli.main import VERBS


def test_help_names_every_verb(lmeval):
    assert lmeval("--help") == 0
    for verb in VERBS:
        assert verb.replace("_", "-") in lmeval.out


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_has_help(lmeval, verb):
    assert lmeval(verb.replace("_", "-"), "--help") == 0
    assert "usage: lmeval" in lmeval.out


def test_the_version_is_said(lmeval):
    assert lmeval("--version") == 0
    assert lmeval.out.startswith("lmeval ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["evalute"], "There is no verb 'evalute'; did you mean 'evaluate'?"),
        (["zzz"], "There is no verb 'zzz'; known are evaluate"),
        (["--task", "x"], "--task needs a verb before it, as in `lmeval evaluate --task …`"),
        (["evaluate", "--tsak", "x"], "Unknown command line flag 'tsak'"),
        (["evaluate", "--max_examples", "many"], "max_examples"),
        (["evaluate", "--max_examples", "0"], "max_examples"),
        (["evaluate", "--task", "arithmetic"], "No model given"),
        (["evaluate", "--model", "toy"], "No task given"),
        (["evaluate", "arithmetic", "--model", "toy"], "evaluate takes flags only"),
        (["evaluate", "--task", "arithmetik", "--model", "toy"], "did you mean arithmetic"),
        (["evaluate", "--task", "arithmetic", "--model", "toyy"], "did you mean toy"),
        (["evaluate", "--task", "arithmetic", "--model", "no.such:Model"], "no module no"),
        (["evaluate", "--task", "arithmetic", "--model", "lmeval:Nothing"], "has no 'Nothing'"),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--model_args", "x=1"],
            "takes no setting 'x'",
        ),
        (["evaluate", "--task", "arithmetic", "--model", "replay"], "needs the setting 'path'"),
        (["evaluate", "--task", "arithmetic", "--model", "toy", "--shots", "two"], "--shots two"),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--output_regex", "(a)(b)"],
            "has 2 groups",
        ),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--answer_extraction", "x"],
            "--answer_extraction x: known are letter, number",
        ),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--output", "none/x.json"],
            "there is no folder",
        ),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--output", ""],
            "--output The name",
        ),
        (["evaluate", "--task", "arithmetic", "--model", "toy", "--output", "."], "is a folder"),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--output", os.devnull],
            "is a device or a pipe",
        ),
        (
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--output", "x" * 300],
            "File name too long",
        ),
        pytest.param(
            ["evaluate", "--task", "arithmetic", "--model", "toy", "--output", "/proc/x.json"],
            "/proc/x.json: cannot be written",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
        ),
        (
            ["evaluate", "--model", "toy", "--model", "human"],
            "--model=human: already defined as toy",
        ),
        (["evaluate", "--quiet", "--noquiet"], "already defined as True"),
        (["evaluate", "--output", "a", "--output=b"], "--output=b: already defined as a"),
        (["compare", "--flips=1", "a", "b", "--flips=2"], "--flips=2: already defined as 1"),
        (["evaluate", "--task", "x", "--model", "toy", "--tasks_dir", "y" * 300], "name too long"),
        (["evaluate", "--task", "x" * 300 + "/y", "--model", "toy"], "name too long"),
        (["evaluate", "--task", "arithmetic", "--model", "z" * 300 + ".py:C"], "name too long"),
        (["compare", "x" * 300, "y"], "name too long"),
        (["rescore", "x" * 300], "x"),
        (["evaluate", "--flagfile", "none"], "none"),
        (["evaluate", "--max_examples", str(10**30)], "max_examples"),
        (["evaluate", "--seed", str(2**128)], "seed"),
        (
            ["evaluate", "--tasks_dir", "none", "--task", "all", "--model", "toy"],
            "There is no tasks folder none",
        ),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(lmeval, arguments, reason):
    assert lmeval(*arguments) == 2
    assert reason in lmeval.err
    assert lmeval.err.count("\n") == 1
    assert lmeval.out == ""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("two\n  lines \x1b[2J"), 2, "two lines \\x1b[2J"),
        (ModelError("gone."), 1, "gone."),
        (PermissionError(13, "Permission denied", "a/task.py"), 2, "a/task.py: Permission denied."),
        (OSError("odd"), 2, "OSError: odd."),
        (SystemExit(3), 1, "a task's or a model's program left with sys.exit(3)"),
        (SystemExit(), 1, "sys.exit(None)"),
        (KeyboardInterrupt(), 130, "stopped."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_user_can_cause_ends_in_one_line(lmeval, monkeypatch, error, code, said):
    def run(args, flag_values, out):
        raise error

    monkeypatch.setattr(tasks, "run", run)
    assert lmeval("tasks") == code
    assert lmeval.err.startswith(f"lmeval: {said}" if code != 1 else "lmeval: ")
    assert said in lmeval.err
    assert lmeval.err.count("\n") == 1


def test_a_user_without_a_home_is_told(lmeval, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", no_home)
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "toy") == 2
    assert "There is no home folder to keep answers in" in lmeval.err
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "toy", "--nocache") == 0


def no_home():
    raise RuntimeError("Could not determine home directory.")


def test_a_fault_of_our_own_keeps_its_traceback(lmeval, monkeypatch):
    monkeypatch.setattr(tasks, "run", lambda args, flag_values, out: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lmeval("tasks")


def modules_after(program):
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_lmeval_loads_no_third_party_package():
    loaded = modules_after("import lmeval")
    assert not loaded & {"attr", "attrs", "numpy", "absl", "rich", "torch"}


@pytest.mark.parametrize("arguments", [["--help"], ["tasks"], ["evaluate", "--help"]])
def test_looking_around_loads_nothing_heavy(arguments):
    loaded = modules_after(f"from lmeval.cli.main import main; main({arguments!r})")
    assert not loaded & {"numpy", "torch", "transformers", "urllib3", "sacrebleu", "rouge_score"}
    assert "lmeval.bigbench" not in loaded
