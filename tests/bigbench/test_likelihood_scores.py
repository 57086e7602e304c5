# SPDX-License-Identifier: Apache-2.0
import math

import pytest

from lmeval.bigbench.likelihood_scores import log_likelihood


def test_single_targets_are_also_given_per_word_and_character():
    scores = log_likelihood([["ab cd"], ["x"]], [[-2.0], [-1.0]])
    assert {name: score.value for name, score in scores.items()} == {
        "log_likelihood": -1.5,
        "log_likelihood_per_word": (-1.0 - 1.0) / 2,
        "log_likelihood_per_char": (-0.4 - 1.0) / 2,
    }


def test_the_probabilities_of_several_targets_add_up():
    scores = log_likelihood([["a", "b"]], [[-1.0, -2.0]])
    assert list(scores) == ["log_likelihood"]
    assert math.isclose(scores["log_likelihood"].value, -0.6867383124817772)


@pytest.mark.parametrize("value", [-math.inf, math.nan])
def test_what_is_not_finite_counts_as_the_low_score(value):
    score = log_likelihood([["a"], ["b"]], [[value], [-2.0]])["log_likelihood"]
    assert score.value == -6
    assert list(score.warnings) == [0]
