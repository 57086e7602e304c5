# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for BIG-bench's modules, used as BIG-bench's own tests use them."""

import random
import sys
import threading

import numpy as np
import pytest
from bigbench_data import TableModel, choice_data, task_data, write_task

from lmeval.api.errors import TaskError
from lmeval.bigbench.shim import json_task, model_utils, results, t5_metrics, task, task_metrics
from lmeval.bigbench.shim.dummy_model import DummyModel
from lmeval.bigbench.shim.model import ModelData
from lmeval.bigbench.shim.modules import TaskModules


def test_the_stand_ins_are_there_only_while_they_are_installed(tmp_path):
    modules = TaskModules(tmp_path)
    with modules.installed(0):
        import bigbench.api.task as imported
        import bigbench.benchmark_tasks
        from bigbench.models import model_utils as imported_utils
        from t5.evaluation import metrics

        assert imported is task
        assert imported_utils is model_utils
        assert metrics is t5_metrics
        assert list(bigbench.benchmark_tasks.__path__) == [str(tmp_path)]
    assert not [name for name in sys.modules if name.partition(".")[0] in ("bigbench", "t5")]


def test_a_real_package_of_that_name_is_put_back(tmp_path, monkeypatch):
    real = type(sys)("bigbench")
    monkeypatch.setitem(sys.modules, "bigbench", real)
    with TaskModules(tmp_path).installed(0):
        assert sys.modules["bigbench"] is not real
    assert sys.modules["bigbench"] is real


def test_the_real_datasets_package_stays_unless_load_metric_is_wanted(tmp_path, monkeypatch):
    real = type(sys)("datasets")
    monkeypatch.setitem(sys.modules, "datasets", real)
    with TaskModules(tmp_path).installed(0):
        assert sys.modules["datasets"] is real
    with TaskModules(tmp_path, load_metric=True).installed(0):
        assert sys.modules["datasets"] is not real
    assert sys.modules["datasets"] is real


def test_global_generators_are_seeded_and_put_back(tmp_path):
    random.seed(9)
    np.random.seed(9)
    expected = (random.random(), np.random.random())
    random.seed(9)
    np.random.seed(9)
    with TaskModules(tmp_path).installed(1):
        seeded = (random.random(), np.random.random())
    assert seeded == (random.Random(1).random(), np.random.RandomState(1).random_sample())
    assert (random.random(), np.random.random()) == expected


def test_another_thread_waits_for_the_stand_ins(tmp_path):
    entered = threading.Event()

    def enter():
        with TaskModules(tmp_path).installed(0):
            entered.set()

    with TaskModules(tmp_path).installed(0):
        other = threading.Thread(target=enter)
        other.start()
        assert not entered.wait(0.05)
    other.join(10)
    assert entered.is_set()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((2, None, None), "ab"),
        ((0, "", ""), "abc.123.def"),
        ((None, ".1", None), "abc.1"),
        ((None, None, r"\d+"), "123"),
        ((None, None, "z"), ""),
    ],
)
def test_output_is_cut(limits, expected):
    assert model_utils.postprocess_output("abc.123.def", *limits) == expected
    assert model_utils.postprocess_output([b"abc.123.def"], *limits) == [expected]


def test_model_data_takes_bigbenchs_last_field():
    data = ModelData("f", "n", 1, 1, 1, 1, 1, "d", {}, "more")
    assert (data.model_family, data.additional_details) == ("f", "more")


def test_metrics_are_called_with_targets_first_and_give_dictionaries():
    assert task_metrics.exact_str_match_fn(["a", ["b", "c"]], ["a", "c"]) == {"exact_str_match": 1}
    assert task_metrics.numeric_match_with_0_1_relative_error_fn([["-1"]], ["5"]) == {
        "numeric_match_with_0_1_relative_error": 1
    }
    samples = [
        {
            "choice": ["a", "b"],
            "target_scores": {"a": 1, "b": 0},
            "log_prob": [-0.1, -3.0],
            "absolute_log_prob": [-1.0, -4.0],
        }
    ]
    names = ["multiple_choice_grade", "weighted_log_probabilities"]
    assert task_metrics.measure_multiple_choice_metrics(samples, names) == {
        "multiple_choice_grade": 1,
        "weighted_log_probabilities": -1.0,
    }
    scored = [{"target": ["a"], "log_prob_gen": [-2.0], "generative_response": "a"}]
    assert task_metrics.measure_scoring_metrics(scored, ["log_likelihood"]) == {
        "log_likelihood": -2.0,
        "log_likelihood_per_word": -2.0,
        "log_likelihood_per_char": -2.0,
    }
    assert task_metrics.measure_scoring_metrics(scored, []) == {}
    assert task_metrics.measure_generative_metrics(scored, ["exact_str_match"]) == {
        "exact_str_match": 1
    }


def test_added_aggregates_are_plain_score_data():
    scores = [task.ScoreData({"m": 0.5}, "m", 0, 0.0, 1.0, name) for name in ("t:a", "t:b")]
    added = results.add_aggregate_scores(task_name="t", scores=scores)
    assert added[2] == task.ScoreData(
        {"m": 0.5, "normalized_aggregate_score": 50.0},
        "normalized_aggregate_score",
        0,
        0.0,
        100.0,
        "t",
    )


