# SPDX-License-Identifier: Apache-2.0
import pytest

from lmeval.api.errors import TaskError
from lmeval.api.task import AggregateScore, ScoreData, ScoreWithError
from lmeval.bigbench.aggregates import NORMALIZED, add_aggregate_scores


def score(description, preferred="m", value=0.5, shots=0, low=0.0, high=1.0, **others):
    return ScoreData({preferred: value, **others}, preferred, shots, low, high, description)


def test_a_task_without_subtasks_gets_its_normalized_score():
    (whole,) = add_aggregate_scores("t", [score("t", value=0.75, low=0.5)])
    assert whole == score("t", value=0.75, low=0.5, **{NORMALIZED: 50.0})


def test_rows_stay_with_the_score_that_is_completed():
    import attrs

    from lmeval.api.task import ExampleScore

    row = ExampleScore(id="0", score=1.0, prompt="p", prediction="x", targets=("x",))
    (whole,) = add_aggregate_scores("t", [attrs.evolve(score("t"), per_example=(row,))])
    assert whole.per_example == (row,)


@pytest.mark.parametrize(("parts", "stderr"), [((), 0.1), ((score("t:a"),), None)])
def test_an_error_stays_only_with_the_number_that_it_is_of(parts, stderr):
    own = ScoreWithError({"m": 0.4}, "m", 0, 0.0, 1.0, "t", stderr=0.1, ci95=(0.2, 0.6))
    whole = next(
        s for s in add_aggregate_scores("t", [own, *parts]) if isinstance(s, ScoreWithError)
    )
    assert whole.stderr == stderr
    assert (whole.ci95 is None) == (stderr is None)


def test_subtasks_are_followed_by_a_mean_for_each_number_of_shots():
    scores = [score("t:a", value=0.4, shots=2), score("t:a", value=0.2), score("t:b", value=0.6)]
    *same, zero, two = add_aggregate_scores("t", scores)
    assert same == scores
    assert zero == AggregateScore({"m": 0.4, NORMALIZED: 40.0}, NORMALIZED, 0, 0.0, 100.0, "t")
    assert two == AggregateScore({"m": 0.4, NORMALIZED: 40.0}, NORMALIZED, 2, 0.0, 100.0, "t")


def test_a_mean_leaves_out_subtasks_without_the_score():
    scores = [score("t:a", value=0.2, other=1.0), score("t:b", value=0.6)]
    assert add_aggregate_scores("t", scores)[-1].score_dict["other"] == 1.0


def test_scores_that_are_no_numbers_have_no_mean():
    scores = [score("t:a", other={"x": 1}), score("t:b", other={"x": 2})]
    assert set(add_aggregate_scores("t", scores)[-1].score_dict) == {"m", NORMALIZED}


def test_multiple_choice_stays_the_preferred_score_if_all_prefer_it():
    grade = "multiple_choice_grade"
    scores = [score("t:a", grade, 0.5, low=0.5), score("t:b", grade, 0.25, low=0.25)]
    whole = add_aggregate_scores("t", scores)[-1]
    assert (whole.preferred_score, whole.score, whole.low_score) == (grade, 0.375, 0.375)
    assert whole.high_score == 1.0


def test_scores_of_one_description_are_told_apart():
    result = add_aggregate_scores("t", [score("a"), score("b"), score("a")])
    assert [s.subtask_description for s in result] == ["atrial_0", "b", "atrial_1", "t"]


def test_doing_it_twice_changes_nothing():
    once = add_aggregate_scores("t", [score("t:a"), score("t:b"), score("t:a", shots=1)])
    assert add_aggregate_scores("t", once) == once


def test_equal_low_and_high_scores_are_refused():
    with pytest.raises(TaskError, match="'t:a' are both 1"):
        add_aggregate_scores("t", [score("t:a", low=1.0)])
