# SPDX-License-Identifier: Apache-2.0
import random
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bigbench_data import TableModel

from lmeval.api import metrics
from lmeval.api.errors import LmevalError, TaskError, UsageError
from lmeval.api.model import Model, ModelData
from lmeval.api.options import TaskOptions
from lmeval.bigbench import load_program_task

HEAD = """
import bigbench.api.task as task
import numpy as np
import random
DETAILS = task.TaskMetadata("sums", "Add.", ["arithmetic"], 5, 10)
def result(**scores):
    first = next(iter(scores))
    return task.ScoreData(scores, first, number_of_shots=0, low_score=0, high_score=1)
"""


def write_program(folder, body, head=HEAD, **siblings):
    folder.mkdir(exist_ok=True)
    (folder / "task.py").write_text(head + textwrap.dedent(body))
    for name, text in siblings.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


def load(folder, **options):
    return load_program_task(folder, folder.name, TaskOptions(**options))


class EchoModel(Model):
    """Says what it was asked and with what, and keeps it."""

    def __init__(self):
        self.calls = []

    def model_data(self):
        return ModelData("echo", "echo")

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        self.calls.append((inputs, max_length, stop_string, output_regex))
        return inputs

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        self.calls.append((inputs, targets, absolute_normalization))
        return [-1.0] * len(targets) if isinstance(inputs, str) else [[-1.0]] * len(inputs)


DRAWING = """
class Sums(task.Task):
    def __init__(self):
        self.made = random.random()
    def get_task_details(self):
        return DETAILS
    def evaluate_model(self, model, max_examples=None, random_seed=None):
        np.random.seed(random_seed)
        return result(made=self.made, drawn=np.random.random(), limit=max_examples or -1)
"""


def test_a_program_runs_as_it_is(tmp_path):
    score = load(write_program(tmp_path / "sums", DRAWING)).evaluate_model(TableModel())
    assert score.score_dict["drawn"] == np.random.RandomState(42).random_sample()
    assert score.score_dict["limit"] == -1


def test_a_task_is_made_twice_as_bigbench_makes_it(tmp_path):
    score = load(write_program(tmp_path / "sums", DRAWING), seed=7).evaluate_model(TableModel())
    generator = random.Random(7)
    assert score.score_dict["made"] == [generator.random() for _ in range(2)][1]
    assert score.score_dict["drawn"] == np.random.RandomState(7).random_sample()


def test_a_tasks_own_seed_stays_unless_the_run_has_one(tmp_path):
    body = DRAWING.replace("random_seed=None", "random_seed=5")
    folder = write_program(tmp_path / "sums", body)
    own = load(folder).evaluate_model(TableModel())
    assert own.score_dict["drawn"] == np.random.RandomState(5).random_sample()
    other = load(folder, seed=6).evaluate_model(TableModel())
    assert other.score_dict["drawn"] == np.random.RandomState(6).random_sample()


def test_max_examples_is_passed_on(tmp_path):
    folder = write_program(tmp_path / "sums", DRAWING)
    assert load(folder, max_examples=3).evaluate_model(TableModel()).score_dict["limit"] == 3
    assert load(folder).evaluate_model(TableModel(), max_examples=4).score_dict["limit"] == 4


def test_a_limit_that_a_task_cannot_take_is_refused(tmp_path):
    body = DRAWING.replace("max_examples=None, ", "").replace("max_examples or", "0 or")
    with pytest.raises(UsageError, match="takes no --max_examples"):
        load(write_program(tmp_path / "sums", body), max_examples=3).evaluate_model(TableModel())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shots": (2,)}, "builds its own prompts"),
        ({"stop_string": "#"}, "--stop_string"),
        ({"max_length": 3}, "--max_length"),
    ],
)
def test_what_the_task_decides_itself_cannot_be_asked_for(tmp_path, options, reason):
    with pytest.raises(UsageError, match=reason):
        load(write_program(tmp_path / "sums", DRAWING), **options)


def test_a_program_may_be_run_for_several_shots_if_none_is_among_them(tmp_path):
    load(write_program(tmp_path / "sums", DRAWING), shots=(0, 2))


ASKING = """
class Sums(task.Task):
    def get_task_details(self):
        return DETAILS
    def evaluate_model(self, model):
        print("a line that is only for the log")
        text = model.generate_text(np.str_("q"), np.int64(7), "", None)
        many = model.generate_text(inputs=np.array(["a", "b"]), output_regex="[0-9]")
        model.cond_log_prob("", ("x", "y"), True)
        model.cond_log_prob(["p"], [{"z"}])
        return [result(m=len(text)), result(m=len(many))]
"""


def test_the_model_gets_plain_values_whatever_a_task_gives(tmp_path, capsys):
    model = EchoModel()
    scores = load(write_program(tmp_path / "sums", ASKING)).evaluate_model(model)
    assert model.calls == [
        ("q", 7, None, None),
        (["a", "b"], None, None, "[0-9]"),
        ("", ["x", "y"], True),
        (["p"], [["z"]], False),
    ]
    assert type(model.calls[0][0]) is str
    assert type(model.calls[0][1]) is int
    assert [score.score for score in scores] == [1, 2]
    assert capsys.readouterr().out == ""


def test_what_a_task_prints_is_logged(tmp_path, caplog):
    with caplog.at_level("INFO", logger="lmeval.bigbench"):
        load(write_program(tmp_path / "sums", ASKING)).evaluate_model(EchoModel())
    assert caplog.messages == ["sums: a line that is only for the log"]


