# SPDX-License-Identifier: Apache-2.0
"""The sign-flip test: exact, sampled, and what it must not depend on."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lmeval.statistics import StatisticsError
from lmeval.statistics.permutation import sign_flip_test


def p_value(differences, seed=0, resamples=1000):
    generator = np.random.default_rng(seed)
    return sign_flip_test(np.array(differences, dtype=float), generator, resamples).p_value


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([0.5], 1.0),
        ([1.0, 2.0, 3.0], 2 / 8),  # only +++ and --- reach 6
        ([3.0, 2.0, -1.0], 4 / 8),  # 4: also ++ with the small one either way
        ([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0], 2 / 32),
        ([0.1, 0.2, -0.3], 1.0),  # the sum is 0 but for rounding
    ],
)
def test_exact_p_value_by_hand(differences, expected):
    result = sign_flip_test(np.array(differences), np.random.default_rng(0))
    assert (result.p_value, result.kind) == (expected, "permutation exact")


def test_exact_test_equals_scipy():
    stats = pytest.importorskip("scipy.stats")
    differences = np.random.default_rng(5).normal(0.4, 1, 11)
    expected = stats.permutation_test(
        (differences,), np.sum, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert p_value(differences) == pytest.approx(expected, rel=1e-12)


def test_without_a_resample_beyond_the_observed_p_is_one_in_m_plus_one():
    result = sign_flip_test(np.ones(200), np.random.default_rng(1), resamples=1000)
    assert (result.p_value, result.kind) == (1 / 1001, "permutation sampled")


def test_sampled_p_value_is_near_the_exact_one():
    # For 21 equal differences the test is the sign test: 15 to 6 has p = 0.0784.
    differences = [1.0] * 15 + [-1.0] * 6
    # The standard error of 20,000 draws is 0.0019.
    assert p_value(differences, resamples=20_000) == pytest.approx(0.0784, abs=0.008)


def test_rows_beyond_one_chunk_are_sampled_too():
    differences = np.random.default_rng(2).normal(size=70_001)
    same = p_value(differences, resamples=40)
    # The test is valid at any size: a difference of 0.1 standard deviations is clear here.
    assert p_value(differences + 0.1, resamples=40) == 1 / 41
    assert same > 1 / 41


@hypothesis.given(
    st.lists(st.floats(-5, 5), min_size=21, max_size=40),
    st.randoms(use_true_random=False),
    st.sampled_from([1.0, -1.0]),
    st.integers(0, 3),
)
@hypothesis.settings(max_examples=50, deadline=None)
def test_neither_row_order_nor_which_model_is_first_matters(differences, shuffler, sign, zeros):
    shuffled = [sign * difference for difference in differences] + [0.0] * zeros
    shuffler.shuffle(shuffled)
    assert p_value(differences, resamples=50) == p_value(shuffled, resamples=50)


def test_the_global_random_state_is_not_touched():
    np.random.seed(4)
    before = np.random.get_state()[1].tolist()
    p_value(np.ones(50))
    assert np.random.get_state()[1].tolist() == before


def test_under_the_null_small_p_values_are_rare():
    generator = np.random.default_rng(11)
    p_values = [p_value(generator.normal(size=25), seed=i, resamples=99) for i in range(400)]
    # 5% of 400 is 20 with a standard deviation of 4.4.
    assert sum(p <= 0.05 for p in p_values) <= 34


def test_no_resamples_are_refused():
    with pytest.raises(StatisticsError, match="resamples"):
        p_value(np.ones(30), resamples=0)
