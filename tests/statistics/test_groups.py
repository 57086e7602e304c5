# SPDX-License-Identifier: Apache-2.0
"""Macro and micro means, each with its own error."""

import math

import hypothesis
import pytest
from hypothesis import strategies as st

from lmeval.statistics import Summary, macro_mean, micro_mean, summarize

FOUR = [1, 1, 1, 0]  # mean 3/4, standard error sqrt(3/16/3) = 1/4
TWO = [0, 1]  # mean 1/2, standard error 1/2


def test_macro_and_micro_of_groups_of_four_and_two():
    macro = macro_mean([summarize(FOUR), summarize(TWO)])
    assert (macro.n, macro.mean) == (6, 0.625)
    assert macro.stderr == pytest.approx(math.sqrt(1 / 16 + 1 / 4) / 2)
    micro = micro_mean([FOUR, TWO])
    assert micro == summarize(FOUR + TWO)
    assert micro.mean == pytest.approx(4 / 6)
    assert micro.stderr == pytest.approx(math.sqrt(4 / 6 * 2 / 6 / 5))


def test_macro_interval_comes_from_the_groups_intervals():
    groups = [summarize(FOUR), summarize(TWO)]
    (lower_four, upper_four), (lower_two, upper_two) = (group.ci95 for group in groups)
    below = math.hypot(0.75 - lower_four, 0.5 - lower_two) / 2
    above = math.hypot(upper_four - 0.75, upper_two - 0.5) / 2
    assert macro_mean(groups).ci95 == pytest.approx((0.625 - below, 0.625 + above))


def test_groups_that_are_all_right_still_have_an_interval_with_a_width():
    macro = macro_mean([summarize([1] * 20), summarize([1] * 30)])
    assert (macro.mean, macro.stderr) == (1.0, 0.0)
    lower, upper = macro.ci95
    assert lower < 1.0
    assert upper == 1.0


def test_a_missing_error_stays_missing():
    macro = macro_mean([summarize(FOUR), summarize([0.5])])
    assert (macro.n, macro.mean) == (5, 0.625)
    assert (macro.stderr, macro.ci95, macro.method) == (None, None, None)


@pytest.mark.parametrize("groups", [[], [summarize([])], [summarize(FOUR), summarize([])]])
def test_without_a_mean_in_every_group_there_is_no_macro_mean(groups):
    assert macro_mean(groups).mean is None


def test_one_group_is_its_own_macro_mean():
    assert macro_mean([summarize(FOUR)]) == summarize(FOUR)


def test_micro_mean_of_nothing_is_undefined():
    assert micro_mean([[], []]) == Summary(n=0, mean=None, stderr=None, ci95=None, method=None)


@hypothesis.given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=5)
)
@hypothesis.settings(deadline=None)
def test_macro_and_micro_means_agree_for_groups_of_one_size(groups):
    macro = macro_mean([summarize(group) for group in groups])
    assert macro.mean == pytest.approx(micro_mean(groups).mean, abs=1e-12)
