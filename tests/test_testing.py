# SPDX-License-Identifier: Apache-2.0
"""The test mixins find what they are there to find."""

import math
import unittest

import pytest

from lmeval.api.errors import UnsupportedByModel
from lmeval.api.model import Completion, LogProbs, Model, ModelData
from lmeval.api.task import ExampleScore, ScoreData, Task, TaskMetadata
from lmeval.models.toy import ToyModel
from lmeval.testing import (
    FailingModel,
    ModelTestMixin,
    RuleModel,
    TaskTestMixin,
    echo_model,
    mute_model,
)


def score(value=0.0, low=0.0, high=1.0, description="", examples=()):
    return ScoreData({"s": value}, "s", 0, low, high, description, examples)


class GoodTask(Task):
    def get_task_details(self):
        return TaskMetadata("good", "Says yes.", ["common sense"], 1, 1)

    def evaluate_model(self, model):
        return score(float(model.generate_text("yes?") == "yes"))


class TestGoodTask(TaskTestMixin):
    def make_task(self):
        return GoodTask()


class GoodTaskWithUnittestTest(TaskTestMixin, unittest.TestCase):
    def make_task(self):
        return GoodTask()


class TestGoodModel(ModelTestMixin):
    scores_text = True
    scores_whole_texts = True

    def make_model(self):
        return RuleModel("good", str.upper)


def example(example_id):
    return ExampleScore(id=example_id, score=0.0, prompt="p", prediction="", targets=("t",))


class BlankDescription(GoodTask):
    def get_task_details(self):
        return TaskMetadata("n", " ", ["k"], 1, 1)


class NoKeywords(GoodTask):
    def get_task_details(self):
        return TaskMetadata("n", "d", [], 1, 1)


class NoQueries(GoodTask):
    def get_task_details(self):
        return TaskMetadata("n", "d", ["k"], 1, 0)


def task_that(evaluate):
    return type("Evaluates", (GoodTask,), {"evaluate_model": evaluate})


COUNTER = iter(range(1000))


class Remembers(GoodTask):
    def __init__(self):
        self.calls = 0

    def evaluate_model(self, model):
        self.calls += 1
        return score(0.1 * self.calls)


@pytest.mark.parametrize(
    ("task", "test"),
    [
        (BlankDescription, "test_task_details_are_complete"),
        (NoKeywords, "test_task_details_are_complete"),
        (NoQueries, "test_task_details_are_complete"),
        (task_that(lambda self, model: []), "test_evaluation_gives_score_data"),
        (task_that(lambda self, model: {"s": 1.0}), "test_evaluation_gives_score_data"),
        (task_that(lambda self, model: [0.5]), "test_evaluation_gives_score_data"),
        (task_that(lambda self, model: score(low=1.0)), "test_evaluation_gives_score_data"),
        (task_that(lambda self, model: [score(), score()]), "test_subtasks_can_be_told_apart"),
        (
            task_that(lambda self, model: score(next(COUNTER) / 1000)),
            "test_same_seed_gives_same_scores",
        ),
        (Remembers, "test_a_second_evaluation_of_one_object_is_no_different"),
        (
            task_that(lambda self, model: score(float(model.generate_text("p") == ""))),
            "test_mute_model_does_not_score_high",
        ),
        (
            task_that(lambda self, model: score(float("p" in model.generate_text("p")))),
            "test_echo_model_does_not_score_high",
        ),
        (
            task_that(
                lambda self, model: score(float(model.cond_log_prob("p", ["a", "b"])[0] < -1))
            ),
            "test_failed_requests_do_not_score_high",
        ),
    ],
)
def test_a_faulty_task_is_found(task, test):
    case = type("Case", (TaskTestMixin,), {"make_task": lambda self: task()})()
    with pytest.raises(AssertionError):
        getattr(case, test)()


class RawModel(Model):
    """A model without the chores of BatchModel, right unless a subclass spoils it."""

    def model_data(self):
        return ModelData("raw", "raw")

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        return ToyModel().generate_text(inputs, max_length, stop_string, output_regex)

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        return ToyModel().cond_log_prob(inputs, targets, absolute_normalization)

    def rolling_log_prob(self, texts):
        return ToyModel().rolling_log_prob(texts)


class TestRawModel(ModelTestMixin):
    scores_text = True
    scores_whole_texts = True

    def make_model(self):
        return RawModel()


def model_with(**methods):
    return type("Spoilt", (RawModel,), methods)


def _unrepeatable(self):
    return f"made {next(COUNTER)}"


def _racing(self, inputs, *wishes):
    answers = RawModel().generate_text(inputs, *wishes)
    return answers if next(COUNTER) % 2 else answers[:-1]


