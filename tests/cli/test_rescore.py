# SPDX-License-Identifier: Apache-2.0
"""`lmeval rescore`: the leaderboard from the samples of a run, without its model."""

import io
import json

import pytest
from absl import flags

from lmeval.api.errors import ResultsError, UsageError
from lmeval.api.leaderboard_file import leaderboard_to_json, without_times
from lmeval.api.leaderboard_reading import read_leaderboard
from lmeval.api.model import BatchModel, Completion, ModelData
from lmeval.api.options import TaskOptions
from lmeval.cli import rescore
from lmeval.engine.engine import Engine
from lmeval.engine.run import load_tasks, run_tasks
from lmeval.engine.samples import SampledRun, read_samples
from lmeval.engine.samples_folder import SamplesFolder


class Model(BatchModel):
    """Right on even numbers; fails on "fails"; prefers the first choice."""

    def model_data(self):
        return ModelData("test", "org/model:1")

    def fingerprint(self):
        return "test 1"

    def complete(self, prompts, max_length, stops):
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, prompt):
        if "fails" in prompt:
            return Completion(error="timeout")
        number = int(prompt.rsplit(" ", 1)[1])
        if number == 3 and "number" in prompt:
            return Completion("3", raw="<think>three, or 4</think>\n3")
        return f"{number}\nand so on" if number % 2 == 0 else "no idea"

    def score(self, contexts, targets):
        return [[-float(place + 1) for place in range(len(wanted))] for wanted in targets]


NUMBERS = [
    {"id": str(n), "prompt": f"number {n}", "targets": [str(n)], "metric": "exact_match"}
    for n in range(6)
]
NUMBERS.append({"id": "f", "prompt": "fails 7", "targets": ["7"], "metric": "exact_match"})
CHOICES = [
    {
        "id": str(n),
        "prompt": f"which is {n}?",
        "targets": [str(n)],
        "metric": "choice_likelihood",
        "extras": {"choices": ["0", "1"]},
    }
    for n in range(2)
]
PROGRAM = """
from lmeval.api.task import ScoreData, Task, TaskMetadata

class Program(Task):
    def get_task_details(self):
        return TaskMetadata("program", "Asks one thing.", ["arithmetic"], 10, 1)
    def evaluate_model(self, model):
        right = model.generate_text("number 4", stop_string="\\n").startswith("4")
        return ScoreData({"right": float(right)}, "right", 0, 0.0, 1.0)
"""


def write_rows(folder, rows, **settings):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "task.jsonl").write_text(text, encoding="utf-8")
    (folder / "task.json").write_text(json.dumps(settings), encoding="utf-8")


@pytest.fixture
def run_folder(tmp_path):
    """A run of three tasks: its leaderboard, its samples and the tasks."""
    tasks_dir = tmp_path / "tasks"
    write_rows(tasks_dir / "numbers", NUMBERS, stop_string="\n", num_samples=2)
    write_rows(tasks_dir / "choices", CHOICES)
    (tasks_dir / "program").mkdir()
    (tasks_dir / "program" / "task.py").write_text(PROGRAM)
    options = TaskOptions(seed=3)
    tasks = load_tasks(["numbers", "choices", "program"], options, [str(tasks_dir)])
    with Engine(Model()) as engine:
        board = run_tasks(tasks, engine, options, flags={"seed": 3})
    run = SampledRun(
        adapter=board.adapter,
        model=board.model,
        fingerprint=board.fingerprint,
        options=options,
        tasks=tuple(task.name for task in tasks),
        flags=board.flags,
        environment=board.environment,
        timestamp=board.timestamp,
    )
    folder = SamplesFolder(tmp_path / "samples", run, {task.name: task.sha256 for task in tasks})
    with Engine(Model()) as engine:
        for task in tasks:
            scores = task.task.evaluate_model(engine.for_task(task.name))
            folder.start(task.name).finish(scores if isinstance(scores, list) else [scores])
    return tmp_path, board


def run(folder, *arguments, code=1):
    values = flags.FlagValues()
    rescore.define_flags(values)
    words = ["lmeval rescore", str(folder / "samples"), f"--output={folder / 'again.json'}"]
    positional = values([*words, *arguments])[1:]
    out = io.StringIO()
    assert rescore.run(positional, values, out) == code
    return out.getvalue(), read_leaderboard(folder / "again.json")


def content(board):
    return without_times(leaderboard_to_json(board, include_per_example=True))


def test_unchanged_tasks_give_the_leaderboard_of_the_run(run_folder):
    folder, board = run_folder
    said, again = run(folder, f"--tasks_dir={folder / 'tasks'}", "--include_per_example")
    assert content(again) == content(board)
    assert "numbers: scored again; no score differs from those recorded." in said
    assert "choices: scored again; no score differs" in said
    assert "program: taken over as recorded: the samples hold no answer" in said


def test_recorded_scores_need_no_tasks(run_folder):
    folder, board = run_folder
    said, again = run(folder, "--as_recorded", "--include_per_example")
    assert content(again) == content(board)
    assert "numbers: taken over as recorded: --as_recorded says so." in said


def test_the_versions_are_those_that_scored(run_folder):
    folder, board = run_folder
    for path in (folder / "samples").iterdir():
        now = f'"lmeval": "{board.environment["lmeval"]}"'.encode()
        path.write_bytes(path.read_bytes().replace(now, b'"torch": "2.9", "lmeval": "0.0.1"'))
    _, again = run(folder, f"--tasks_dir={folder / 'tasks'}")
    assert again.environment == {**board.environment, "torch": "2.9"}
    _, recorded = run(folder, "--as_recorded", "--overwrite")
    assert recorded.environment["lmeval"] == "0.0.1"


