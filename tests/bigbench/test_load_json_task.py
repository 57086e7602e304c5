# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys

import pytest
from bigbench_data import TableModel, choice_data, task_data, write_task

from lmeval import bigbench
from lmeval.api import metrics
from lmeval.api.errors import LmevalError, TaskError, TaskFileError, UsageError
from lmeval.api.model import Completion
from lmeval.api.options import TaskOptions
from lmeval.bigbench.loading import LoadSettings, load_task_dict


def load(folder, subtask=None, **options):
    return bigbench.load_json_task(folder, "sums", TaskOptions(**options), subtask)


FAULTS = [
    ({"canary": None}, "has no 'canary'"),
    ({"name": None}, "has no 'name'"),
    ({"name": " "}, "'name' must be a text"),
    ({"description": None}, "has no 'description'"),
    ({"description": 3}, "'description' must be a text"),
    ({"keywords": None}, "has no 'keywords'"),
    ({"keywords": "arithmetic"}, "'keywords' must be a list"),
    ({"metrics": None}, "has no 'metrics'"),
    ({"metrics": "exact_str_match"}, "'metrics' must be a list"),
    ({"metrics": ["exact_str_mach"]}, "did you mean 'exact_str_match'"),
    ({"metrics": ["x"]}, "known are multiple_choice_grade"),
    ({"preferred_score": None}, "has no 'preferred_score'"),
    ({"preferred_score": "perplexity"}, "give only exact_str_match"),
    ({"preferred_score": "bleu"}, "give only exact_str_match"),
    ({"metrics": ["rouge"], "preferred_score": "rouge"}, "rouge1, rouge2 or rougeLsum"),
    ({"output_regex": "("}, "no regular expression"),
    ({"output_regex": "(a)(b)"}, "2 groups"),
    ({"output_regex": 3}, "'output_regex' must be a text"),
    ({"stop_string": ["a"]}, "'stop_string' must be a text"),
    ({"example_input_prefix": 3}, "'example_input_prefix' must be a text"),
    ({"few_shot_example_separator": None, "choice_prefix": ["x"]}, "'choice_prefix' must be"),
    ({"examples": []}, "empty list of examples"),
]


@pytest.mark.parametrize(("changes", "reason"), FAULTS)
def test_a_faulty_task_is_one_sentence_with_the_file(tmp_path, changes, reason):
    folder = write_task(tmp_path / "sums", task_data(**changes))
    with pytest.raises(LmevalError, match=reason) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert str(folder / "task.json") in str(caught.value)


EXAMPLE_FAULTS = [
    ("exact_str_match", {"input": "q"}, "neither 'target' nor"),
    ("exact_str_match", {"input": "q", "target": 7}, "found 7"),
    ("exact_str_match", {"input": "q", "target_scores": {"a": 1, "b": 0}}, "has no 'target'"),
    ("multiple_choice_grade", {"input": "q", "target": "a"}, "has no 'target_scores'"),
    (
        "macro_f1",
        {"input": "q", "target": "a", "target_scores": {"a": 0.5, "b": 0.25}},
        "must have one choice with the score 1",
    ),
    (
        "numeric_match_with_0_1_relative_error",
        {"input": "q", "target": ["1", "2"]},
        "exactly one target",
    ),
    ("log_likelihood", {"input": "q", "target": " "}, "target without a word"),
]


@pytest.mark.parametrize(("metric", "example", "reason"), EXAMPLE_FAULTS)
def test_a_faulty_example_is_named_with_its_place_and_line(tmp_path, metric, example, reason):
    good = {"input": "good", "target": "a", "target_scores": {"a": 1, "b": 0}}
    data = task_data(metrics=[metric], preferred_score=metric, examples=[good, good, example])
    folder = write_task(tmp_path / "sums", data)
    lines = (folder / "task.json").read_text().split("\n")
    with pytest.raises(TaskFileError, match=reason) as caught:
        load(folder)
    assert "examples[2]" in str(caught.value)
    assert lines[caught.value.line - 1][caught.value.column - 1 :] == "{"
    assert caught.value.line == [n for n, line in enumerate(lines, 1) if line == "  {"][2]


def test_a_trailing_comma_is_named_with_line_and_column(tmp_path):
    folder = tmp_path / "sums"
    folder.mkdir()
    (folder / "task.json").write_text(
        '{"name": "é",\n "examples": [{"input": "é", "target": "a"},]}', encoding="utf-8"
    )
    with pytest.raises(TaskFileError, match=r"line 2, column 44: trailing comma"):
        load(folder)


