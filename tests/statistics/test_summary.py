# SPDX-License-Identifier: Apache-2.0
"""Mean, standard error and interval of one task's scores."""

import math
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lmeval.statistics import StatisticsError, Summary, summarize
from lmeval.statistics.intervals import combined_interval, wilson_interval

finite_scores = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)
unit_scores = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("scores", "stderr"),
    [
        ([1], None),  # one row has no spread
        ([1, 0], 0.5),  # s = sqrt(0.5), / sqrt(2)
        ([1, 1, 0, 0], math.sqrt(1 / 12)),  # 0.288675: n - 1; with n it would be 0.25
        ([1] * 14 + [0] * 293, 0.011926),  # sqrt(p (1 - p) / 306)
        ([2.0, 4.0, 9.0], math.sqrt(13 / 3)),  # s^2 = (9 + 1 + 16) / 2 = 13
        ([0] * 25, 0.0),
    ],
)
def test_standard_error_is_that_of_the_sample(scores, stderr):
    actual = summarize(scores).stderr
    assert actual == (None if stderr is None else pytest.approx(stderr, abs=1e-6))


@pytest.mark.parametrize(
    ("right", "n", "lower", "upper"),
    [
        (0, 25, 0.0, 0.1332),
        (25, 25, 0.8668, 1.0),
        (0, 5000, 0.0, 0.000768),
        (1, 1, 0.2065, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998a, table I
    ],
)
def test_zero_one_scores_get_the_wilson_interval(right, n, lower, upper):
    summary = summarize([1] * right + [0] * (n - right))
    assert summary.method == "wilson"
    assert summary.ci95 == pytest.approx((lower, upper), abs=5e-5)


def test_wilson_interval_equals_statsmodels():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for right, n in [(0, 3), (1, 3), (14, 307), (300, 307), (307, 307)]:
        expected = proportion.proportion_confint(right, n, 0.05, method="wilson")
        assert wilson_interval(right / n, n) == pytest.approx(expected, abs=1e-12)


def test_other_scores_get_the_t_interval():
    # mean 5, standard error sqrt(13 / 3), t(2) = 4.302653
    summary = summarize([2.0, 4.0, 9.0])
    half_width = 4.302653 * math.sqrt(13 / 3)
    assert summary.method == "t"
    assert summary.ci95 == pytest.approx((5 - half_width, 5 + half_width), abs=1e-5)


def test_t_interval_equals_scipy():
    stats = pytest.importorskip("scipy.stats")
    scores = np.random.default_rng(7).normal(0.4, 0.2, 57)
    summary = summarize(scores)
    expected = stats.t.interval(0.95, 56, loc=scores.mean(), scale=stats.sem(scores))
    assert summary.stderr == pytest.approx(stats.sem(scores), rel=1e-12)
    assert summary.ci95 == pytest.approx(expected, rel=1e-11)


def test_without_rows_everything_is_undefined():
    assert summarize([]) == Summary(n=0, mean=None, stderr=None, ci95=None, method=None)


def test_one_row_that_is_neither_0_nor_1_has_no_interval():
    assert summarize([0.3]) == Summary(n=1, mean=0.3, stderr=None, ci95=None, method=None)


def test_equal_scores_inside_the_unit_interval_get_a_bound_not_a_point():
    summary = summarize([0.1] * 25)
    assert (summary.mean, summary.stderr, summary.method) == (0.1, 0.0, "wilson")
    assert summary.ci95 == wilson_interval(0.1, 25)


def test_equal_scores_on_another_scale_have_no_interval():
    summary = summarize([37.5] * 25)
    assert (summary.mean, summary.stderr, summary.ci95) == (37.5, 0.0, None)


def test_clustered_standard_error_by_hand():
    # Deviations sum to +1 and -1 in the two clusters: sqrt(2 / 1 * (1 + 1)) / 4.
    summary = summarize([1, 1, 0, 0], clusters=["a", "a", "b", "b"])
    assert (summary.n, summary.stderr, summary.method) == (4, 0.5, "clustered t")
    # t(1) = 12.7062
    assert summary.ci95 == pytest.approx((0.5 - 6.3531, 0.5 + 6.3531), abs=1e-4)


def test_clusters_of_unequal_size_by_hand():
    # mean 1/2; sums of deviations: a: +1/2 + 1/2 - 1/2 = 1/2, b: -1/2, c (no label): 0 of 0.5.
    summary = summarize([1, 1, 0, 0, 0.5], clusters=["a", "a", "a", "b", None])
    assert summary.stderr == pytest.approx(math.sqrt(3 / 2 * (0.25 + 0.25)) / 5)


def test_clustered_standard_error_equals_statsmodels():
    api = pytest.importorskip("statsmodels.api")
    generator = np.random.default_rng(3)
    clusters = generator.integers(0, 12, 90)
    scores = generator.normal(size=90) + clusters / 6
    fit = api.OLS(scores, np.ones(90)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert summarize(scores, clusters=clusters.tolist()).stderr == pytest.approx(
        fit.bse[0], rel=1e-10
    )


def test_clusters_of_unequal_size_count_as_fewer():
    # Sizes 3, 1, 1, 1: 6^2 / 12 = 3 effective clusters; t(2) = 4.302653.
    summary = summarize([1, 0, 1, 0, 1, 0], clusters=["a", "a", "a", None, None, None])
    half_width = summary.ci95[1] - summary.mean
    assert half_width == pytest.approx(4.302653 * summary.stderr, rel=1e-6)


def test_the_interval_covers_the_mean_where_one_cluster_holds_half_the_rows():
    generator = np.random.default_rng(6)
    clusters = [0] * 45 + [1 + index // 5 for index in range(45)]
    covered = 0
    for _ in range(300):
        rates = generator.random(10)
        scores = generator.random(90) < rates[clusters]
        lower, upper = summarize(scores, clusters=clusters).ci95
        covered += lower <= 0.5 <= upper
    # t(9) would cover it in 82% of the cases.
    assert covered / 300 > 0.9


def test_clusters_of_one_row_change_nothing():
    scores = [1, 0, 0, 1, 1]
    assert summarize(scores, clusters=range(5)) == summarize(scores)
    assert summarize(scores, clusters=[None] * 5) == summarize(scores)


def test_a_single_cluster_has_no_standard_error():
    summary = summarize([1, 1, 0], clusters=["a"] * 3)
    assert (summary.stderr, summary.ci95) == (None, None)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e148])
def test_tiny_and_huge_scores_keep_their_error(scale):
    scores = [1.0, 2.0, 4.0, -3.0]
    actual, expected = summarize([score * scale for score in scores]), summarize(scores)
    assert actual.stderr == pytest.approx(expected.stderr * scale, rel=1e-12, abs=0.0)
    ends = [end * scale for end in expected.ci95]
    assert actual.ci95 == pytest.approx(ends, rel=1e-12, abs=0.0)


def test_equal_scores_in_clusters_are_bounded_by_the_number_of_clusters():
    summary = summarize([1] * 10, clusters=[0] * 5 + [1] * 5)
    assert summary.ci95 == wilson_interval(1.0, 2)


def test_clusters_with_equal_means_show_no_spread_but_get_an_interval_with_a_width():
    # Every cluster has the mean 0.35, so every sum of deviations is 0 but for rounding.
    summary = summarize([0.1, 0.6] * 5, clusters=list("aabbccddee"))
    assert summary.stderr == 0.0
    assert summary.ci95 == wilson_interval(summary.mean, 5)


def test_repeated_samples_count_as_one_example():
    # Per-example means 1, 0.5, 0: s = 0.5.
    summary = summarize([1, 1, 1, 0, 0, 0], examples=["a", "a", "b", "b", "c", "c"])
    assert (summary.n, summary.mean, summary.method) == (3, 0.5, "t")
    assert summary.stderr == pytest.approx(0.5 / math.sqrt(3))


def test_repeating_every_sample_does_not_shrink_the_error():
    scores = [1, 0, 1, 1, 0]
    again = summarize(scores * 8, examples=list(range(5)) * 8)
    assert again == summarize(scores)


def test_repeated_samples_keep_their_cluster():
    summary = summarize(
        [1, 1, 1, 1, 0, 0], examples=["a", "a", "b", "c", "d", "d"], clusters=list("xxxyyy")
    )
    # Per-example means 1, 1 | 1, 0 with mean 3/4: cluster sums 1/2 and -1/2.
    assert summary.n == 4
    assert summary.stderr == pytest.approx(math.sqrt(2 * 0.5) / 4)


def test_an_example_in_two_clusters_is_refused():
    with pytest.raises(StatisticsError, match="'a' is in more than one cluster"):
        summarize([1, 0], examples=["a", "a"], clusters=["x", "y"])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1, math.nan], r"scores\[1\] must be a finite number \(got nan\)"),
        ([math.inf], r"scores\[0\]"),
        ([1, 0, None], r"scores\[2\] must be a number \(got None\)"),
        ([1, "N/A"], r"scores\[1\] must be a number \(got 'N/A'\)"),
        (["0.5"], r"scores\[0\] must be a number"),
        ([0, []], r"scores\[1\] must be a number"),
        ([[1, 0], [0, 1]], r"scores\[0\]"),
        ([1e200], r"scores\[0\]"),
        ([10**400], r"scores"),
        ([1 + 2j], r"scores\[0\]"),
    ],
)
def test_what_is_no_score_is_refused_by_place(scores, message):
    with pytest.raises(StatisticsError, match=message):
        summarize(scores)


