# SPDX-License-Identifier: Apache-2.0
"""Our distributions against scipy and against values from tables."""

import math

import pytest

from lmeval.statistics import StatisticsError, distributions


@pytest.mark.parametrize(
    ("degrees_of_freedom", "expected"),
    # From the printed table of Student's t, two-sided 5%.
    [(1, 12.7062), (2, 4.3027), (4, 2.7764), (30, 2.0423), (120, 1.9799)],
)
def test_t_critical_value_agrees_with_the_printed_table(degrees_of_freedom, expected):
    assert distributions.t_critical_value(degrees_of_freedom) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    "degrees_of_freedom", [1, 2, 3, 4, 7, 50, 333, 999, 1000, 1001, 10**5, 10**9]
)
@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.95, 0.99, 0.9999])
def test_t_critical_value_equals_scipy(degrees_of_freedom, confidence):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.t.ppf(0.5 + confidence / 2, degrees_of_freedom)
    actual = distributions.t_critical_value(degrees_of_freedom, confidence)
    assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("degrees_of_freedom", [1, 2, 3.5, 10, 99.25, 1000, 12345.6])
@pytest.mark.parametrize("t", [0.0, 1e-9, 0.5, 1.0, 2.0, -2.0, 8.0, 40.0])
def test_t_p_value_equals_scipy(degrees_of_freedom, t):
    stats = pytest.importorskip("scipy.stats")
    expected = 2 * stats.t.sf(abs(t), degrees_of_freedom)
    actual = distributions.t_two_sided_p_value(t, degrees_of_freedom)
    assert actual == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1, 3), (40, 2.5), (300, 500), (5000, 0.5)])
@pytest.mark.parametrize("x", [0.0, 1e-12, 0.3, 0.5, 0.9, 0.999999, 1.0])
def test_incomplete_beta_equals_scipy(a, b, x):
    special = pytest.importorskip("scipy.special")
    actual = distributions.regularized_incomplete_beta(a, b, x)
    assert actual == pytest.approx(special.betainc(a, b, x), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (12, 3, 0.03515625),  # 2 * (1 + 15 + 105 + 455) / 2^15
        (3, 12, 0.03515625),
        (0, 5, 0.0625),  # 2 / 2^5
        (1, 0, 1.0),
        (4, 4, 1.0),
        (0, 0, 1.0),
    ],
)
def test_sign_test_by_hand(first, second, expected):
    assert distributions.sign_test_p_value(first, second) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("first", "second"), [(500, 400), (3, 900), (5000, 5100), (50_000, 50_001), (50_000, 51_000)]
)
def test_sign_test_equals_scipy(first, second):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(first, first + second).pvalue
    assert distributions.sign_test_p_value(first, second) == pytest.approx(expected, rel=1e-9)


def test_a_p_value_that_is_a_power_of_two_is_no_less():
    # Else it would pass a level that it only reaches.
    assert [distributions.sign_test_p_value(0, n) for n in range(2, 8)] == [
        0.5**exponent for exponent in range(1, 7)
    ]


@pytest.mark.parametrize("degrees_of_freedom", [1, 50, 1e5])
@pytest.mark.parametrize("t", [1e-9, 1e-7, 1e-5, 1e-3])
def test_the_digits_of_a_small_t_are_kept(degrees_of_freedom, t):
    stats = pytest.importorskip("scipy.stats")
    expected = 1 - 2 * t * stats.t.pdf(0, degrees_of_freedom)  # the next term is of t^3
    actual = distributions.t_two_sided_p_value(t, degrees_of_freedom)
    assert actual == pytest.approx(expected, abs=1e-9)


def test_no_p_value_is_zero_however_clear_the_case():
    assert distributions.sign_test_p_value(0, 10_000) > 0
    assert distributions.t_two_sided_p_value(1e6, 1000) > 0
    assert distributions.fisher_exact_p_value(0, 5000, 5000, 5000) > 0


def test_fisher_exact_by_hand():
    # Margins 4 + 4 and 4 of 8: (3, 1) has 16 of 70 ways, (4, 0) one; both sides: 2 * 17 / 70.
    assert distributions.fisher_exact_p_value(3, 4, 1, 4) == pytest.approx(34 / 70, rel=1e-12)


@pytest.mark.parametrize(
    "table", [(0, 1, 1, 1), (2, 2, 0, 2), (82, 100, 73, 100), (14, 307, 30, 250), (900, 2000, 1, 7)]
)
def test_fisher_exact_equals_scipy(table):
    stats = pytest.importorskip("scipy.stats")
    successes_a, n_a, successes_b, n_b = table
    expected = stats.fisher_exact(
        [[successes_a, n_a - successes_a], [successes_b, n_b - successes_b]]
    ).pvalue
    assert distributions.fisher_exact_p_value(*table) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    "call",
    [
        lambda: distributions.normal_quantile(1.0),
        lambda: distributions.normal_quantile(math.nan),
        lambda: distributions.t_critical_value(0),
        lambda: distributions.t_critical_value(3, 1.0),
        lambda: distributions.t_two_sided_p_value(1.0, 0.0),
        lambda: distributions.sign_test_p_value(-1, 2),
        lambda: distributions.fisher_exact_p_value(3, 2, 0, 2),
    ],
)
def test_arguments_out_of_range_are_refused(call):
    with pytest.raises(StatisticsError):
        call()
