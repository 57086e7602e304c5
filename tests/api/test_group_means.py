# SPDX-License-Identifier: Apache-2.0
"""Means over tasks and sub-tasks with their errors, worked out by hand."""

import math

import pytest

from lmeval import ExampleScore, ModelData, ScoreData
from lmeval.api.group_means import means_over_tasks, micro_of_subtasks
from lmeval.api.results import Leaderboard, TaskFailure, task_results

FOUR = (1.0, 1.0, 1.0, 0.0)  # mean 3/4, standard error 1/4
TWO = (0.0, 1.0)  # mean 1/2, standard error 1/2


def score_data(scores, part="", shots=0, keep_rows=True):
    rows = tuple(
        ExampleScore(id=f"q{number}", score=score, prompt="p", prediction="a", targets=("a",))
        for number, score in enumerate(scores)
    )
    mean = sum(scores) / len(scores)
    return ScoreData({"m": mean}, "m", shots, 0.0, 1.0, part, rows if keep_rows else ())


def board(**tasks):
    return Leaderboard(
        adapter="x",
        model=ModelData("test", "x"),
        fingerprint=None,
        tasks=tuple(r for name, scores in tasks.items() for r in task_results(name, scores, "s")),
    )


def test_tasks_of_four_and_two_rows():
    means = means_over_tasks(board(four=score_data(FOUR), two=score_data(TWO)))
    assert means.macro.mean == 0.625
    assert means.macro.stderr == pytest.approx(math.hypot(1 / 4, 1 / 2) / 2)
    assert (means.micro.n, means.micro.mean) == (6, pytest.approx(4 / 6))
    assert means.micro.stderr == pytest.approx(math.hypot(4 / 4, 2 / 2) / 6)


def test_a_micro_mean_goes_over_the_rows_of_sub_tasks():
    tasks = board(t=[score_data(FOUR, "a"), score_data(TWO, "b")], u=score_data(TWO))
    assert micro_of_subtasks(tasks.tasks[0]).mean == pytest.approx(4 / 6)
    assert means_over_tasks(tasks).micro.mean == pytest.approx(5 / 8)
    assert means_over_tasks(tasks).macro.mean == pytest.approx((0.625 + 0.5) / 2)


def test_without_rows_there_is_no_micro_mean():
    means = means_over_tasks(board(a=score_data(FOUR), b=score_data(TWO, keep_rows=False)))
    assert (means.macro.mean, means.macro.stderr) == (0.625, None)
    assert means.micro.mean is None


def test_rows_that_were_asked_twice_give_no_error():
    means = means_over_tasks(board(a=[score_data(FOUR), score_data(FOUR, shots=2)]))
    for mean in (means.macro, means.micro):
        assert (mean.mean, mean.stderr, mean.ci95) == (0.75, None, None)


def test_a_task_without_a_result_leaves_nothing():
    failed = Leaderboard(
        adapter="x",
        model=ModelData("test", "x"),
        fingerprint=None,
        tasks=board(a=score_data(FOUR)).tasks,
        failed_tasks=(TaskFailure(task="b", reason="broke"),),
    )
    assert means_over_tasks(failed).macro.mean is None
    assert means_over_tasks(failed).micro.mean is None
