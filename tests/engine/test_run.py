# SPDX-License-Identifier: Apache-2.0
"""Running tasks from Python: one call from names to a leaderboard, and what failures do."""

import pytest

import lmeval
from lmeval import AdapterModel, Example, JsonTask, ScoreData, Task, TaskMetadata, TaskOptions
from lmeval.api.errors import LmevalError, TaskError, UsageError
from lmeval.api.settings import TaskSettings
from lmeval.engine.engine import Engine
from lmeval.engine.run import LoadedTask, load_tasks, run_tasks
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
        if isinstance(self.result, BaseException):
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


def test_a_model_may_be_named():
    assert lmeval.evaluate("arithmetic", "toy").tasks[0].score == 1.0
    with pytest.raises(UsageError, match="did you mean toy"):
        lmeval.evaluate("arithmetic", "toi")


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


@pytest.mark.parametrize(
    ("task", "options", "ignored"),
    [
        (Unbounded(GOOD), {"max_examples": 3}, "--max_examples"),
        (Unbounded(GOOD), {"seed": 1, "shots": 2}, "--shots, --seed"),
        (Asking(GOOD), {"seed": 1, "max_examples": 3}, None),
        (Asking(GOOD), {"output_regex": "x", "stop_string": "y"}, "--stop_string, --output_regex"),
        (
            Asking(GOOD),
            {"answer_extraction": "letter", "max_length": 5},
            "--max_length, --ans",
        ),
    ],
)
def test_what_a_program_does_not_take_is_said(tmp_path, task, options, ignored):
    messages = []
    loaded = [LoadedTask("t", task, "hash", tmp_path / "task.py")]
    with Engine(AdapterModel(Mute()), EngineSettings()) as engine:
        run_tasks(loaded, engine, TaskOptions(**options), notify=messages.append)
    assert len(messages) == (ignored is not None)
    assert ignored is None or messages[0].startswith(f"t: the task takes no notice of {ignored}")


def test_a_task_that_calls_exit_is_a_failed_task():
    board = run(Asking(GOOD), Asking(SystemExit(3)))
    assert "SystemExit: 3" in board.failed_tasks[0].reason
    assert board.overall_score is None


def test_when_no_task_has_a_result_every_reason_is_given():
    with pytest.raises(LmevalError, match=r"t0: .*oh.* t1: .*ah"):
        run(Asking(RuntimeError("oh")), Asking(RuntimeError("ah")))


def test_names_models_and_shots_may_be_given_simply():
    board = lmeval.evaluate("arithmetic", Mute(), TaskOptions(shots=1))
    assert (board.adapter, board.tasks[0].number_of_shots) == ("mute", 1)
    assert board.flags["shots"] == (1,)


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


def test_what_ended_all_tasks_is_told_once():
    with Engine(AdapterModel(Mute())) as engine:
        engine.stop("Stopped: nobody is there.")
        tasks = load_tasks(["arithmetic", "summary"], TaskOptions())
        with pytest.raises(LmevalError, match=r"^Stopped: nobody is there\.$"):
            run_tasks(tasks, engine, TaskOptions())


@pytest.mark.parametrize(("deterministic", "n_notices"), [(True, 1), (False, 0)])
def test_samples_that_cannot_differ_are_told(deterministic, n_notices):
    model, messages = AdapterModel(Mute()), []
    model.deterministic = deterministic
    row = Example("a", "q", ("x",), "exact_match", {})
    task = JsonTask("t", [row], TaskSettings(num_samples=3))
    with Engine(model) as engine:
        run_tasks([LoadedTask("t", task, "hash")], engine, TaskOptions(), notify=messages.append)
    assert sum("the 3 samples of an example are the same" in said for said in messages) == n_notices
