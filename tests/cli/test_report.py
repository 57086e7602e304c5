# SPDX-License-Identifier: Apache-2.0
"""What a run says below its table."""

import io

import pytest

from lmeval import ExampleScore, ModelData, ScoreData
from lmeval.api.results import Leaderboard, task_results
from lmeval.cli.report import print_leaderboard


def task(name, *finish_reasons, high_score=1.0):
    rows = tuple(
        ExampleScore(
            id=str(number), score=1.0, prompt="p", prediction="a", targets=("a",), finish_reason=why
        )
        for number, why in enumerate(finish_reasons)
    )
    score = ScoreData({"m": 1.0}, "m", 0, 0.0, high_score, per_example=rows)
    return task_results(name, score, "hash")


def printed(*tasks):
    out = io.StringIO()
    results = tuple(result for results in tasks for result in results)
    model = ModelData("test", "m")
    print_leaderboard(Leaderboard(adapter="m", model=model, fingerprint=None, tasks=results), out)
    return out.getvalue()


def test_answers_whose_end_is_missing_are_counted():
    (result,) = task("sums", "length", "stop", None, "length")
    assert result.cut_off == 2
    assert "sums: 2 answers of 4 cut off" in printed([result])


def test_whole_answers_are_not_worth_a_word():
    assert "cut off" not in printed(task("sums", "stop", None))


@pytest.mark.parametrize(("high_score", "is_told"), [(100.0, True), (1.0, False)])
def test_scores_on_different_scales_are_told(high_score, is_told):
    said = printed(task("a", None), task("b", None, high_score=high_score))
    assert ("The tasks have different scales" in said) == is_told
    assert ("mean over all 2 rows" in said) != is_told