def test_a_task_that_is_not_there_is_taken_over_and_said(run_folder):
    folder, board = run_folder
    said, again = run(folder)
    assert [task.score for task in again.tasks] == [task.score for task in board.tasks]
    assert "numbers: taken over as recorded: There is no task 'numbers'" in said


def test_an_edited_gold_answer_changes_the_score(run_folder):
    folder, board = run_folder
    edited = [{**row, "targets": ["no idea"]} if row["id"] == "1" else row for row in NUMBERS]
    write_rows(folder / "tasks" / "numbers", edited, stop_string="\n", num_samples=2)
    said, again = run(folder, f"--tasks_dir={folder / 'tasks'}")
    assert board.tasks[0].score == pytest.approx(4 / 7)
    assert again.tasks[0].score == pytest.approx(5 / 7)
    assert "numbers: scored again; 2 scores differ from those recorded." in said


def test_a_task_that_asks_something_else_is_not_scored_by_old_answers(run_folder):
    folder, _ = run_folder
    edited = [{**row, "prompt": row["prompt"] + " "} for row in NUMBERS]
    write_rows(folder / "tasks" / "numbers", edited, stop_string="\n")
    said, _ = run(folder, f"--tasks_dir={folder / 'tasks'}")
    assert "numbers: taken over as recorded: the samples hold no answer to the prompt" in said


def test_a_task_of_the_run_without_samples_has_no_result(run_folder):
    folder, _ = run_folder
    (folder / "samples" / "choices.jsonl").unlink()
    said, again = run(folder, f"--tasks_dir={folder / 'tasks'}")
    assert [failure.task for failure in again.failed_tasks] == ["choices"]
    assert again.overall_score is None
    assert "choices: no result: " in said and "holds no samples of it" in said


def test_an_answer_that_is_gone_is_missed(run_folder):
    folder, _ = run_folder
    path = folder / "samples" / "numbers.jsonl"
    head, _, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(head + b"".join(rest))
    with pytest.raises(ResultsError, match=r"part 0 had 14 answers, of which the file holds 13"):
        run(folder, "--as_recorded")


def test_a_file_that_ends_early_is_no_result(run_folder):
    folder, _ = run_folder
    path = folder / "samples" / "numbers.jsonl"
    path.write_bytes(path.read_bytes()[:2000])
    _, again = run(folder, "--as_recorded")
    assert [task.task for task in again.tasks] == ["choices", "program"]
    assert "is unfinished: the run broke off after " in again.failed_tasks[0].reason


def unfinish(folder, keep):
    """Leave of the task `numbers` what a run leaves that broke off: `keep` of its rows."""
    path = folder / "samples" / "numbers.jsonl"
    read = read_samples(path)
    path.unlink()
    samples = SamplesFolder(folder / "samples", read.run, {"numbers": read.sha256})
    with samples.start("numbers") as writer:
        writer.append(keep([row for _, row in read.rows]))


def test_an_unfinished_task_is_said_with_its_rows_and_the_others_are_rescored(run_folder):
    folder, board = run_folder
    unfinish(folder, keep=lambda rows: rows[5:8])
    said, again = run(folder, f"--tasks_dir={folder / 'tasks'}", code=1)
    assert [task.task for task in again.tasks] == ["choices", "program"]
    assert [task.score for task in again.tasks] == [task.score for task in board.tasks[1:]]
    (failure,) = again.failed_tasks
    assert failure.task == "numbers"
    assert (
        "numbers.jsonl is unfinished: the run broke off after 3 scored answers;" in failure.reason
    )
    assert f"numbers: no result: {failure.reason}" in said
    assert "numbers: taken over" not in said
    assert "choices: scored again; no score differs" in said


def test_where_only_the_scores_are_missing_the_rows_suffice(run_folder):
    folder, board = run_folder
    unfinish(folder, keep=lambda rows: rows[::-1])
    said, again = run(folder, f"--tasks_dir={folder / 'tasks'}", "--include_per_example")
    assert content(again)["tasks"][0] == content(board)["tasks"][0]
    assert "numbers: scored again; no score differs from those recorded." in said


def test_a_folder_with_nothing_finished_gives_no_scores(run_folder):
    folder, _ = run_folder
    unfinish(folder, keep=lambda rows: rows[:1])
    for task in ("choices", "program"):
        (folder / "samples" / f"{task}.jsonl").unlink()
    said, again = run(folder, f"--tasks_dir={folder / 'tasks'}", code=1)
    assert (again.tasks, again.overall_score) == ((), None)
    assert "numbers: no result: " in said
    assert "broke off after 1 scored answer; run its command again" in said


def test_samples_of_two_runs_are_refused(run_folder):
    folder, _ = run_folder
    path = folder / "samples" / "numbers.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"test 1"', b'"test 2"'))
    with pytest.raises(ResultsError, match="different runs: they differ in fingerprint"):
        run(folder)


def test_wrong_usage(tmp_path):
    values = flags.FlagValues()
    rescore.define_flags(values)
    values(["lmeval rescore"])
    with pytest.raises(UsageError, match="needs one folder"):
        rescore.run([], values, io.StringIO())
    with pytest.raises(ResultsError, match="holds no samples"):
        rescore.run([str(tmp_path)], values, io.StringIO())
