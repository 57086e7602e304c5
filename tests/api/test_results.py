# SPDX-License-Identifier: Apache-2.0
"""From ScoreData to results: means, counts and uncertainty, with values worked out by hand."""

import math

import pytest

from lmeval import ExampleScore, ModelData, ScoreData, ScoreWithError
from lmeval.api.results import Leaderboard, TaskFailure, TaskResult, task_results
from lmeval.api.task import AggregateScore


def score_data(score, shots=0, low=0.0, high=1.0, name="m", part="", rows=(), cls=ScoreData):
    return cls({name: score}, name, shots, low, high, part, rows)


def example(number, score, **facts):
    return ExampleScore(
        id=f"q{number}", score=score, prompt="p", prediction="a", targets=("a",), **facts
    )


def rows(*scores, **facts):
    return tuple(example(number, score, **facts) for number, score in enumerate(scores))


def only(scores, **kwargs) -> TaskResult:
    (result,) = task_results("t", scores, "hash", **kwargs)
    return result


def test_the_score_of_one_score_data_is_the_preferred_score():
    result = only(ScoreData({"bleu": 25.0, "other": 1.0}, "bleu", 0, 0.0, 100.0))
    assert (result.score, result.normalized_score, result.metric) == (25.0, 0.25, "bleu")
    assert result.score_dict == {"bleu": 25.0, "other": 1.0}
    assert (result.total, result.correct, result.stderr, result.ci95) == (None, None, None, None)


def test_several_sub_tasks_are_averaged():
    result = only([score_data(0.5, low=0.25, part="a"), score_data(0.7, low=0.5, part="b")])
    assert result.score == pytest.approx(0.6)
    assert result.normalized_score == pytest.approx((1 / 3 + 0.4) / 2)
    assert [part.subtask_description for part in result.subtasks] == ["a", "b"]


def test_sub_tasks_that_prefer_different_scores_say_so():
    result = only([score_data(0.5, name="x", part="a"), score_data(0.7, name="y", part="b")])
    assert result.metric == "mean of x, y"


def test_an_aggregate_stands_for_the_task():
    parts = [score_data(0.2, part="a"), score_data(0.4, part="b")]
    whole = score_data(0.9, name="whole", cls=AggregateScore)
    result = only([*parts, whole])
    assert (result.score, result.metric) == (0.9, "whole")
    assert [part.is_aggregate for part in result.subtasks] == [False, False, True]


def test_an_aggregate_of_normalized_scores_has_the_error_of_the_sub_tasks_on_its_scale():
    parts = [
        score_data(0.75, low=0.5, part="a", rows=rows(1.0, 1.0, 1.0, 0.0)),  # stderr 0.25, half way
        score_data(20.0, high=100.0, part="b", rows=rows(10.0, 30.0)),  # stderr 10, a fifth
    ]
    whole = score_data(35.0, high=100.0, name="normalized", cls=AggregateScore)
    result = only([*parts, whole])
    # On a scale of 100 the errors are 50 and 10.
    assert result.stderr == pytest.approx(math.hypot(50, 10) / 2)
    # Wilson for 3 of 4 is (0.3006, 0.9544): distances 0.4494 and 0.2044 times 200; 12.7062 * 10.
    lower, upper = math.hypot(89.88, 127.062) / 2, math.hypot(40.87, 127.062) / 2
    assert result.ci95 == pytest.approx((35.0 - lower, 35.0 + upper), abs=0.01)


def test_an_aggregate_over_all_rows_has_the_error_of_a_stratified_mean():
    parts = [
        score_data(0.75, part="a", rows=rows(1.0, 1.0, 1.0, 0.0)),
        score_data(0.5, part="b", rows=rows(1.0, 0.0)),
    ]
    result = only([*parts, score_data(4 / 6, name="pooled", cls=AggregateScore)])
    assert result.stderr == pytest.approx(math.hypot(4 * 0.25, 2 * 0.5) / 6)


def test_an_aggregate_that_is_no_mean_of_its_sub_tasks_has_no_error():
    parts = [score_data(0.75, part="a", rows=rows(1.0, 1.0, 1.0, 0.0))]
    result = only([*parts, score_data(0.9, name="best", cls=AggregateScore)])
    assert (result.stderr, result.ci95) == (None, None)


def test_blank_clusters_are_none():
    alone = only(score_data(0.5, rows=rows(1.0, 0.0, 1.0, 0.0)))
    blank = (*rows(1.0, 0.0, 1.0, cluster=""), example(3, 0.0, cluster="x"))
    assert only(score_data(0.5, rows=blank)).stderr == alone.stderr


def test_one_result_for_each_number_of_shots():
    results = task_results("t", [score_data(0.2), score_data(0.4, shots=2)], "hash", latency_ms=10)
    assert [(r.number_of_shots, r.score, r.latency_ms) for r in results] == [
        (0, 0.2, 5),
        (2, 0.4, 5),
    ]