@pytest.mark.parametrize("labels", [{"clusters": ["a"]}, {"examples": ["a", "b", "c"]}])
def test_labels_of_another_length_are_refused(labels):
    with pytest.raises(StatisticsError, match="one entry a row"):
        summarize([1, 0], **labels)


def test_booleans_and_numpy_values_are_scores():
    assert summarize([True, np.float64(0.0), 1, np.int8(0)]) == summarize([1, 0, 1, 0])


@hypothesis.given(finite_scores, st.randoms(use_true_random=False), st.booleans(), st.booleans())
@hypothesis.settings(deadline=None)
def test_row_order_does_not_change_a_bit(scores, shuffler, repeated, clustered):
    generator = random.Random(len(scores))
    rows = [(score, generator.randrange(5)) for score in scores]
    shuffled = rows.copy()
    shuffler.shuffle(shuffled)

    def summary(of):
        labels = [label for _, label in of]
        return summarize(
            [score for score, _ in of],
            examples=labels if repeated else None,
            clusters=labels if clustered else None,
        )

    assert summary(rows) == summary(shuffled)


@hypothesis.given(unit_scores)
@hypothesis.settings(deadline=None)
def test_the_interval_contains_the_mean_and_nothing_is_nan(scores):
    summary = summarize(scores)
    assert min(scores) <= summary.mean <= max(scores)
    assert summary.stderr is None or 0 <= summary.stderr < math.inf
    if summary.ci95 is not None:
        lower, upper = summary.ci95
        assert lower <= summary.mean <= upper
        if summary.method == "wilson":
            assert 0 <= lower < upper <= 1


