# SPDX-License-Identifier: Apache-2.0
"""Comparison by a number over all rows at once."""

import numpy as np
import pytest

from lmeval.statistics import StatisticsError, compare_paired, compare_resampled


def compare(statistic, rows, *, units=None, resamples=10_000, seed=0):
    return compare_resampled(
        statistic,
        rows,
        generator=np.random.default_rng(seed),
        units=units,
        resamples=resamples,
    )


def mean_of(first, second):
    scores = np.concatenate((first, second))
    return lambda counts: float(counts @ scores / counts.sum())


@pytest.fixture(scope="module")
def scores():
    generator = np.random.default_rng(5)
    first = generator.random(60)
    return first, first + generator.normal(0.03, 0.1, 60)


def test_for_a_mean_it_agrees_with_the_paired_comparison(scores):
    actual = compare(mean_of(*scores), 60)
    expected = compare_paired(*scores, generator=np.random.default_rng(1))
    assert (actual.n, actual.test) == (60, "randomization")
    assert actual.difference == pytest.approx(expected.difference)
    assert actual.stderr == pytest.approx(expected.stderr, rel=0.1)
    assert actual.ci95 == pytest.approx(expected.ci95, abs=0.25 * expected.stderr)
    # Both draw from the same null distribution of exchanged answers.
    assert actual.p_value == pytest.approx(expected.p_value, abs=0.015)
    assert actual.detectable == pytest.approx(expected.detectable, rel=0.1)


def test_it_agrees_with_scipy(scores):
    stats = pytest.importorskip("scipy.stats")

    def difference(a, b, axis=-1):
        return np.std(b, axis=axis) - np.std(a, axis=axis)

    expected = stats.permutation_test(
        scores,
        difference,
        permutation_type="samples",
        n_resamples=4000,
        rng=np.random.default_rng(2),
    )
    both = np.concatenate(scores)
    actual = compare(lambda counts: float(np.std(np.repeat(both, counts))), 60, resamples=4000)
    assert actual.difference == pytest.approx(expected.statistic)
    assert actual.p_value == pytest.approx(expected.pvalue, abs=0.03)


def test_equal_answers_show_no_difference(scores):
    result = compare(mean_of(scores[0], scores[0]), 60, resamples=100)
    assert (result.difference, result.p_value) == (0.0, 1.0)
    assert (result.stderr, result.ci95, result.detectable) == (0.0, None, None)


def test_the_p_value_is_never_0():
    result = compare(mean_of(np.zeros(30), np.ones(30)), 30, resamples=99)
    assert result.p_value == 1 / 100


def test_the_rows_of_a_unit_stand_together():
    # Ten units of 50 equal rows: 2 of the 1,024 exchanges are as far as the one found.
    units = np.repeat(np.arange(10), 50).tolist()
    result = compare(mean_of(np.zeros(500), np.ones(500)), 500, units=units, resamples=4000)
    assert result.p_value == pytest.approx(2 / 1024, abs=0.002)


def test_an_exchange_without_a_statistic_counts_as_far():
    def only_unmixed(counts):
        return float(counts[:2].sum()) if len(set(counts.tolist())) == 2 else float("nan")

    def defined_for_one_model(counts):
        unmixed = counts.tolist() in ([1, 1, 0, 0], [0, 0, 1, 1])
        return only_unmixed(counts) if unmixed else float("nan")

    result = compare(defined_for_one_model, 2, resamples=50)
    assert (result.mean_a, result.mean_b, result.p_value) == (2.0, 0.0, 1.0)
    assert (result.stderr, result.ci95) == (None, None)


def test_no_rows_give_nothing_and_bad_arguments_are_refused():
    assert compare(lambda counts: 1.0, 0).p_value is None
    with pytest.raises(StatisticsError, match="resamples"):
        compare(lambda counts: 1.0, 2, resamples=0)
    with pytest.raises(StatisticsError, match="no finite number"):
        compare(lambda counts: float("nan"), 2)