@pytest.mark.parametrize(
    ("scores", "stderr"),
    [((1.0,), None), ((1.0, 0.0), 0.5), ((1.0, 0.0, 1.0, 0.0), 0.288675)],
)
def test_the_standard_error_is_that_of_the_sample(scores, stderr):  # P089
    result = only(score_data(math.fsum(scores) / len(scores), rows=rows(*scores)))
    assert result.stderr == (None if stderr is None else pytest.approx(stderr, abs=1e-6))
    assert result.total == len(scores)


def test_all_wrong_still_has_an_interval():  # P090
    result = only(score_data(0.0, rows=rows(*[0.0] * 25)))
    assert result.ci95 == (0.0, pytest.approx(0.1332, abs=5e-5))


def test_the_error_over_sub_tasks_is_that_of_their_mean():
    parts = [score_data(0.5, part=name, rows=rows(1.0, 0.0, 1.0, 0.0)) for name in "ab"]
    assert only(parts).stderr == pytest.approx(0.288675 / math.sqrt(2), abs=1e-6)
    assert only(parts).total == 8


def test_rows_speak_only_for_a_score_that_is_their_mean():
    result = only(score_data(0.9, name="pass@5", rows=rows(1.0, 0.0)))
    assert (result.stderr, result.ci95, result.total) == (None, None, 2)


def test_a_score_may_bring_its_own_error():
    score = ScoreWithError(
        {"bleu": 30.0},
        "bleu",
        0,
        0.0,
        100.0,
        per_example=rows(None, None),
        stderr=2.0,
        ci95=(26, 34),
    )
    result = only(score)
    assert (result.stderr, result.ci95, result.total) == (2.0, (26, 34), 2)


def test_a_score_may_bring_its_own_error_without_rows():
    result = only(ScoreWithError({"elo": 30.0}, "elo", 0, 0.0, 100.0, stderr=2.0))
    assert (result.stderr, result.ci95, result.total) == (2.0, None, None)


def test_failures_are_counted_apart():
    failed = (example(1, 0.0, error="timeout"), example(2, 0.0, error="error: x"))
    unfound = (example(3, 0.0, no_answer=True),)
    result = only(score_data(0.25, rows=(example(0, 1.0), *failed, *unfound)))
    assert (result.correct, result.total) == (1, 4)
    assert (result.timeouts, result.errors, result.no_answer) == (1, 1, 1)
    assert result.failures == 2


def test_a_task_without_rows_reports_what_the_engine_counted():
    result = only(score_data(0.5), counted_failures=(3, 4))
    assert (result.timeouts, result.errors) == (3, 4)


def test_an_example_is_right_when_all_its_samples_are():
    sampled = tuple(
        example(number, score, sample=sample)
        for number, scores in enumerate([(1.0, 1.0), (1.0, 0.0)])
        for sample, score in enumerate(scores)
    )
    result = only(score_data(0.75, rows=sampled))
    assert (result.correct, result.total) == (1, 2)
    assert result.stderr == pytest.approx(0.25)  # means 1 and 0.5: s = 0.35355, / sqrt(2)


def test_rows_without_a_score_of_their_own_count_no_right_ones():
    result = only(score_data(30.0, high=100.0, rows=rows(None, None)))
    assert (result.correct, result.total, result.stderr) == (None, 2, None)


def board(*results, failed=()):
    return Leaderboard(
        adapter="toy",
        model=ModelData("f", "toy"),
        fingerprint=None,
        tasks=results,
        failed_tasks=failed,
    )


def test_the_overall_score_is_the_mean_over_tasks():
    made = board(only(score_data(1.0, high=2.0)), only(score_data(0.0)))
    assert (made.overall_score, made.overall_normalized_score) == (0.5, 0.25)


def test_a_board_without_tasks_has_no_score():
    assert (board().overall_score, board().overall_normalized_score) == (None, None)


def test_failures_are_answers_and_tasks():
    result = only(score_data(0.0, rows=(example(1, 0.0, error="timeout"),)))
    assert board(result, failed=(TaskFailure(task="x", reason="y"),)).failures == 2


def test_what_the_engine_counted_is_shown_once():
    scores = [score_data(0.5), score_data(0.5, shots=2)]
    results = task_results("t", scores, "hash", counted_failures=(3, 4))
    assert [(r.timeouts, r.errors) for r in results] == [(3, 4), (0, 0)]


@pytest.mark.parametrize(
    ("scores", "high", "ci95"),
    [
        ((0.0, 0.0), 100.0, (0.0, 65.76)),  # Wilson for 0 of 2, on the metric's scale
        ((0.0, 0.0), 1.0, (0.0, 0.6576)),
        ((100.0, 100.0), 100.0, (34.24, 100.0)),
    ],
)
def test_intervals_are_on_the_scale_of_the_metric(scores, high, ci95):
    result = only(score_data(scores[0], high=high, rows=rows(*scores)))
    assert result.ci95 == pytest.approx(ci95, rel=1e-3)
