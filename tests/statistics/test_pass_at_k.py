# SPDX-License-Identifier: Apache-2.0
"""pass@k and when it is not available."""

import itertools
import math

import pytest

from lmeval.statistics import StatisticsError, mean_pass_at_k, pass_at_k


@pytest.mark.parametrize(
    ("samples", "correct", "k", "expected"),
    [
        (2, 0, 5, None),  # fewer samples than k
        (1, 1, 10, None),
        (5, 2, 3, 0.9),  # 1 - C(3, 3) / C(5, 3)
        (200, 1, 10, 0.05),
        (20, 3, 5, 0.6009),  # 1 - C(17, 5) / C(20, 5) = 1 - 6188 / 15504
        (10, 10, 3, 1.0),
        (10, 0, 3, 0.0),
        (100_000, 3, 1, 0.00003),
    ],
)
def test_pass_at_k(samples, correct, k, expected):
    actual = pass_at_k(samples, correct, k)
    assert actual == (None if expected is None else pytest.approx(expected, abs=5e-5, rel=1e-9))


def test_pass_at_k_counts_the_choices_of_k_samples():
    for samples, correct, k in itertools.product(range(1, 7), range(7), range(1, 7)):
        if correct <= samples and k <= samples:
            choices = list(itertools.combinations(range(samples), k))
            solved = sum(min(choice) < correct for choice in choices)
            assert pass_at_k(samples, correct, k) == pytest.approx(solved / len(choices))


def test_the_mean_is_over_examples_and_keeps_fractions():
    summary = mean_pass_at_k([(10, 1), (10, 0)], k=1)
    assert (summary.n, summary.mean) == (2, pytest.approx(0.05))
    assert summary.stderr == pytest.approx(0.05)  # s = 0.1 / sqrt(2)


def test_one_greedy_sample_an_example_gives_no_pass_at_10():
    summary = mean_pass_at_k([(1, 1)] * 50 + [(1, 0)] * 114, k=10)
    assert (summary.n, summary.mean, summary.stderr, summary.ci95) == (164, None, None, None)


@pytest.mark.parametrize("arguments", [(5, 6, 1), (5, -1, 1), (5, 2, 0)])
def test_impossible_counts_are_refused(arguments):
    with pytest.raises(StatisticsError):
        pass_at_k(*arguments)


def test_large_counts_stay_exact():
    assert pass_at_k(2000, 1, 1000) == 0.5
    assert not math.isnan(pass_at_k(5000, 2500, 2500))
