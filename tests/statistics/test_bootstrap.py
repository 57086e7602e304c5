# SPDX-License-Identifier: Apache-2.0
"""The bootstrap for numbers over all rows at once."""

import numpy as np
import pytest

from lmeval.statistics import StatisticsError, Summary, bootstrap_summary, summarize


def bootstrap(statistic, rows, resamples=2000, seed=0):
    return bootstrap_summary(
        statistic, rows, generator=np.random.default_rng(seed), resamples=resamples
    )


def test_for_a_mean_it_agrees_with_the_formula():
    scores = np.random.default_rng(1).random(200)
    actual, expected = bootstrap(lambda rows: scores[rows].mean(), 200), summarize(scores)
    assert (actual.n, actual.method) == (200, "bootstrap")
    assert actual.mean == pytest.approx(expected.mean)
    # 2,000 draws know a standard error to about 1.6%.
    assert actual.stderr == pytest.approx(expected.stderr, rel=0.08)
    assert actual.ci95 == pytest.approx(expected.ci95, abs=0.2 * expected.stderr)


def test_the_same_seed_gives_the_same_result():
    scores = np.arange(10.0)
    first = bootstrap(lambda rows: np.median(scores[rows]), 10, resamples=50)
    assert first == bootstrap(lambda rows: np.median(scores[rows]), 10, resamples=50)


def test_an_undefined_resample_leaves_error_and_interval_undefined():
    scores = np.array([0.0, 1.0])

    def share_of_ones(rows):
        return scores[rows].sum() / len(set(rows)) if len(set(rows)) == 2 else float("nan")

    assert bootstrap(share_of_ones, 2) == Summary(2, 0.5, None, None, None)


def test_one_row_has_no_error_and_no_rows_have_nothing():
    assert bootstrap(lambda rows: 0.25, 1) == Summary(1, 0.25, None, None, None)
    assert bootstrap(lambda rows: 0.25, 0) == Summary(0, None, None, None, None)


def test_an_undefined_statistic_and_too_few_resamples_are_refused():
    with pytest.raises(StatisticsError, match="no finite number"):
        bootstrap(lambda rows: float("inf"), 3)
    with pytest.raises(StatisticsError, match="resamples"):
        bootstrap(lambda rows: 1.0, 3, resamples=1)
