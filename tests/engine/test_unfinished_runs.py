# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind that broke off: every answer that was scored, and no other."""

import json
import subprocess
import sys
import textwrap
import threading

import pytest
from engine_models import EchoModel

from lmeval.api.errors import LmevalError, MetricError
from lmeval.api.example import Example
from lmeval.api.json_task import JsonTask
from lmeval.api.leaderboard_file import without_times
from lmeval.api.metrics import register_metric
from lmeval.api.options import TaskOptions
from lmeval.api.settings import TaskSettings
from lmeval.api.task import ExampleScore, ScoreData, Task, TaskMetadata
from lmeval.engine.engine import Engine
from lmeval.engine.run import LoadedTask, run_tasks
from lmeval.engine.samples import SampledRun, read_samples
from lmeval.engine.samples_folder import SamplesFolder
from lmeval.engine.settings import EngineSettings
from lmeval.sandbox import Limits, Sandbox

N = 6


class BrokenOffModel(EchoModel):
    """Like EchoModel, until Ctrl-C comes at the call after `calls`; writes code if asked for it."""

    def __init__(self, calls=N * 10):
        super().__init__()
        self.calls = calls

    def record(self, batch):
        if len(self.batches) == self.calls:
            raise KeyboardInterrupt
        super().record(batch)

    def answer(self, prompt):
        return "def f(x):\n    return x * 2\n" if "code" in prompt else super().answer(prompt)


def examples(metric, **extras):
    prompts = [f"code and words {number}" for number in range(N)]
    return [Example(f"r{n}", prompts[n], (str(n),), metric, extras) for n in range(N)]


