# SPDX-License-Identifier: Apache-2.0
"""Normal, Student t, binomial and hypergeometric, as far as tests and intervals need them.

Everything is done on Python floats, so that scipy is not needed. Relative accuracy, as compared
with scipy: 1e-12 for critical values; for p-values 1e-11 up to 1,000 degrees of freedom or trials,
1e-8 up to 1,000,000.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Iterable
from statistics import NormalDist

from lmeval.statistics.errors import StatisticsError

# A p-value below the smallest normal float would print as 0, which no test can claim.
SMALLEST_P_VALUE = sys.float_info.min

# From here on four terms of the expansion in 1/df leave an error below 1e-13; the continued
# fraction would lose more than that in the logarithms of large gamma functions.
_LARGE_DEGREES_OF_FREEDOM = 1000

# Up to here whole numbers are quick, and a p-value that is 1/32 is not a little more or less.
_MOST_EXACT_TRIALS = 1000


def normal_quantile(probability: float) -> float:
    """The z below which a standard normal variable lies with `probability`.

    Raises:
      StatisticsError: `probability` is not strictly between 0 and 1.
    """
    _require_open_unit("probability", probability)
    return NormalDist().inv_cdf(probability)


def regularized_incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), for a, b > 0 and 0 <= x <= 1.

    Source: the continued fraction of NIST DLMF 8.17.22, evaluated by the modified Lentz method
    (Thompson and Barnett 1986), with the symmetry I_x(a, b) = 1 - I_{1-x}(b, a) where it converges
    faster.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - regularized_incomplete_beta(b, a, 1.0 - x)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
        - math.log(a)
    )
    return math.exp(log_front) * _beta_continued_fraction(a, b, x)


def _beta_continued_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    # The fraction converges within a small multiple of sqrt(max(a, b)) steps (DLMF 8.17(v)).
    steps = 200 + 20 * math.isqrt(int(max(a, b)))
    numerator_ratio = 1.0
    denominator_ratio = 1.0 / ((1.0 - (a + b) * x / (a + 1.0)) or tiny)
    value = denominator_ratio
    for m in range(1, steps):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        factor = 1.0
        for coefficient in (even, odd):
            denominator_ratio = 1.0 / ((1.0 + coefficient * denominator_ratio) or tiny)
            numerator_ratio = (1.0 + coefficient / numerator_ratio) or tiny
            factor = denominator_ratio * numerator_ratio
            value *= factor
        if abs(factor - 1.0) < 1e-15:
            return value
    raise ArithmeticError(f"I_x(a, b) did not converge for a={a!r}, b={b!r}, x={x!r}.")


def t_two_sided_p_value(t: float, degrees_of_freedom: float) -> float:
    """P(|T| >= |t|) for a Student t variable; never 0.

    Source: P(|T| >= t) = I_x(df / 2, 1 / 2) with x = df / (df + t^2) (Abramowitz and Stegun
    26.7.1).

    Raises:
      StatisticsError: `degrees_of_freedom` is not above 0.
    """
    if not degrees_of_freedom > 0:
        raise StatisticsError(f"degrees_of_freedom must be above 0 (got {degrees_of_freedom!r}).")
    half = degrees_of_freedom / 2.0
    beyond = t * t / (degrees_of_freedom + t * t)
    if beyond < 1.5 / (half + 2.5):
        # The other form would begin with 1 - x, in which the digits of a small t are lost.
        return 1.0 - regularized_incomplete_beta(0.5, half, beyond)
    x = degrees_of_freedom / (degrees_of_freedom + t * t)
    return max(regularized_incomplete_beta(half, 0.5, x), SMALLEST_P_VALUE)


@functools.lru_cache(maxsize=1024)
def t_critical_value(degrees_of_freedom: float, confidence: float = 0.95) -> float:
    """The t for which P(|T| <= t) is `confidence`: 2.776 for 4 degrees of freedom and 0.95.

    Source: Newton's method on the two-sided tail, which is convex, so that starting below the root
    (at the normal quantile: a t variable has heavier tails) it can't overshoot: steps are positive
    until rounding ends them; for 1,000 degrees of freedom and more the expansion of Abramowitz and
    Stegun 26.7.5.

    Raises:
      StatisticsError: `degrees_of_freedom` is below 1 or `confidence` is not strictly between 0 and
        1.
    """
    if degrees_of_freedom < 1:
        raise StatisticsError(
            f"degrees_of_freedom must be at least 1 (got {degrees_of_freedom!r})."
        )
    _require_open_unit("confidence", confidence)
    t = normal_quantile(0.5 + confidence / 2.0)
    if degrees_of_freedom >= _LARGE_DEGREES_OF_FREEDOM:
        return _t_from_normal_quantile(t, degrees_of_freedom)
    step = t
    while step > 1e-13 * t:
        excess = t_two_sided_p_value(t, degrees_of_freedom) - (1.0 - confidence)
        step = excess / (2.0 * _t_density(t, degrees_of_freedom))
        t += step
    return t


def _t_density(t: float, degrees_of_freedom: float) -> float:
    half = degrees_of_freedom / 2.0
    log_constant = math.lgamma(half + 0.5) - math.lgamma(half) - 0.5 * math.log(2 * math.pi * half)
    return math.exp(log_constant - (half + 0.5) * math.log1p(t * t / degrees_of_freedom))


def _t_from_normal_quantile(z: float, degrees_of_freedom: float) -> float:
    """Abramowitz and Stegun 26.7.5; the neglected term is of the order of df^-5."""
    z2 = z * z
    terms = (
        z * (z2 + 1) / 4,
        z * ((5 * z2 + 16) * z2 + 3) / 96,
        z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
        z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
    )
    return z + math.fsum(
        term / math.pow(degrees_of_freedom, power) for power, term in enumerate(terms, start=1)
    )


def sign_test_p_value(first: int, second: int) -> float:
    """The exact two-sided p-value of `first` against `second` successes under a fair coin; never 0.

    Raises:
      StatisticsError: a count is below 0.
    """
    if first < 0 or second < 0:
        raise StatisticsError(f"counts must not be below 0 (got {first!r} and {second!r}).")
    fewer, trials = min(first, second), first + second
    if first == second:
        return 1.0
    if trials <= _MOST_EXACT_TRIALS:
        patterns = itertools.accumulate(
            range(fewer), lambda ways, k: ways * (trials - k) // (k + 1), initial=1
        )
        return min(1.0, max(2 * sum(patterns) / (1 << trials), SMALLEST_P_VALUE))
    # P(X <= k) = I_{1/2}(n - k, k + 1) for n fair coins (DLMF 8.17.5).
    tail = regularized_incomplete_beta(trials - fewer, fewer + 1, 0.5)
    return min(1.0, max(2.0 * tail, SMALLEST_P_VALUE))


def fisher_exact_p_value(successes_a: int, n_a: int, successes_b: int, n_b: int) -> float:
    """Fisher's exact two-sided p-value for two independent proportions; never 0.

    It sums the probabilities of every table with the same margins that is at most as likely as the
    observed one (Fisher 1935; the definition that R and scipy use).

    Raises:
      StatisticsError: a count of successes is below 0 or above its number of trials.
    """
    for successes, trials in ((successes_a, n_a), (successes_b, n_b)):
        if not 0 <= successes <= trials:
            raise StatisticsError(f"{successes!r} successes in {trials!r} trials are not possible.")
    total = successes_a + successes_b
    lowest, highest = max(0, total - n_b), min(total, n_a)
    log_ratios = (
        math.log((n_a - k) * (total - k)) - math.log((k + 1) * (n_b - total + k + 1))
        for k in range(lowest, highest)
    )
    log_weights = list(_running_sums(log_ratios))
    largest = max(log_weights)
    weights = [math.exp(log_weight - largest) for log_weight in log_weights]
    # Two tables that are equally likely differ by rounding only; scipy allows for the same.
    limit = weights[successes_a - lowest] * (1.0 + 1e-7)
    tail = math.fsum(weight for weight in weights if weight <= limit)
    return min(1.0, max(tail / math.fsum(weights), SMALLEST_P_VALUE))


def _running_sums(values: Iterable[float]) -> Iterable[float]:
    total = 0.0
    yield total
    for value in values:
        total += value
        yield total


def _require_open_unit(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise StatisticsError(f"{name} must lie strictly between 0 and 1 (got {value!r}).")