def test_examples_are_put_into_words_and_shown_as_shots():
    samples = [
        json_task.default_format_fn(
            {"input": f"{i}", "target_scores": {"a": i, "b": 1 - i}},
            input_prefix="Q: ",
            output_prefix=" A: ",
            choice_prefix=" choice: ",
            random_seed=0,
        )
        for i in range(2)
    ]
    assert samples[0]["target"] == ["b"]
    assert samples[0]["choice"] == ["a", "b"]
    shown = json_task.make_nshot_dataset(samples, shots=1, random_seed=0)
    assert [sample["input"] for sample in shown] == [
        "Q: 1 choice: b choice: a A: a Q: 0 choice: b choice: a A: ",
        "Q: 0 choice: b choice: a A: b Q: 1 choice: b choice: a A: ",
    ]
    with pytest.raises(ValueError, match="enough examples"):
        json_task.make_nshot_dataset(samples, shots=2, random_seed=0)


def test_an_example_without_a_right_choice_is_refused():
    with pytest.raises(ValueError, match="none is right"):
        json_task.default_format_fn({"input": "", "target_scores": {"a": 1, "b": 1}}, "", "", "", 0)


def test_json_tasks_have_bigbenchs_constructor_and_methods(tmp_path):
    folder = write_task(tmp_path / "sums", task_data())
    made = json_task.JsonTask(str(folder / "task.json"), [0, 1], max_examples=3)
    assert (made.name, made.num_examples, made.subtasks) == ("sums", 3, [])
    assert made.output_regex == json_task._DEFAULT_REGEX
    assert made.stop_string is None
    scores = made.evaluate_model(TableModel(), random_seed=1, max_examples=2)
    assert [score.number_of_shots for score in scores] == [0, 1]
    # As in BIG-bench, the number of examples stays.
    assert made.num_examples == 2
    assert made.get_task_details().name == "sums"


def test_json_tasks_may_be_asked_without_being_scored():
    data = task_data(metrics=["exact_str_match", "log_likelihood"])
    model = DummyModel()
    made = json_task.JsonTask(data)
    (score,) = made.evaluate_model(model, generate_probs_for_targets=False)
    assert (model.n_gen_text, model.n_mult_choice) == (4, 0)
    assert set(score.score_dict) == {"exact_str_match", "normalized_aggregate_score"}
    assert made.evaluate_model(model, score=False) == []
    assert (model.n_gen_text, model.n_mult_choice) == (8, 4)


def test_faults_of_json_tasks_are_value_errors():
    with pytest.raises(ValueError, match="'canary'"):
        json_task.JsonTask(task_data(canary=None))


def test_json_tasks_take_numpys_numbers_and_bytes():
    examples = [
        {"input": "q", "target_scores": {"a": np.int64(1), "b": np.int64(0)}, "meta": b"x"},
        {"input": "p", "target_scores": {"a": 0, "b": 1}},
    ]
    made = json_task.JsonTask(choice_data(examples=examples))
    assert made.num_examples == 2


def test_squad_compares_words_without_articles_and_punctuation():
    scores = t5_metrics.squad([["The cat!", "dog"], ["x y"]], ["a cat", "y z"])
    assert scores == {"em": 50.0, "f1": 75.0}


def test_f1_takes_what_is_no_class_for_the_wrong_one():
    assert t5_metrics.f1_score_with_invalid([1, 1, 0, 0], [1, 5, 5, 0]) == {"f1": 50.0}
    assert t5_metrics.f1_score_with_invalid([0], [0]) == {"f1": 0.0}


def test_t5_bleu_and_rouge_take_references_as_t5_does():
    pytest.importorskip("sacrebleu")
    pytest.importorskip("rouge_score")
    text = "the cat sat on the mat"
    assert t5_metrics.bleu([text], [text])["bleu"] == pytest.approx(100)
    assert t5_metrics.bleu([["no cat"], [text]], [text])["bleu"] == pytest.approx(100)
    assert t5_metrics.rouge([text], [text])["rouge1"] == pytest.approx(100)


def test_the_models_of_hugging_face_are_elsewhere():
    from lmeval.bigbench.shim.huggingface_models import BIGBenchHFModel

    with pytest.raises(TaskError, match="--model hf"):
        BIGBenchHFModel(model_name="gpt2")


def test_only_bleurt_can_be_loaded_as_a_metric(monkeypatch):
    from lmeval.api import metrics
    from lmeval.bigbench.shim.hf_datasets import load_metric

    with pytest.raises(TaskError, match="'rouge'"):
        load_metric("rouge")
    monkeypatch.setattr(metrics, "_registered", dict(metrics._registered))
    metrics.metric("bleurt")(lambda prediction, targets, extras: float(prediction in targets))
    scorer = load_metric("bleurt", "bleurt-20")
    assert scorer.compute(references=["a", "b"], predictions=["a", "a"]) == {"scores": [1.0, 0.0]}


def test_the_dummy_model_thinks_the_first_target_impossible():
    model = DummyModel()
    assert model.cond_log_prob("x", ["a", "b"]) == [-float("inf"), 0.0]
    assert model.cond_log_prob(["x"], [["a"]]) == [[-float("inf")]]
    assert model.generate_text(["x"], None, None, r"\d+") == ["42"]