def test_what_the_model_prints_meanwhile_is_not_the_tasks(tmp_path, capsys):
    class Loud(EchoModel):
        def generate_text(self, *arguments, **named):
            print("loud")
            return super().generate_text(*arguments, **named)

    load(write_program(tmp_path / "sums", ASKING)).evaluate_model(Loud())
    assert capsys.readouterr().out == "loud\nloud\n"


DRAWS_BETWEEN_QUESTIONS = """
from bigbench.benchmark_tasks.{name}.own import NAME
class Sums(task.Task):
    def get_task_details(self):
        return DETAILS
    def evaluate_model(self, model):
        scores = dict()
        for number in range(5):
            print(NAME)
            model.generate_text("?")
            scores["n%d" % number] = random.random() + np.random.random()
        scores["own"] = float(NAME == "{name}")
        return result(**scores)
"""


def test_programs_in_several_threads_score_as_one_after_the_other(tmp_path):
    class Slow(EchoModel):
        def generate_text(self, *arguments, **named):
            time.sleep(0.002)
            return super().generate_text(*arguments, **named)

    names = ["one", "two", "three", "four"]
    tasks = [
        load(
            write_program(
                tmp_path / name,
                DRAWS_BETWEEN_QUESTIONS.format(name=name),
                own=f"NAME = {name!r}",
            ),
            seed=number,
        )
        for number, name in enumerate(names)
    ]
    expected = [task.evaluate_model(Slow()) for task in tasks]
    stdout, modules = sys.stdout, set(sys.modules)
    with ThreadPoolExecutor(len(tasks)) as threads:
        found = list(threads.map(lambda task: task.evaluate_model(Slow()), tasks))
    assert found == expected
    assert all(score.score_dict["own"] == 1 for score in found)
    assert sys.stdout is stdout
    assert {name for name in set(sys.modules) - modules if "bigbench." in name} == set()


def test_a_task_finds_its_own_modules_and_files(tmp_path):
    folder = write_program(
        tmp_path / "sums",
        """
        import os
        import bigbench.benchmark_tasks as benchmark_tasks
        from bigbench.benchmark_tasks.sums.rules import RULE
        from .rules import RULE as SAME_RULE
        class Sums(task.Task):
            def get_task_details(self):
                return DETAILS
            def evaluate_model(self, model):
                import bigbench.benchmark_tasks.sums.late as late
                path = os.path.join(benchmark_tasks.__path__[0], "sums", "rules.py")
                return result(rule=RULE, late=late.VALUE, found=os.path.exists(path))
        """,
        rules="RULE = 3",
        late="VALUE = 4",
    )
    score = load(folder).evaluate_model(TableModel())
    assert score.score_dict == {"rule": 3, "late": 4, "found": True}
    assert "bigbench" not in sys.modules


def test_two_tasks_may_have_modules_of_one_name(tmp_path):
    body = """
    from bigbench.benchmark_tasks.{0}.rules import RULE
    class Sums(task.Task):
        def get_task_details(self):
            return DETAILS
        def evaluate_model(self, model):
            return result(rule=RULE)
    """
    tasks = [
        load(write_program(tmp_path / name, body.format(name), rules=f"RULE = {value}"))
        for name, value in (("one", 1), ("two", 2))
    ]
    assert [made.evaluate_model(TableModel()).score for made in tasks] == [1, 2]


FAULTS = [
    ("import does_not_exist_at_all", "pip install does_not_exist_at_all"),
    ("import sklearn.does_not_exist", "pip install scikit-learn"),
    ("import bigbench.bbseqio.tasks", "imports bigbench.bbseqio, which lmeval does not"),
    ("1 / 0", r"task\.py, line \d+: ZeroDivisionError"),
    ("def (", "invalid syntax"),
    ("x = 1", "one complete Task class, found none"),
    (DRAWING + DRAWING.replace("Sums", "More"), "found More, Sums"),
    ("class Sums(task.Task):\n    pass", "found none"),
    (DRAWING.replace("random.random()", "undefined_name"), "NameError"),
]


@pytest.mark.parametrize(("body", "reason"), FAULTS)
def test_a_program_that_cannot_be_loaded_is_one_sentence(tmp_path, body, reason):
    with pytest.raises(TaskError, match=reason) as caught:
        load(write_program(tmp_path / "sums", body))
    assert "\n" not in str(caught.value)
    assert "bigbench" not in sys.modules


def test_a_program_that_fails_while_it_runs_is_one_sentence(tmp_path):
    body = DRAWING.replace("np.random.seed(random_seed)", "raise KeyError('x')")
    with pytest.raises(TaskError, match=r"sums failed: .*task\.py, line \d+: KeyError"):
        load(write_program(tmp_path / "sums", body)).evaluate_model(TableModel())
    assert "bigbench" not in sys.modules


def test_details_are_the_tasks(tmp_path):
    details = load(write_program(tmp_path / "sums", DRAWING)).get_task_details()
    assert (details.name, details.max_queries) == ("sums", 10)


def test_bleurt_may_be_registered_beside_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "_registered", dict(metrics._registered))
    folder = write_program(
        tmp_path / "sums",
        """
        from datasets import load_metric
        class Sums(task.Task):
            def get_task_details(self):
                return DETAILS
            def evaluate_model(self, model):
                given = load_metric("bleurt").compute(references=["a"], predictions=["b"])
                return result(bleurt=given["scores"][0])
        """,
    )
    with pytest.raises(LmevalError, match="metric bleurt needs a learned scorer"):
        load(folder).evaluate_model(TableModel())
    (folder / "metrics.py").write_text(
        "import lmeval\n"
        "@lmeval.metric('bleurt')\n"
        "def bleurt(prediction, targets, extras): return 0.5\n"
    )
    assert load(folder).evaluate_model(TableModel()).score_dict == {"bleurt": 0.5}
