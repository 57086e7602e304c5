# SPDX-License-Identifier: Apache-2.0
"""Two models on the same examples."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lmeval.statistics import (
    StatisticsError,
    compare_paired,
    compare_unpaired,
    pair_keys,
    summarize,
)

# 70 both right, 12 only A, 3 only B, 15 neither.
A = [1] * 70 + [1] * 12 + [0] * 3 + [0] * 15
B = [1] * 70 + [0] * 12 + [1] * 3 + [0] * 15


def compare(a, b, seed=0, **labels):
    return compare_paired(a, b, generator=np.random.default_rng(seed), **labels)


def test_the_textbook_case_of_a_hundred_rows():
    result = compare(A, B)
    assert (result.n, result.mean_a, result.mean_b) == (100, 0.82, 0.73)
    assert result.difference == pytest.approx(-0.09)
    assert result.stderr == pytest.approx(0.03786, abs=5e-6)
    assert result.p_value == pytest.approx(0.03516, abs=5e-6)
    assert result.test == "mcnemar exact"
    assert (result.higher_in_b, result.lower_in_b) == (3, 12)
    # t(99) = 1.98422
    half_width = 1.98422 * 0.037859
    assert result.ci95 == pytest.approx((-0.09 - half_width, -0.09 + half_width), abs=1e-5)


def test_taking_the_rows_as_independent_would_miss_it():
    result = compare_unpaired(summarize(A), summarize(B))
    assert result.p_value > 0.1
    assert result.stderr > 0.05


def test_mcnemar_equals_statsmodels():
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    expected = tables.mcnemar([[70, 12], [3, 15]], exact=True).pvalue
    assert compare(A, B).p_value == pytest.approx(expected, rel=1e-12)


def test_paired_error_and_interval_equal_scipy():
    stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(1)
    a = generator.random(40)
    b = np.clip(a + generator.normal(0.02, 0.1, 40), 0, 1)
    result = compare(a, b)
    expected = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert result.ci95 == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert result.stderr == pytest.approx(stats.sem(b - a), rel=1e-12)


def test_scores_between_0_and_1_get_the_permutation_test():
    # Differences 0.5, 0.25, 0.25 and 0: only two of eight sign patterns reach 1.
    result = compare([0, 0.5, 0.5, 1], [0.5, 0.75, 0.75, 1])
    assert (result.test, result.p_value) == ("permutation exact", 0.25)
    assert result.difference == 0.25


def test_equal_answers_are_no_proof_of_equal_models():
    result = compare([1, 1, 0, 1], [1, 1, 0, 1])
    assert (result.difference, result.stderr, result.p_value) == (0.0, 0.0, 1.0)
    # One row each way is added: sqrt(2 / 6 / 6) * 1.95996.
    assert result.ci95 == pytest.approx((-0.461967, 0.461967), abs=1e-6)


def test_a_clean_sweep_has_an_interval_with_a_width():
    result = compare([0] * 10, [1] * 10)
    assert (result.difference, result.stderr) == (1.0, 0.0)
    lower, upper = result.ci95
    assert 0 < lower < 1
    assert upper == 1.0
    assert result.p_value == pytest.approx(2 / 2**10)


def test_equal_differences_on_another_scale_have_no_interval():
    result = compare([10, 20, 30], [15, 25, 35])
    assert (result.difference, result.stderr, result.ci95) == (5.0, 0.0, None)


def test_rounding_is_no_difference():
    result = compare([0.1 + 0.2, 0.5, 0.25], [0.3, 0.5, 0.25])
    assert (result.higher_in_b, result.lower_in_b, result.difference) == (0, 0, 0.0)


def test_changes_that_cancel_out_within_each_cluster_are_no_difference():
    # In floats 0.1 + 0.2 - 0.3 is 2.8e-17, in all 20 clusters above 0.
    a, b = [0.3, 0.3, 0.3] * 20, [0.4, 0.5, 0.0] * 20
    result = compare(a, b, clusters=[index // 3 for index in range(60)])
    assert (result.difference, result.p_value) == (0.0, 1.0)


def test_one_row_has_no_error():
    result = compare([1], [0])
    assert (result.difference, result.stderr, result.ci95, result.p_value) == (
        -1.0,
        None,
        None,
        1.0,
    )


def test_no_rows_have_nothing():
    result = compare([], [])
    assert (result.n, result.difference, result.p_value, result.test) == (0, None, None, None)


def test_repeated_samples_are_averaged_per_example():
    # Per-example means: A 1, 0.5, 0; B 0.5, 0.5, 0.
    result = compare(
        [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], examples=["a", "a", "b", "b", "c", "c"]
    )
    assert (result.n, result.mean_a, result.test) == (3, 0.5, "permutation exact")
    assert result.difference == pytest.approx(-1 / 6)
    assert (result.higher_in_b, result.lower_in_b) == (0, 1)


def test_clusters_flip_together_and_widen_the_error():
    a, b = [0] * 6, [1] * 6
    clusters = ["x"] * 3 + ["y"] * 3
    result = compare(a, b, clusters=clusters)
    # Two clusters: 2 of 4 patterns reach the observed sum; the six rows alone would give 2 / 64.
    assert (result.p_value, result.test) == (0.5, "permutation exact")
    # Differences 1, 1, 1 | 0, 0, 0: cluster sums of deviations 3/2 and -3/2.
    mixed = compare(a, [1, 1, 1, 0, 0, 0], clusters=clusters)
    assert mixed.stderr == pytest.approx(math.sqrt(2 * 2 * 2.25) / 6)
    assert mixed.stderr > compare(a, [1, 1, 1, 0, 0, 0]).stderr


def test_a_cluster_that_holds_most_rows_widens_the_interval_not_the_error():
    # Cluster sizes 8, 1, 1: 10^2 / (64 + 1 + 1) = 1.515 effective clusters, t(1).
    clusters, b = ["x"] * 8 + ["y", "z"], [0.5] * 8 + [0.1, 0.2]
    result = compare([0.0] * 10, b, clusters=clusters)
    assert result.ci95[1] - result.difference == pytest.approx(12.7062 * result.stderr, rel=1e-5)


def test_groups_give_the_macro_difference_with_its_own_error():
    a = [0, 0, 0, 0, 0, 0]
    b = [1, 0, 0, 0, 1, 0]
    result = compare(a, b, groups=["p", "p", "p", "p", "q", "q"])
    # Means of differences 1/4 and 1/2; errors 1/4 and 1/2.
    assert result.difference == pytest.approx(0.375)
    assert result.stderr == pytest.approx(math.hypot(0.25, 0.5) / 2)
    assert (result.mean_a, result.mean_b) == (0.0, pytest.approx(0.375))
    # Weighted differences 1/4 and 1/2: 2 of 4 sign patterns reach 3/4.
    assert (result.p_value, result.test) == (0.5, "permutation exact")


def test_groups_may_use_the_same_ids_and_come_in_any_order():
    scattered = compare(
        [0, 1, 0, 1], [1, 1, 1, 0], examples=list("aabb"), groups=["p", "q", "p", "q"]
    )
    assert scattered.n == 4
    ordered = compare(
        [0, 0, 1, 1], [1, 1, 1, 0], examples=list("abab"), groups=["p", "p", "q", "q"]
    )
    assert scattered == ordered


def test_one_group_is_as_no_group():
    assert compare(A, B, groups=["only"] * 100) == compare(A, B)


def test_detectable_difference_follows_from_how_much_rows_vary():
    a = np.linspace(0, 1, 50)
    b = a[::-1].copy()
    result = compare(a, b)
    expected = 2.801585 * math.sqrt(50 / (50 - 1.959964**2 / 2)) * result.stderr
    assert result.detectable == pytest.approx(expected, rel=1e-6)


def test_five_differences_can_show_nothing():
    # The smallest p-value is 2 / 2^5.
    result = compare([0.1, 0.2, 0.3, 0.4, 0.5], [0.9, 0.8, 0.9, 0.8, 0.9])
    assert (result.p_value, result.detectable) == (0.0625, None)


def test_detectable_difference_of_zero_one_rows_needs_no_difference_seen():
    few, many = compare([1] * 50, [1] * 50), compare([1] * 5000, [1] * 5000)
    assert 0.1 < few.detectable < 0.3
    assert many.detectable < few.detectable / 10


@hypothesis.given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(0, 3), st.integers(0, 1)),
        min_size=1,
        max_size=30,
    ),
    st.randoms(use_true_random=False),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_row_order_does_not_change_a_bit(rows, shuffler):
    def result(of):
        a, b, clusters, groups = zip(*of, strict=True)
        return compare_paired(
            a,
            b,
            generator=np.random.default_rng(0),
            clusters=clusters,
            groups=groups,
            resamples=20,
        )

    shuffled = rows.copy()
    shuffler.shuffle(shuffled)
    assert result(rows) == result(shuffled)


@hypothesis.given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40),
    st.sampled_from([1, 4]),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_swapping_the_models_mirrors_the_result(rows, scale):
    a = [first / scale for first, _ in rows]
    b = [second / scale for _, second in rows]
    one, other = compare(a, b), compare(b, a)
    assert other.difference == -one.difference
    assert (other.stderr, other.p_value) == (one.stderr, one.p_value)
    if one.ci95 is None:
        assert other.ci95 is None
    else:
        assert other.ci95 == pytest.approx((-one.ci95[1], -one.ci95[0]))
        assert one.ci95[0] <= one.difference <= one.ci95[1]
    assert 0 < one.p_value <= 1


def test_scores_of_different_number_are_refused():
    with pytest.raises(StatisticsError, match="2 and 1"):
        compare([1, 0], [1])


def test_what_is_no_score_is_refused_by_file_and_place():
    with pytest.raises(StatisticsError, match=r"scores_b\[1\]"):
        compare([1, 0], [1, None])


def test_rows_are_paired_by_key_not_by_place():
    a = {"q1": 1, "q2": 0, "q3": 1}
    b = {"q9": 1, "q2": 0, "q1": 1}
    pairing = pair_keys(a, b)
    assert pairing.common == ("q1", "q2")
    assert (pairing.only_in_a, pairing.only_in_b) == (("q3",), ("q9",))
