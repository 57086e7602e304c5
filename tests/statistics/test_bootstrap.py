# SPDX-License-Identifier: Apache-2.0
"""The bootstrap for numbers over all rows at once."""

import numpy as np
import pytest

from lmeval.statistics import StatisticsError, Summary, bootstrap_summary, summarize


def bootstrap(statistic, rows, resamples=2000, seed=0, units=None):
    return bootstrap_summary(
        statistic,
        rows,
        generator=np.random.default_rng(seed),
        resamples=resamples,
        units=units,
    )


def mean_of(scores):
    return lambda counts: float(counts @ scores / counts.sum())


def test_for_a_mean_it_agrees_with_the_formula():
    scores = np.random.default_rng(1).random(200)
    actual, expected = bootstrap(mean_of(scores), 200), summarize(scores)
    assert (actual.n, actual.method) == (200, "bootstrap")
    assert actual.mean == pytest.approx(expected.mean)
    # 2,000 draws know a standard error to about 1.6%.
    assert actual.stderr == pytest.approx(expected.stderr, rel=0.08)
    assert actual.ci95 == pytest.approx(expected.ci95, abs=0.2 * expected.stderr)


def test_for_a_mean_of_clusters_it_agrees_with_the_formula():
    clusters = np.repeat(np.arange(100), 3).tolist()
    scores = np.repeat(np.random.default_rng(1).random(100), 3)
    expected = summarize(scores, clusters=clusters)
    actual = bootstrap(mean_of(scores), 300, units=clusters)
    assert actual.stderr == pytest.approx(expected.stderr, rel=0.08)
    # Taken as independent, three equal rows would look like three times as much evidence.
    assert bootstrap(mean_of(scores), 300).stderr < 0.65 * expected.stderr


def test_it_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    scores = np.random.default_rng(2).exponential(size=80)

    def spread(values, axis=-1):
        return np.std(values, axis=axis)

    expected = stats.bootstrap(
        (scores,), spread, n_resamples=4000, method="percentile", rng=np.random.default_rng(3)
    )
    actual = bootstrap(lambda counts: float(np.std(np.repeat(scores, counts))), 80, 4000)
    assert actual.stderr == pytest.approx(expected.standard_error, rel=0.06)
    assert actual.ci95 == pytest.approx(expected.confidence_interval, rel=0.06)


def test_for_few_rows_it_makes_up_for_being_too_narrow():
    scores = np.array([0.1, 0.3, 0.35, 0.6, 0.9])
    summary = bootstrap(mean_of(scores), 5, resamples=20_000)
    # Draws of a mean vary by sqrt((n - 1) / n) * s / sqrt(n).
    assert summary.stderr == pytest.approx(summarize(scores).stderr, rel=0.03)
    # sqrt(5 / 4) * t(4) = 3.104: the quantiles of 0.00095 and 0.99905, near the ends of all draws.
    assert summary.ci95 == pytest.approx((0.15, 0.84), abs=0.03)


def test_every_resample_has_as_many_rows_as_there_are():
    seen = set()
    bootstrap(lambda counts: float(seen.add(int(counts.sum())) is None), 7, resamples=50)
    assert seen == {7}


def test_the_same_seed_gives_the_same_result():
    scores = np.arange(10.0)
    first = bootstrap(mean_of(scores), 10, resamples=50)
    assert first == bootstrap(mean_of(scores), 10, resamples=50)
    assert first != bootstrap(mean_of(scores), 10, resamples=50, seed=1)


def test_an_undefined_resample_leaves_error_and_interval_undefined():
    scores = np.array([0.0, 1.0])

    def share_of_ones(counts):
        return counts @ scores / 2 if np.all(counts > 0) else float("nan")

    assert bootstrap(share_of_ones, 2) == Summary(2, 0.5, None, None, None)


def test_what_never_varies_has_no_interval():
    assert bootstrap(lambda counts: 100.0, 5) == Summary(5, 100.0, 0.0, None, None)


def test_one_unit_has_no_error_and_no_rows_have_nothing():
    assert bootstrap(lambda counts: 0.25, 1) == Summary(1, 0.25, None, None, None)
    assert bootstrap(lambda counts: 0.25, 3, units="aaa") == Summary(3, 0.25, None, None, None)
    assert bootstrap(lambda counts: 0.25, 0) == Summary(0, None, None, None, None)


def test_an_undefined_statistic_too_few_resamples_and_missing_labels_are_refused():
    with pytest.raises(StatisticsError, match="no finite number"):
        bootstrap(lambda counts: float("inf"), 3)
    with pytest.raises(StatisticsError, match="resamples"):
        bootstrap(lambda counts: 1.0, 3, resamples=1)
    with pytest.raises(StatisticsError, match="units"):
        bootstrap(lambda counts: 1.0, 3, units=["a", "b"])
