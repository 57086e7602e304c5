# SPDX-License-Identifier: Apache-2.0
"""Holm's correction."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from lmeval.statistics import StatisticsError, holm


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([], []),
        ([0.03], [0.03]),
        # Sorted: 0.005 * 4, 0.01 * 3, 0.03 * 2, then 0.04 * 1 is raised to the one before.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.6, 0.7], [1.0, 1.0]),
        ([0.02, None, 0.04], [0.04, None, 0.04]),
        ([None], [None]),
    ],
)
def test_holm_by_hand(p_values, expected):
    assert holm(p_values) == [None if p is None else pytest.approx(p) for p in expected]


def test_holm_equals_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    generator = np.random.default_rng(0)
    for tests in range(1, 40):
        p_values = generator.random(tests) ** 3
        expected = multitest.multipletests(p_values, method="holm")[1]
        assert holm(p_values.tolist()) == pytest.approx(expected.tolist(), abs=1e-15)


@hypothesis.given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@hypothesis.settings(deadline=None)
def test_adjusting_keeps_the_order_and_never_makes_a_p_value_smaller(p_values):
    pairs = sorted(zip(p_values, holm(p_values), strict=True))
    assert all(p <= adjusted <= 1 for p, adjusted in pairs)
    assert [adjusted for _, adjusted in pairs] == sorted(adjusted for _, adjusted in pairs)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(wrong):
    with pytest.raises(StatisticsError, match=r"p_values\[1\]"):
        holm([0.5, wrong])