def test_a_second_list_of_examples_is_refused(tmp_path):
    folder = write_task(tmp_path / "sums", task_data())
    text = (folder / "task.json").read_text()
    (folder / "task.json").write_text(text[: text.rindex("}")] + ', "examples": []}')
    with pytest.raises(TaskFileError, match="has 'examples' twice"):
        load(folder)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TaskFileError, match=r"task\.json: cannot be read"):
        load(tmp_path)


def test_too_few_examples_for_the_shots_are_refused_at_load(tmp_path):
    folder = write_task(tmp_path / "sums", task_data())
    load(folder, shots=(0, 3))
    with pytest.raises(TaskError, match="at most 3"):
        load(folder, shots=(0, 4))


def test_twins_count_as_one_for_the_shots(tmp_path):
    examples = [{"input": "a", "target": t} for t in ("x", ["x"])] + [{"input": "b", "target": "y"}]
    folder = write_task(tmp_path / "sums", task_data(examples=examples))
    load(folder, shots=(1,))
    with pytest.raises(TaskError, match="at most 1"):
        load(folder, shots=(2,))


def test_choices_that_are_all_right_are_refused(tmp_path):
    data = choice_data(examples=[{"input": "q", "target_scores": {"a": 1}}])
    with pytest.raises(TaskFileError, match="guessing scores 1"):
        load(write_task(tmp_path / "sums", data))


def test_the_examples_may_stand_before_everything_else(tmp_path):
    data = task_data()
    folder = write_task(tmp_path / "sums", {"examples": data.pop("examples"), **data})
    assert load(folder).facts.n_distinct == 4


def test_a_subtask_may_be_named_alone(tmp_path):
    folder = write_task(
        tmp_path / "sums",
        task_data(examples=None, metrics=None, preferred_score=None),
        one=task_data(name="first"),
        two=task_data(name="second"),
    )
    assert [task.name for task in load(folder).subtasks] == ["sums:first", "sums:second"]
    assert load(folder, "two").name == "second"
    with pytest.raises(TaskError, match="no sub-task 'three'; it has one, two"):
        load(folder, "three")


def test_subtasks_come_in_the_order_of_their_paths(tmp_path):
    names = ("a", "a_b", "a-b")
    folder = write_task(
        tmp_path / "sums",
        task_data(examples=None),
        **{name: task_data(name=name) for name in names},
    )
    assert [task.name for task in load(folder).subtasks] == ["sums:a-b", "sums:a", "sums:a_b"]


def test_a_container_without_subtasks_is_refused(tmp_path):
    folder = write_task(tmp_path / "sums", task_data(examples=None))
    with pytest.raises(TaskFileError, match="neither 'examples' nor sub-folders"):
        load(folder)


def test_subtasks_of_one_name_are_refused(tmp_path):
    folder = write_task(
        tmp_path / "sums", task_data(examples=None), one=task_data(), two=task_data()
    )
    with pytest.raises(TaskError, match="two sub-tasks have the name 'sums:sums'"):
        load(folder)


def test_a_subtask_without_examples_is_refused(tmp_path):
    folder = write_task(tmp_path / "sums", task_data(examples=None), one=task_data(examples=None))
    with pytest.raises(TaskFileError, match=r"one.task\.json: has no 'examples'"):
        load(folder)


@pytest.mark.parametrize(("limit", "asked"), [(None, 8), (2, 2), (5, 4), (100, 8)])
def test_max_examples_is_shared_among_subtasks(tmp_path, limit, asked):
    folder = write_task(
        tmp_path / "sums",
        task_data(examples=None),
        one=task_data(name="1"),
        two=task_data(name="2"),
    )
    task = load(folder, max_examples=limit)
    assert task.n_questions == asked
    model = TableModel()
    task.evaluate_model(model)
    assert sum(len(call[1]) for call in model.calls) == asked


def test_max_examples_below_the_number_of_subtasks_is_refused(tmp_path):
    folder = write_task(
        tmp_path / "sums",
        task_data(examples=None),
        one=task_data(name="1"),
        two=task_data(name="2"),
    )
    with pytest.raises(UsageError, match="2 sub-tasks of sums; give at least 2"):
        load(folder, max_examples=1)


