# SPDX-License-Identifier: Apache-2.0
"""Rows needed and differences that can be shown."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lmeval.statistics import (
    StatisticsError,
    expected_discordant_rate,
    minimal_detectable_difference,
    minimal_detectable_zero_one,
    rows_needed,
    rows_needed_zero_one,
)
from lmeval.statistics.permutation import sign_flip_test


def test_detectable_difference_is_two_point_eight_standard_errors():
    # 1.959964 + 0.841621
    assert minimal_detectable_difference(0.01) == pytest.approx(0.02801585, abs=1e-8)
    # 1.644854 + 1.281552
    assert minimal_detectable_difference(1.0, alpha=0.1, power=0.9) == pytest.approx(2.926406)


@pytest.mark.parametrize(
    ("difference", "standard_deviation", "expected"),
    [
        (0.5, 1.0, 34),  # (2.801585 / 0.5)^2 + 1.959964^2 / 2 = 31.40 + 1.92
        (-0.5, 1.0, 34),
        (0.03, 0.5, 2183),  # (2.801585 * 0.5 / 0.03)^2 + 1.92 = 2180.2 + 1.92
        (1.0, 0.0, 6),  # two of 2^6 patterns of signs are 3.1%, two of 2^5 are 6.25%
        (1.8, 1.0, 6),  # chance that all six are above 0: Phi(1.8)^6 = 0.802
        (1.5, 1.0, 7),  # Phi(1.5)^6 = 0.66
    ],
)
def test_rows_needed_by_hand(difference, standard_deviation, expected):
    assert rows_needed(difference, standard_deviation) == expected


@pytest.mark.parametrize("difference", [0.3, 0.5, 0.9, 1.2, 1.4, 2.0])
def test_rows_needed_give_the_permutation_test_the_promised_power(difference):
    n = rows_needed(difference, 1.0)
    generator = np.random.default_rng(8)
    trials = 600
    shown = sum(
        sign_flip_test(generator.normal(difference, 1.0, n), generator, 400).p_value < 0.05
        for _ in range(trials)
    )
    # Three standard deviations of a share of 0.8 of 600 trials.
    assert shown / trials > 0.8 - 0.049


@pytest.mark.parametrize("difference", [0.1, 0.5, 1.0, 1.4, 1.8])
def test_detectable_difference_and_rows_needed_of_any_scores_are_inverse(difference):
    n = rows_needed(difference, 1.0)
    shown = minimal_detectable_difference(1 / math.sqrt(n), units=n)
    assert shown <= difference
    assert rows_needed(shown * (1 + 1e-9), 1.0) == n
    fewer = minimal_detectable_difference(1 / math.sqrt(n - 1), units=n - 1)
    assert fewer is None or fewer > difference


def test_fewer_than_six_differences_show_nothing():
    assert minimal_detectable_difference(0.1, units=5) is None
    assert minimal_detectable_difference(0.1, units=5, alpha=0.1) is not None


@pytest.mark.parametrize(
    ("baseline", "difference", "correlation", "expected"),
    [
        (0.5, 0.1, 0.0, 0.5),
        (0.8, 0.1, 0.0, 0.8 * 0.1 + 0.9 * 0.2),
        (0.5, 0.1, 0.5, 0.5 - 2 * 0.5 * math.sqrt(0.25 * 0.24)),
        (0.5, 0.1, 1.0, 0.1),  # no correlation makes fewer rows change than the difference
        (0.9, 0.1, 0.0, 0.1),
        (0.9, -0.9, 0.0, 0.9),
    ],
)
def test_discordant_rate_by_hand(baseline, difference, correlation, expected):
    rate = expected_discordant_rate(baseline, difference, correlation)
    assert rate == pytest.approx(expected)


def test_zero_one_rows_needed_by_hand():
    # n0 = (1.959964 sqrt(0.2) + 0.841621 sqrt(0.19))^2 / 0.01 = 154.60; with the correction
    # 154.60 / 4 * (1 + sqrt(1 + 4 / 15.460))^2 = 174.02.
    assert rows_needed_zero_one(0.1, 0.2) == 175


def exact_power(n, difference, rate):
    """The power of McNemar's exact two-sided 5% test, summed over all outcomes."""
    stats = pytest.importorskip("scipy.stats")
    power = 0.0
    for changed, weight in enumerate(stats.binom.pmf(np.arange(n + 1), n, rate)):
        if weight > 1e-9:
            tail = stats.binom.cdf(np.arange(changed + 1), changed, 0.5)
            critical = int(np.searchsorted(tail, 0.025, side="right")) - 1
            share = (rate + difference) / (2 * rate)
            power += weight * stats.binom.sf(changed - critical - 1, changed, share)
            power += weight * stats.binom.cdf(critical, changed, share)
    return power


@pytest.mark.parametrize(
    ("difference", "rate"),
    [(0.05, 0.1), (0.1, 0.1), (0.1, 0.5), (0.2, 0.24), (0.4, 0.8), (0.8, 0.8)],
)
def test_the_exact_test_has_the_promised_power(difference, rate):
    n = rows_needed_zero_one(difference, rate)
    assert exact_power(n, difference, rate) > 0.795
    # Nor are the rows many more than needed, save for tiny numbers of rows.
    assert exact_power(math.ceil(0.7 * n) - 3, difference, rate) < 0.8


@hypothesis.given(st.integers(20, 10**7), st.floats(0.05, 0.95), st.floats(-0.3, 0.95))
@hypothesis.settings(max_examples=60, deadline=None)
def test_detectable_difference_and_rows_needed_are_inverse(n, baseline, correlation):
    def rate(difference):
        return expected_discordant_rate(baseline, difference, correlation)

    difference = minimal_detectable_zero_one(n, rate, largest=1 - baseline)
    if difference is None:
        assert rows_needed_zero_one(1 - baseline, rate(1 - baseline)) > n
    else:
        needed = rows_needed_zero_one(difference, rate(difference))
        assert needed <= n
        smaller = difference * (1 - 1e-6)
        assert rows_needed_zero_one(smaller, rate(smaller)) >= needed


def test_too_few_rows_can_show_nothing():
    assert minimal_detectable_zero_one(5, lambda difference: difference) is None
    assert minimal_detectable_zero_one(100, lambda difference: difference, largest=0.0) is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: rows_needed(0.0, 1.0),
        lambda: rows_needed(math.nan, 1.0),
        lambda: rows_needed(0.1, -1.0),
        lambda: rows_needed(0.1, 1.0, alpha=0.0),
        lambda: rows_needed(0.1, 1.0, power=1.0),
        lambda: rows_needed_zero_one(0.2, 0.1),
        lambda: rows_needed_zero_one(0.2, 1.1),
        lambda: expected_discordant_rate(0.9, 0.2, 0.0),
        lambda: expected_discordant_rate(0.5, 0.2, 1.5),
        lambda: minimal_detectable_zero_one(0, lambda difference: 0.5),
    ],
)
def test_arguments_out_of_range_are_refused(call):
    with pytest.raises(StatisticsError):
        call()
