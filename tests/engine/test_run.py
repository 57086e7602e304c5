# SPDX-License-Identifier: Apache-2.0
"""Running tasks from Python: one call from names to a leaderboard, and what failures do."""

import pytest

import lmeval
from lmeval import AdapterModel, ScoreData, Task, TaskMetadata, TaskOptions
from lmeval.api.errors import LmevalError, TaskError
from lmeval.engine.engine import Engine
from lmeval.engine.run import LoadedTask, run_tasks
from lmeval.engine.settings import EngineSettings
from lmeval.models.toy import ToyModel


class Mute:
    name = "mute"

    def generate(self, prompts):
        return [""] * len(prompts)


class Asking(Task):
    """Returns what it is told to, after one question."""

    def __init__(self, result):
        self.result = result
        self.wishes = None

    def get_task_details(self):
        return TaskMetadata("asking", "d", ["k"], 1, 1)

    def evaluate_model(self, model, max_examples=-1, random_seed=None):
        self.wishes = (max_examples, random_seed)
        model.generate_text("q")
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Unbounded(Asking):
    def evaluate_model(self, model):
        return super().evaluate_model(model)


GOOD = ScoreData({"s": 0.5}, "s", 0, 0, 1)


def run(*tasks, options=None, **more):
    loaded = [LoadedTask(f"t{number}", task, "hash") for number, task in enumerate(tasks)]
    with Engine(AdapterModel(Mute()), EngineSettings()) as engine:
        return run_tasks(loaded, engine, options or TaskOptions(), **more)


def test_one_call_from_names_to_a_leaderboard():
    board = lmeval.evaluate(["arithmetic", "summary"], ToyModel(), TaskOptions(shots=(0, 2)))
    assert [(t.task, t.number_of_shots) for t in board.tasks] == [
        ("arithmetic", 0),
        ("arithmetic", 2),
        ("summary", 0),
        ("summary", 2),
    ]
    assert board.overall_score == 1.0
    assert board.adapter == "toy"
    assert board.environment["lmeval"] == lmeval.__version__


def test_limit_and_seed_reach_programmatic_tasks():
    task = Asking(GOOD)
    run(task, options=TaskOptions(max_examples=3, seed=7))
    assert task.wishes == (3, 7)


def test_without_wishes_the_seed_is_still_fixed():
    task = Asking(GOOD)
    run(task)
    assert task.wishes == (-1, 0)


def test_a_limit_that_a_program_does_not_take_is_said(tmp_path):
    messages = []
    loaded = [LoadedTask("t", Unbounded(GOOD), "hash", tmp_path / "task.py")]
    with Engine(AdapterModel(Mute()), EngineSettings()) as engine:
        run_tasks(loaded, engine, TaskOptions(max_examples=3), notify=messages.append)
    assert messages == ["t: takes no max_examples, so it runs in full."]


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "returned None where ScoreData are due"),
        ([], "returned \\[\\] where ScoreData are due"),
        ([GOOD, 0.5], "returned 0.5, which is no ScoreData"),
        (RuntimeError("oh"), "The task t0 failed: .*RuntimeError: oh"),
        (TaskError("own words"), "own words"),
    ],
)
def test_a_failing_task_is_reported_and_the_others_go_on(result, reason):
    board = run(Asking(GOOD), Asking(result), Asking(GOOD))
    assert [task.task for task in board.tasks] == ["t0", "t2"]
    (failure,) = board.failed_tasks
    assert failure.task == "t1"
    with pytest.raises(LmevalError, match=reason):
        run(Asking(result))


def test_times_come_from_the_clock_that_is_passed_in():
    ticks = iter(range(100, 200))
    board = run(Asking(GOOD), clock=lambda: float(next(ticks)))
    assert board.timestamp == "1970-01-01T00:01:40+00:00"
    assert board.tasks[0].latency_ms == 1000.0