def test_a_dictionary_that_is_no_json_is_refused():
    with pytest.raises(TaskFileError, match="is no JSON"):
        load_task_dict(task_data(examples=[{1, 2}]), LoadSettings(options=TaskOptions()))


def test_names_are_squeezed_into_ascii():
    task = load_task_dict(task_data(name="größe"), LoadSettings(options=TaskOptions()))
    assert task.get_task_details().name == "gr??e"


def test_importing_the_hooks_imports_no_numpy():
    program = "import sys, lmeval.bigbench; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_a_plain_task_runs_without_the_dialect(tmp_path):
    row = {"id": "1", "prompt": "1 + 1 =", "targets": ["2"], "metric": "exact_match", "extras": {}}
    (tmp_path / "plain.jsonl").write_text(json.dumps(row) + "\n")
    arguments = ["evaluate", "--tasks_dir", ".", "--task", "plain", "--model", "toy", "--nocache"]
    program = (
        "import sys; from lmeval.cli.main import main\n"
        f"assert main({arguments!r}) == 0\n"
        "print([name for name in sys.modules if name.startswith('lmeval.bigbench')])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert run.stdout.splitlines()[-1:] == ["[]"], run.stderr


ROUGE = {"metrics": ["rouge"], "preferred_score": "rouge1"}


def rouge1_of(tmp_path, **settings):
    examples = [{"input": f"q {i}", "target": "a b c d e f g"[: 2 * i + 1]} for i in range(7)]
    write_task(tmp_path / "sums", task_data(**ROUGE, examples=examples))
    task = load(tmp_path / "sums", dialect_settings=settings)
    answers = {f"q {i}": Completion("a b") for i in range(7)}
    return task.evaluate_model(TableModel(answers))[0].score_dict["rouge1"]


def test_the_bootstrap_of_rouge_is_a_setting_of_the_run(tmp_path):
    pytest.importorskip("rouge_score")
    mean = 100 * (2 / 3 + 4 / 4 + 4 / 5 + 4 / 6 + 4 / 7 + 4 / 8 + 4 / 9) / 7
    assert rouge1_of(tmp_path) == pytest.approx(mean)
    seeded = [rouge1_of(tmp_path, rouge_seed=0) for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert seeded[0] != pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_of_rouge_that_is_none_is_refused(tmp_path, seed):
    with pytest.raises(UsageError, match="seed of rouge"):
        rouge1_of(tmp_path, rouge_seed=seed)


BLEURT = """
import lmeval
@lmeval.metric("bleurt")
def bleurt(prediction, targets, extras): return float(prediction == targets[0])
"""


def test_bleurt_may_be_registered_beside_the_task(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "_registered", dict(metrics._registered))
    data = task_data(metrics=["bleurt"], preferred_score="bleurt")
    folder = write_task(tmp_path / "sums", data)
    with pytest.raises(TaskFileError, match=r"task\.json: the metric bleurt needs"):
        load(folder)
    (folder / "metrics.py").write_text(BLEURT)
    (score,) = load(folder).evaluate_model(TableModel({"0 + 1": "1"}))
    assert score.score == 0.25


@pytest.mark.parametrize("folder_of_metrics", [".", "part"])
@pytest.mark.parametrize("subtask", [None, "part"])
def test_bleurt_may_be_registered_for_a_container_or_one_part(
    tmp_path, monkeypatch, folder_of_metrics, subtask
):
    monkeypatch.setattr(metrics, "_registered", dict(metrics._registered))
    part = task_data(metrics=["bleurt"], preferred_score="bleurt")
    folder = write_task(tmp_path / "sums", task_data(examples=None), part=part)
    (folder / folder_of_metrics / "metrics.py").write_text(BLEURT)
    for _ in range(2):
        score = load(folder, subtask).evaluate_model(TableModel({"0 + 1": "1"}))[0]
        assert score.score_dict["bleurt"] == 0.25


def test_a_container_gives_out_the_answers_of_each_subtask_when_it_is_scored(tmp_path):
    parent = task_data(name="sums", examples=None)
    subtasks = {"one": task_data(name="one"), "two": choice_data(name="two")}
    task = load(write_task(tmp_path / "sums", parent, **subtasks))
    given = []
    scores = task.evaluate_model(TableModel(), lambda *part: given.append(part))
    parts = [score for score in scores if score.per_example]
    assert given == [(score.per_example, 0, score.subtask_description) for score in parts]
    assert len(parts) == 2
