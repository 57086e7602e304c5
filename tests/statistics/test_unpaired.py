# SPDX-License-Identifier: Apache-2.0
"""Two means without their rows."""

import math

import numpy as np
import pytest

from lmeval.statistics import Summary, compare_unpaired, summarize
from lmeval.statistics.unpaired import is_zero_one


def test_error_of_the_difference_adds_the_squares():
    result = compare_unpaired(summarize([1, 1, 1, 0]), summarize([1, 0]))
    assert result.difference == -0.25
    assert result.stderr == pytest.approx(math.hypot(0.25, 0.5))


def test_zero_one_means_get_fishers_test():
    result = compare_unpaired(summarize([1] * 3 + [0]), summarize([1] + [0] * 3))
    assert (result.test, result.p_value) == ("fisher exact", pytest.approx(34 / 70))


def test_a_drop_from_all_right_to_all_wrong_is_seen():
    result = compare_unpaired(summarize([1] * 20), summarize([0] * 20))
    assert result.stderr == 0.0
    assert result.p_value < 1e-9
    assert result.ci95[1] < -0.7


def test_other_means_get_welchs_test_as_scipy_has_it():
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(2)
    a, b = generator.random(30), generator.random(50) * 0.8
    result = compare_unpaired(summarize(a), summarize(b))
    expected = stats.ttest_ind(b, a, equal_var=False)
    assert (result.test, result.p_value) == ("welch t", pytest.approx(expected.pvalue, rel=1e-10))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1, 0, 1], True),
        ([1, 1], True),
        ([0, 0], True),
        ([1, 0.5, 0], False),
        ([0.5, 0.5], False),
        ([5, 5], False),
        ([1], False),
        ([], False),
    ],
)
def test_zero_one_rows_show_in_their_error(scores, expected):
    assert is_zero_one(summarize(scores)) is expected


def test_clustered_zero_one_rows_are_not_taken_as_independent():
    assert not is_zero_one(summarize([1, 1, 0, 0], clusters=list("aabb")))


def test_without_errors_there_is_a_difference_and_no_test():
    bare = Summary(n=10, mean=0.5, stderr=None, ci95=None, method=None)
    result = compare_unpaired(bare, summarize([1, 1]))
    assert (result.difference, result.stderr, result.ci95) == (0.5, None, None)
    assert (result.p_value, result.test, result.detectable) == (None, None, None)


def test_equal_scores_that_are_no_zeros_and_ones_allow_no_test():
    result = compare_unpaired(summarize([0.5, 0.5]), summarize([0.25, 0.25]))
    assert (result.p_value, result.test) == (None, None)
    assert result.ci95 is not None


def test_without_a_mean_there_is_nothing():
    assert compare_unpaired(summarize([]), summarize([1])).difference is None
