# SPDX-License-Identifier: Apache-2.0
"""The contract's data classes construct as BIG-bench's do and refuse what cannot be a score."""

import math

import numpy as np
import pytest

from lmeval import ExampleScore, ScoreData, ScoreWithError, Task, TaskMetadata
from lmeval.api.errors import InvalidValueError


def test_metadata_is_built_by_position_in_bigbench_order():
    metadata = TaskMetadata("n", "d", ["k"], 10, 20)
    assert (metadata.name, metadata.description, metadata.keywords) == ("n", "d", ["k"])
    assert (metadata.max_input_length_per_query, metadata.max_queries) == (10, 20)


def test_score_data_is_built_by_position_in_bigbench_order():
    score = ScoreData({"bleu": 25.0}, "bleu", 2, 0.0, 100.0, "sub")
    assert (score.number_of_shots, score.low_score, score.high_score) == (2, 0.0, 100.0)
    assert score.subtask_description == "sub"
    assert score.per_example == ()


def test_subtask_description_defaults_to_nothing():
    assert ScoreData({"a": 1}, "a", 0, 0, 1).subtask_description == ""


@pytest.mark.parametrize("number", [1, 0.5, np.float32(0.5), np.float64(0.5), np.int64(1)])
def test_preferred_score_may_be_any_real_number(number):
    assert ScoreData({"a": number}, "a", 0, 0, 1).score == float(number)


def test_other_entries_may_be_dicts():
    score = ScoreData({"a": 1.0, "by_group": {"x": 1}}, "a", 0, 0, 1)
    assert score.score_dict["by_group"] == {"x": 1}


@pytest.mark.parametrize(
    ("score_dict", "preferred"),
    [
        ({"a": 1.0}, "b"),
        ({}, "a"),
        ({"a": math.nan}, "a"),
        ({"a": math.inf}, "a"),
        ({"a": "1.0"}, "a"),
        ({"a": True}, "a"),
        ({"a": {"x": 1}}, "a"),
        ({"a": None}, "a"),
    ],
)
def test_preferred_score_must_be_there_and_finite(score_dict, preferred):
    with pytest.raises(InvalidValueError, match=r"ScoreData\.preferred_score"):
        ScoreData(score_dict, preferred, 0, 0, 1)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("name", ("", "d", [], 1, 1)),
        ("name", (None, "d", [], 1, 1)),
        ("description", ("n", None, [], 1, 1)),
        ("keywords", ("n", "d", "k", 1, 1)),
        ("keywords", ("n", "d", [1], 1, 1)),
        ("max_queries", ("n", "d", [], 1, "many")),
    ],
)
def test_metadata_error_names_the_field(field, arguments):
    with pytest.raises(InvalidValueError, match=rf"TaskMetadata\.{field}"):
        TaskMetadata(*arguments)


@pytest.mark.parametrize(
    ("score", "low", "high", "normalized"),
    [
        (0.5, 0.25, 1.0, 1 / 3),
        (0.25, 0.25, 1.0, 0.0),
        (30.0, 0.0, 100.0, 0.3),
        (1.0, 1.0, 1.0, None),
    ],
)
def test_normalized_score_is_relative_to_low_and_high(score, low, high, normalized):
    value = ScoreData({"a": score}, "a", 0, low, high).normalized_score
    assert value == normalized or value == pytest.approx(normalized)


def test_per_example_becomes_a_tuple():
    row = ExampleScore(id="1", score=1.0, prompt="q", prediction="a", targets=("a",))
    assert ScoreData({"a": 1.0}, "a", 0, 0, 1, per_example=[row]).per_example == (row,)


def test_a_task_without_its_methods_cannot_be_made():
    class Unfinished(Task):
        def get_task_details(self):
            raise AssertionError

    with pytest.raises(TypeError, match="evaluate_model"):
        Unfinished()


def example_row(**changes):
    values = {"id": "1", "score": 1.0, "prompt": "q", "prediction": "a", "targets": ("a",)}
    return ExampleScore(**{**values, **changes})


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (1, "class is not ExampleScore"),
        (example_row(score=True), "score is no finite number"),
        (example_row(score=math.nan), "score is no finite number"),
        (example_row(id=1), "id is no string"),
        (example_row(prediction=None), "prediction is no string"),
        (example_row(targets="Paris"), "targets are no tuple"),
    ],
)
def test_rows_that_are_none_are_refused(row, reason):
    with pytest.raises(InvalidValueError, match=rf"ScoreData\.per_example .*{reason}"):
        ScoreData({"a": 1.0}, "a", 0, 0, 1, per_example=[row])


def test_rows_can_be_told_apart():
    with pytest.raises(InvalidValueError, match="share id and sample"):
        ScoreData({"a": 1.0}, "a", 0, 0, 1, per_example=[example_row(), example_row()])


@pytest.mark.parametrize(
    "fields", [{"stderr": float("nan")}, {"ci95": (0.0, float("inf"))}, {"ci95": (1.0,)}]
)
def test_an_error_that_is_no_number_is_refused(fields):
    with pytest.raises(InvalidValueError, match=rf"ScoreWithError\.{next(iter(fields))} must be"):
        ScoreWithError({"f1": 0.5}, "f1", 0, 0.0, 1.0, **fields)