@hypothesis.given(
    st.lists(st.integers(-50, 50), min_size=3, max_size=30).filter(lambda s: len(set(s)) > 2),
    st.sampled_from([0.125, 3.0, 100.0]),
    st.integers(-9, 9),
)
@hypothesis.settings(deadline=None)
def test_scaling_and_shifting_scores_scales_and_shifts_the_summary(scores, scale, shift):
    before = summarize(scores)
    after = summarize([scale * score + shift for score in scores])
    assert after.mean == pytest.approx(scale * before.mean + shift, abs=1e-9)
    assert after.stderr == pytest.approx(scale * before.stderr, rel=1e-9)
    assert after.ci95 == pytest.approx([scale * end + shift for end in before.ci95], abs=1e-7)


@hypothesis.given(st.integers(0, 60), st.integers(1, 60))
@hypothesis.settings(deadline=None)
def test_wilson_interval_mirrors(right, n):
    right = min(right, n)
    lower, upper = wilson_interval(right / n, n)
    mirrored_lower, mirrored_upper = wilson_interval((n - right) / n, n)
    assert (lower, upper) == pytest.approx((1 - mirrored_upper, 1 - mirrored_lower), abs=1e-12)


@pytest.mark.parametrize(("mean", "n"), [(0.5, 0), (-0.1, 5), (1.1, 5), (math.nan, 5)])
def test_wilson_interval_of_nonsense_is_refused(mean, n):
    with pytest.raises(StatisticsError):
        wilson_interval(mean, n)


def test_combined_interval_of_a_difference_is_newcombes():
    # Newcombe 1998b, example (a): 56/70 against 48/80, method 10: 0.0524 to 0.3339.
    a, b = wilson_interval(48 / 80, 80), wilson_interval(56 / 70, 70)
    actual = combined_interval((-1, 1), (48 / 80, 56 / 70), (a, b))
    assert actual == pytest.approx((0.0524, 0.3339), abs=5e-5)