@pytest.mark.parametrize(
    ("model", "test"),
    [
        (model_with(model_data=lambda self: {"name": "x"}), "test_model_data_describes_the_model"),
        (
            model_with(model_data=lambda self: ModelData("f", " ")),
            "test_model_data_describes_the_model",
        ),
        (model_with(max_concurrency=0), "test_max_concurrency_is_a_count"),
        (model_with(fingerprint=lambda self: 5), "test_fingerprint_states_the_model"),
        (model_with(fingerprint=lambda self: ""), "test_fingerprint_states_the_model"),
        (model_with(fingerprint=_unrepeatable), "test_fingerprint_states_the_model"),
        (
            model_with(generate_text=lambda self, inputs, *wishes: [inputs]),
            "test_text_for_text",
        ),
        (
            model_with(generate_text=lambda self, inputs, *wishes: "one text for all"),
            "test_list_for_list_in_order",
        ),
        (
            model_with(generate_text=lambda self, inputs, *wishes: [""] * (len(inputs) - 1)),
            "test_list_for_list_in_order",
        ),
        (
            model_with(generate_text=lambda self, inputs, *wishes: sorted(inputs)),
            "test_list_for_list_in_order",
        ),
        (
            model_with(generate_text=lambda self, inputs, *wishes: ["x", "y", "z"]),
            "test_empty_lists",
        ),
        (
            model_with(generate_text=lambda self, inputs, **wishes: "whole answer"),
            "test_post_processing",
        ),
        (
            model_with(cond_log_prob=lambda self, inputs, targets, *_: [[-1.0] * 2] * len(inputs)),
            "test_log_probs_have_the_shape_of_the_targets",
        ),
        (
            model_with(cond_log_prob=lambda self, inputs, targets, *_: [0.5] * len(targets)),
            "test_log_probs_have_the_shape_of_the_targets",
        ),
        (
            model_with(cond_log_prob=lambda self, inputs, targets, *_: [math.nan] * len(targets)),
            "test_log_probs_have_the_shape_of_the_targets",
        ),
        (
            model_with(
                cond_log_prob=lambda self, inputs, targets, absolute_normalization=False: (
                    ToyModel().cond_log_prob(inputs, targets, True)
                )
            ),
            "test_log_probs_are_normalized_unless_asked_otherwise",
        ),
        (
            model_with(cond_log_prob=lambda self, inputs, targets, *_, **__: [0.0] * len(targets)),
            "test_log_probs_are_normalized_unless_asked_otherwise",
        ),
        (
            model_with(cond_log_prob=lambda self, inputs, targets: [[0.0]]),
            "test_mismatched_targets_are_refused",
        ),
        (
            model_with(rolling_log_prob=lambda self, texts: [-1.0]),
            "test_whole_texts_have_log_probs",
        ),
        (model_with(max_concurrency=2, generate_text=_racing), "test_concurrent_calls"),
    ],
)
def test_a_faulty_model_is_found(model, test):
    settings = {"scores_text": True, "scores_whole_texts": True, "make_model": lambda self: model()}
    case = type("Case", (ModelTestMixin,), settings)()
    with pytest.raises(AssertionError):
        getattr(case, test)()


def _unsupported(message):
    def method(self, *arguments, **wishes):
        raise UnsupportedByModel(message)

    return method


@pytest.mark.parametrize(
    ("spoilt", "found"),
    [
        (lambda self, *_: "a text after all", True),
        (_unsupported("not possible"), True),
        (_unsupported("raw cannot do it"), False),
    ],
)
def test_what_a_model_cannot_do_must_be_said_with_its_name(spoilt, found):
    settings = {"writes_text": False, "scores_text": True, "scores_whole_texts": True}
    model = model_with(generate_text=spoilt)
    case = type("Case", (ModelTestMixin,), {**settings, "make_model": lambda self: model()})()
    if found:
        with pytest.raises(AssertionError):
            case.test_unsupported_methods_say_so()
    else:
        case.test_unsupported_methods_say_so()


def test_the_probe_models_answer_as_named():
    assert mute_model().generate_text(["a", "b"]) == ["", ""]
    assert echo_model().generate_text("a") == "a"
    failed = FailingModel().generate_text("a")
    assert isinstance(failed, Completion)
    assert (failed, failed.error) == ("", "timeout")
    log_probs = FailingModel().cond_log_prob("a", ["b", "c"])
    assert isinstance(log_probs, LogProbs)
    assert (log_probs, log_probs.error) == ([-math.inf, -math.inf], "timeout")
