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
    micro = micro_mean([summarize(FOUR), summarize(TWO)])
    assert (micro.n, micro.mean) == (6, 4 / 6)
    assert micro.stderr == pytest.approx(math.sqrt((4 / 4) ** 2 + (2 / 2) ** 2) / 6)


def test_the_error_of_a_micro_mean_is_that_of_rows_drawn_within_given_groups():
    # Groups that differ, without spread in them: drawing their rows anew would change nothing.
    assert micro_mean([summarize([0.25] * 4), summarize([0.75] * 2)]).stderr == 0.0


def test_clusters_and_repeated_samples_count_in_a_micro_mean():
    clustered = summarize([1, 1, 0, 0], clusters=["a", "a", "b", "b"])  # standard error 1/2
    repeated = summarize([1, 0, 1, 0], examples=["x", "x", "y", "y"])  # two examples of 1/2
    micro = micro_mean([clustered, repeated])
    assert (micro.n, micro.mean) == (6, 0.5)
    assert micro.stderr == pytest.approx(4 * 0.5 / 6)


def test_intervals_come_from_the_groups_intervals():
    groups = [summarize(FOUR), summarize(TWO)]
    (lower_four, upper_four), (lower_two, upper_two) = (group.ci95 for group in groups)
    below = math.hypot(0.75 - lower_four, 0.5 - lower_two) / 2
    above = math.hypot(upper_four - 0.75, upper_two - 0.5) / 2
    assert macro_mean(groups).ci95 == pytest.approx((0.625 - below, 0.625 + above))
    below = math.hypot(4 * (0.75 - lower_four), 2 * (0.5 - lower_two)) / 6
    above = math.hypot(4 * (upper_four - 0.75), 2 * (upper_two - 0.5)) / 6
    assert micro_mean(groups).ci95 == pytest.approx((4 / 6 - below, 4 / 6 + above))


def test_groups_that_are_all_right_still_have_an_interval_with_a_width():
    macro = macro_mean([summarize([1] * 20), summarize([1] * 30)])
    assert (macro.mean, macro.stderr) == (1.0, 0.0)
    lower, upper = macro.ci95
    assert lower < 1.0
    assert upper == 1.0


@pytest.mark.parametrize(("mean_of", "mean"), [(macro_mean, 0.625), (micro_mean, 0.7)])
def test_a_missing_error_stays_missing(mean_of, mean):
    whole = mean_of([summarize(FOUR), summarize([0.5])])
    assert (whole.n, whole.mean) == (5, mean)
    assert (whole.stderr, whole.ci95, whole.method) == (None, None, None)


@pytest.mark.parametrize("groups", [[], [summarize([])], [summarize(FOUR), summarize([])]])
@pytest.mark.parametrize("mean_of", [macro_mean, micro_mean])
def test_without_a_mean_in_every_group_there_is_none(mean_of, groups):
    n = sum(group.n for group in groups)
    assert mean_of(groups) == Summary(n=n, mean=None, stderr=None, ci95=None, method=None)


@pytest.mark.parametrize("mean_of", [macro_mean, micro_mean])
def test_one_group_is_its_own_mean(mean_of):
    assert mean_of([summarize(FOUR)]) == summarize(FOUR)


@hypothesis.given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=5)
)
@hypothesis.settings(deadline=None)
def test_macro_and_micro_means_agree_for_groups_of_one_size(groups):
    summaries = [summarize(group) for group in groups]
    macro, micro = macro_mean(summaries), micro_mean(summaries)
    assert macro.mean == pytest.approx(micro.mean, abs=1e-12)
    assert macro.stderr == pytest.approx(micro.stderr, abs=1e-12)


@hypothesis.given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=5)
)
@hypothesis.settings(deadline=None)
def test_a_micro_mean_is_the_mean_over_all_rows(groups):
    rows = [score for group in groups for score in group]
    assert micro_mean([summarize(group) for group in groups]).mean == pytest.approx(
        math.fsum(rows) / len(rows), abs=1e-12
    )