TASKS = {
    "texts": (examples("substring_contains"), {}),
    "samples of a text": (examples("exact_match"), {"num_samples": 2}),
    "scores of all rows": (examples("bleu"), {}),
    "both kinds of score": (examples("token_f1"), {"metrics": ("macro_f1", "exact_match")}),
    "choices": (examples("choice_likelihood", choices=[*map(str, range(N))]), {}),
    "code": (examples("code_exec", io_pairs=[[1, 2], [2, 5]]), {}),
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(Limits(cpu_s=1, wall_s=3), workers=1) as sandbox:
        yield sandbox


def run_into(folder, tasks, model, options=None, **settings):
    options = options or TaskOptions()
    loaded = [LoadedTask(name, task, "hash") for name, task in tasks.items()]
    with Engine(model, EngineSettings(batch_size=1, **settings)) as engine:
        run = SampledRun(
            adapter=engine.name,
            model=engine.model_data(),
            fingerprint=engine.fingerprint(),
            options=options,
        )
        samples = SamplesFolder(folder, run, dict.fromkeys(tasks, "hash"))
        return run_tasks(loaded, engine, options, samples=samples)


def lines_of(path):
    return [without_times(json.loads(line)) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("calls", [1, 4])
def test_ctrl_c_leaves_the_answers_that_came_and_the_next_run_completes_them(
    tmp_path, sandbox, kind, calls
):
    rows, settings = TASKS[kind]
    options = TaskOptions(sandbox=sandbox)
    task = JsonTask("t", rows, TaskSettings(**settings), options)
    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        run_into(tmp_path / "s", {"t": task}, BrokenOffModel(calls), options, cache_dir=cache)
    left = read_samples(tmp_path / "s" / "t.jsonl")
    run_into(tmp_path / "unbroken", {"t": task}, BrokenOffModel(), options)
    whole = read_samples(tmp_path / "unbroken" / "t.jsonl")
    assert left.scores == ()
    n_samples = settings.get("num_samples", 1)  # equal requests to this model are asked once
    assert len(left.rows) == calls * n_samples
    strip = lambda row: (row.id, row.sample, row.prediction, row.score, row.scores, row.details)
    known = [strip(row) for _, row in whole.rows]
    assert all(strip(row) in known for _, row in left.rows)

    model = BrokenOffModel()
    run_into(tmp_path / "s", {"t": task}, model, options, cache_dir=cache)
    assert len(model.asked) == N - calls
    finished, expected = (lines_of(tmp_path / f / "t.jsonl") for f in ("s", "unbroken"))
    assert finished == expected


def test_rows_are_given_out_once_for_each_number_of_shots():
    given = []
    task = JsonTask(
        "t",
        examples("exact_match"),
        TaskSettings(num_samples=2),
        TaskOptions(shots=(0, 2)),
    )
    with Engine(EchoModel(), EngineSettings(batch_size=1)) as engine:
        scores = task.evaluate_model(engine.for_task("t"), lambda *part: given.append(part))
    for score in scores:
        rows = [row for rows, shots in given for row in rows if shots == score.number_of_shots]
        assert sorted(map(id, rows)) == sorted(map(id, score.per_example))


def test_a_metric_that_fails_ends_the_task_before_all_is_asked():
    go_on = threading.Event()

    class Model(EchoModel):
        def answer(self, prompt):
            assert "1" not in prompt or go_on.wait(10)
            return super().answer(prompt)

    @register_metric("fails_at_once")
    def fails_at_once(prediction, targets, extras):
        raise ValueError("oh")

    model = Model()
    task = JsonTask("t", examples("fails_at_once"))
    with Engine(model, EngineSettings(batch_size=1)) as engine:
        with pytest.raises(MetricError, match="failed on the example 'r0'"):
            task.evaluate_model(engine.for_task("t"))
        go_on.set()
        engine.for_task("other").generate_text("x")
    assert len(model.asked) == 3  # of six: one answered, one under way, and the other task's


class Program(Task):
    """Gives out a row, then fails or returns it."""

    def __init__(self, *given, fails=False):
        self.given = given
        self.fails = fails

    def get_task_details(self):
        return TaskMetadata("program", "d", ["k"], 1, 1)

    def evaluate_model(self, model, on_scored="not passed"):
        self.on_scored = on_scored
        row = ExampleScore(id="0", score=1.0, prompt="q", prediction="a", targets=("a",))
        if on_scored != "not passed":
            on_scored(*(self.given or ([row],)))
        if self.fails:
            raise RuntimeError("broken off")
        return ScoreData({"s": 1.0}, "s", 0, 0.0, 1.0, per_example=[row])


def test_a_program_may_give_out_its_rows(tmp_path):
    board = run_into(tmp_path, {"ends": Program(), "fails": Program(fails=True)}, EchoModel())
    assert [task.task for task in board.tasks] == ["ends"]
    assert read_samples(tmp_path / "ends.jsonl").scores[0].score == 1.0
    left = read_samples(tmp_path / "fails.jsonl")
    assert ([row.id for _, row in left.rows], left.scores) == (["0"], ())


def test_without_samples_nobody_wants_rows():
    task = Program()
    with Engine(EchoModel()) as engine:
        run_tasks([LoadedTask("t", task, "hash")], engine, TaskOptions())
    assert task.on_scored == "not passed"


def test_what_a_program_gives_out_must_be_rows(tmp_path):
    with pytest.raises(LmevalError, match=r"The task t: on_scored takes a list of ExampleScore"):
        run_into(tmp_path, {"t": Program("no rows")}, EchoModel())


FULL_DISK = """
    import resource, signal, sys
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    from lmeval.cli.main import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_full_disk_ends_the_task_with_a_sentence_and_the_others_go_on(tmp_path):
    for name, n_rows in (("large", 300), ("small", 3)):
        rows = [
            {"prompt": f"compute: {n} + {n}", "targets": [str(2 * n)], "metric": "exact_match"}
            for n in range(n_rows)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = ["evaluate", "--tasks_dir=.", "--task=large,small", "--model=toy", "--nocache"]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), *words, "--samples_dir=s", "--quiet"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "large: no result: s/large.jsonl: cannot be written: File too large." in done.stdout
    assert "Traceback" not in done.stderr
    assert read_samples(tmp_path / "s" / "small.jsonl").scores[0].score == 1.0
