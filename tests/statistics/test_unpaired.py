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
    # Their error is 0 as that of independent rows; 2 clusters against 2 prove nothing.
    right, wrong = (summarize([score] * 100, clusters=[0, 1] * 50) for score in (1, 0))
    assert compare_unpaired(right, wrong).p_value is None


def test_tiny_scores_are_not_taken_for_zeros():
    stats = pytest.importorskip("scipy.stats")
    a, b = [1e-20, 2e-20, 3e-20], [9e-20, 18e-20, 27e-20]
    expected = stats.ttest_ind(np.array(b) * 1e20, np.array(a) * 1e20, equal_var=False).pvalue
    result = compare_unpaired(summarize(a), summarize(b))
    assert (result.test, result.p_value) == ("welch t", pytest.approx(expected))


@pytest.mark.parametrize("scale", [1e-150, 1e100])
def test_welchs_test_does_not_depend_on_the_scale(scale):
    a, b = [0.1, 0.2, 0.6], [0.7, 0.9, 0.8, 0.4]
    scaled = [summarize([score * scale for score in scores]) for scores in (a, b)]
    expected = compare_unpaired(summarize(a), summarize(b)).p_value
    assert compare_unpaired(*scaled).p_value == pytest.approx(expected)


def test_means_of_clusters_are_tested_with_as_many_degrees_of_freedom_as_they_have():
    stats = pytest.importorskip("scipy.stats")
    a, b = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.9, 0.5, 0.8])
    # Ten equal rows a cluster say no more than its mean.
    clustered = [
        summarize(np.repeat(means, 10), clusters=np.repeat(np.arange(len(means)), 10).tolist())
        for means in (a, b)
    ]
    expected = stats.ttest_ind(b, a, equal_var=False).pvalue
    assert compare_unpaired(*clustered).p_value == pytest.approx(expected, rel=1e-6)


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
