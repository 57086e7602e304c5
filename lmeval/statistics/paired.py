# SPDX-License-Identifier: Apache-2.0
"""Comparison of two models on the same examples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, Literal, TypeAlias, TypeVar

import attrs
import numpy as np

from lmeval.statistics.distributions import normal_quantile, sign_test_p_value
from lmeval.statistics.errors import StatisticsError
from lmeval.statistics.groups import macro_mean
from lmeval.statistics.intervals import CONFIDENCE, Interval, t_interval
from lmeval.statistics.permutation import sign_flip_test
from lmeval.statistics.power import minimal_detectable_difference, minimal_detectable_zero_one
from lmeval.statistics.summary import Summary, mean_with_error
from lmeval.statistics.values import (
    FloatArray,
    IntArray,
    Labels,
    average_samples,
    label_numbers,
    score_array,
    sums_by_number,
)

Key = TypeVar("Key", bound=Hashable)

# Relative to the numbers that are subtracted or added: what is smaller is no difference.
_ROUNDING = 1e-12
PairedTest: TypeAlias = Literal[
    "mcnemar exact", "permutation exact", "permutation sampled", "randomization"
]


@attrs.frozen
class Pairing(Generic[Key]):
    """The rows of two runs, matched by key.

    Attributes:
      common: the keys that both runs have, in the order of the first run.
      only_in_a: the keys that only the first run has.
      only_in_b: the keys that only the second run has.
    """

    common: tuple[Key, ...]
    only_in_a: tuple[Key, ...]
    only_in_b: tuple[Key, ...]


def pair_keys(rows_a: Mapping[Key, object], rows_b: Mapping[Key, object]) -> Pairing[Key]:
    """Matches rows by their keys, never by their place."""
    return Pairing(
        common=tuple(key for key in rows_a if key in rows_b),
        only_in_a=tuple(key for key in rows_a if key not in rows_b),
        only_in_b=tuple(key for key in rows_b if key not in rows_a),
    )


@attrs.frozen
class PairedComparison:
    """How the second of two models differs from the first on the same examples.

    Attributes:
      n: how many examples both have.
      mean_a: the first model's mean score on them; None without examples.
      mean_b: the second model's.
      difference: mean_b - mean_a.
      stderr: the paired standard error of the difference; None where it is undefined.
      ci95: the 95% interval of the difference; None where it is undefined.
      p_value: two-sided, never 0; None without examples.
      test: the test behind `p_value`.
      higher_in_b: on how many examples the second model scored higher.
      lower_in_b: on how many it scored lower.
      detectable: the difference that this many examples would show with 80% power at the 5% level:
        for McNemar's test given the share of examples that changed, otherwise given how much the
        differences vary; None where that is undefined, and where no difference would show.
    """

    n: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    stderr: float | None
    ci95: Interval | None
    p_value: float | None
    test: PairedTest | None
    higher_in_b: int
    lower_in_b: int
    detectable: float | None


@attrs.frozen
class _Group:
    """The examples of one group of rows, one entry an example."""

    scores_a: FloatArray
    scores_b: FloatArray
    differences: FloatArray
    clusters: Labels | None

    @property
    def within_unit(self) -> bool:
        both = np.concatenate((self.scores_a, self.scores_b))
        return bool(np.all((both >= 0.0) & (both <= 1.0)))

    @property
    def zero_one(self) -> bool:
        both = np.concatenate((self.scores_a, self.scores_b))
        return bool(np.all((both == 0.0) | (both == 1.0)))


def compare_paired(
    scores_a: Sequence[float] | FloatArray,
    scores_b: Sequence[float] | FloatArray,
    *,
    generator: np.random.Generator,
    examples: Labels | None = None,
    clusters: Labels | None = None,
    groups: Labels | None = None,
    resamples: int = 10_000,
) -> PairedComparison:
    """Compares two models on the same rows: difference b - a, its error, its interval and a test.

    The test is McNemar's exact one (the sign test on the examples that changed) where all scores
    are 0 or 1 and rows are independent and equally weighted, and `sign_flip_test` otherwise.
    Repeated samples are averaged per example first. With clusters, errors are clustered and the
    signs of a whole cluster flip together. With groups, means are macro means, as a task with
    several sub-tasks reports them, and each group has its own error.

    Args:
      scores_a: the first model's score of each row.
      scores_b: the second model's score of the same rows in the same order (see `pair_keys`).
      generator: source of the random signs.
      examples: the example of each row, for repeated samples; None: each row is an example of its
        own.
      clusters: the cluster of each row; None: rows are independent.
      groups: the group of each row; None: there is one group.
      resamples: sign patterns to draw, where not all can be tried.

    Raises:
      StatisticsError: a score is no finite number, or lengths differ.
    """
    first, second = score_array(scores_a, "scores_a"), score_array(scores_b, "scores_b")
    if len(first) != len(second):
        raise StatisticsError(f"paired scores must be as many ({len(first)} and {len(second)}).")
    if len(first) == 0:
        return PairedComparison(0, None, None, None, None, None, None, None, 0, 0, None)
    parts = [
        _group(first, second, rows, examples, clusters)
        for rows in _rows_by_group(groups, len(first))
    ]
    summary = macro_mean([_difference_summary(part) for part in parts])
    totals = np.concatenate([_unit_totals(part) for part in parts])
    p_value, test = _test(parts, totals, generator, resamples)
    return PairedComparison(
        n=summary.n,
        mean_a=_mean([part.scores_a for part in parts]),
        mean_b=_mean([part.scores_b for part in parts]),
        difference=summary.mean,
        stderr=summary.stderr,
        ci95=summary.ci95,
        p_value=p_value,
        test=test,
        higher_in_b=sum(int(np.count_nonzero(part.differences > 0.0)) for part in parts),
        lower_in_b=sum(int(np.count_nonzero(part.differences < 0.0)) for part in parts),
        detectable=_detectable(parts, summary, test, len(totals)),
    )


def _rows_by_group(groups: Labels | None, rows: int) -> list[IntArray]:
    if groups is None:
        return [np.arange(rows)]
    numbers = label_numbers(groups, rows, "groups")
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def _group(
    first: FloatArray,
    second: FloatArray,
    rows: IntArray,
    examples: Labels | None,
    clusters: Labels | None,
) -> _Group:
    own_examples = None if examples is None else [examples[row] for row in rows]
    own_clusters = None if clusters is None else [clusters[row] for row in rows]
    scores_a, merged_clusters = average_samples(first[rows], own_examples, own_clusters)
    scores_b, _ = average_samples(second[rows], own_examples, own_clusters)
    differences = scores_b - scores_a
    # 0.1 + 0.2 against 0.3 is no change.
    rounding = _ROUNDING * np.maximum(np.abs(scores_a), np.abs(scores_b))
    differences[np.abs(differences) <= rounding] = 0.0
    return _Group(scores_a, scores_b, differences, merged_clusters)


def _mean(groups: Sequence[FloatArray]) -> float:
    return math.fsum(mean_with_error(scores).mean for scores in groups) / len(groups)


def _difference_summary(group: _Group) -> Summary:
    result = mean_with_error(group.differences, group.clusters)
    n = len(group.differences)
    # Differences that cancel out on paper leave a trace of rounding.
    is_rounding = abs(result.mean) <= _ROUNDING * float(np.abs(group.differences).max())
    mean = 0.0 if is_rounding else result.mean
    if result.stderr is None:
        return Summary(n, mean, None, None, None)
    if result.stderr > 0.0:
        interval = t_interval(mean, result.stderr, result.degrees_of_freedom)
        return Summary(n, mean, result.stderr, interval, "t")
    interval_of_equals = (
        _interval_of_equals(mean, result.effective_units) if group.within_unit else None
    )
    return Summary(n, mean, 0.0, interval_of_equals, None)


def _interval_of_equals(difference: float, units: float) -> Interval:
    """The interval of a mean difference when all differences are equal and scores lie in [0, 1].

    One unit of +1 and one of -1 are added, so that "no row changed" does not read as "no row ever
    will".

    Source: Bonett and Price 2012, the adjusted Wald interval for paired proportions.
    """
    padded = units + 2
    centre = units * difference / padded
    variance = (units * difference * difference + 2.0) / padded - centre * centre
    half_width = normal_quantile(0.5 + CONFIDENCE / 2) * math.sqrt(variance / padded)
    return max(-1.0, centre - half_width), min(1.0, centre + half_width)


def _test(
    groups: Sequence[_Group],
    unit_totals: FloatArray,
    generator: np.random.Generator,
    resamples: int,
) -> tuple[float, PairedTest]:
    only = groups[0]
    if len(groups) == 1 and only.clusters is None and only.zero_one:
        higher = int(np.count_nonzero(only.differences > 0.0))
        lower = int(np.count_nonzero(only.differences < 0.0))
        return sign_test_p_value(higher, lower), "mcnemar exact"
    result = sign_flip_test(unit_totals, generator, resamples)
    return result.p_value, result.kind


def _detectable(
    groups: Sequence[_Group], summary: Summary, test: PairedTest, units: int
) -> float | None:
    if test == "mcnemar exact":
        seen = float(np.mean(groups[0].differences != 0.0))
        return minimal_detectable_zero_one(summary.n, lambda difference: max(seen, difference))
    return minimal_detectable_difference(summary.stderr, units=units) if summary.stderr else None


def _unit_totals(group: _Group) -> FloatArray:
    """The difference of each independent unit, weighted as it counts in the macro mean."""
    weighted = group.differences / len(group.differences)
    if group.clusters is None:
        return weighted
    numbers = label_numbers(group.clusters, len(group.differences), "clusters")
    totals = sums_by_number(weighted, numbers)
    # The sign of what rounding leaves of 0.1 + 0.2 - 0.3 says nothing.
    totals[np.abs(totals) <= _ROUNDING * sums_by_number(np.abs(weighted), numbers)] = 0.0
    return totals
