# SPDX-License-Identifier: Apache-2.0
"""How many rows a difference needs to be seen, and what difference a number of rows can show.

All functions speak of two models on the same rows and of a two-sided test. `alpha` is the chance of
a false alarm, `power` the chance to find a difference that is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lmeval.statistics.distributions import normal_quantile
from lmeval.statistics.errors import StatisticsError

ALPHA = 0.05
POWER = 0.8


def minimal_detectable_difference(
    stderr: float, *, units: int | None = None, alpha: float = ALPHA, power: float = POWER
) -> float | None:
    """The smallest true difference that a comparison with this standard error finds.

    This is `rows_needed` solved for the difference: (z(1 - alpha / 2) + z(power)) * stderr, 2.80
    standard errors by default, for many units, and more for few.

    Args:
      stderr: the standard error of the mean difference.
      units: how many independent differences it comes from, for the sign-flip test; None: many.
      alpha: chance of a false alarm.
      power: chance to find the difference.

    Returns:
      The difference; None for so few units that none would be shown.

    Raises:
      StatisticsError: `alpha` or `power` is not strictly between 0 and 1.
    """
    z_alpha, z_power = _z_values(alpha, power)
    if units is None:
        return (z_alpha + z_power) * stderr
    fewest = _fewest_differences(alpha)
    if units < fewest:
        return None
    by_size = (z_alpha + z_power) / math.sqrt(units - z_alpha * z_alpha / 2.0)
    if units == fewest:
        by_size = max(by_size, normal_quantile(power ** (1.0 / fewest)))
    return by_size * math.sqrt(units) * stderr


def rows_needed(
    difference: float, standard_deviation: float, *, alpha: float = ALPHA, power: float = POWER
) -> int:
    """How many rows show a mean difference, for scores on any scale.

    ((z(1 - alpha / 2) + z(power)) * standard_deviation / difference)^2, the normal approximation in
    every textbook (for evaluations in Miller 2024, "Adding Error Bars to Evals"), plus z(1 - alpha
    / 2)^2 / 2 for the standard deviation not being known beforehand (Guenther 1981), rounded up.
    Exchanging signs cannot show anything with fewer rows than 6 at the 5% level, and with as many
    only if all differences have one sign, for which at least one more may be needed.

    Args:
      difference: the true mean difference of the two models, not 0.
      standard_deviation: that of the row-by-row differences: sqrt(n) times their standard error.
      alpha: chance of a false alarm.
      power: chance to find the difference.

    Raises:
      StatisticsError: `difference` is 0, `standard_deviation` is below 0, or a chance is out of
        range.
    """
    _require_difference(difference)
    if not 0.0 <= standard_deviation < math.inf:
        raise StatisticsError(
            f"standard_deviation must not be below 0 (got {standard_deviation!r})."
        )
    z_alpha, z_power = _z_values(alpha, power)
    ratio = (z_alpha + z_power) * standard_deviation / abs(difference)
    fewest = _fewest_differences(alpha)
    rows = math.ceil(ratio * ratio + z_alpha * z_alpha / 2.0)
    if rows > fewest:
        return rows
    all_of_one_sign = normal_quantile(power ** (1.0 / fewest)) * standard_deviation
    return fewest if all_of_one_sign <= abs(difference) else fewest + 1


def expected_discordant_rate(baseline: float, difference: float, correlation: float) -> float:
    """The share of rows that only one of two models gets right.

    p (1 - q) + q (1 - p) - 2 r sqrt(p (1 - p) q (1 - q)) for the accuracies p = `baseline` and q =
    baseline + difference with correlation r of right and wrong over rows; at least |difference|,
    which no correlation can undercut.

    Raises:
      StatisticsError: an accuracy is not in [0, 1] or the correlation not in [-1, 1].
    """
    other = baseline + difference
    if not (0.0 <= baseline <= 1.0 and -1e-12 <= other <= 1.0 + 1e-12):
        raise StatisticsError(
            f"accuracies must lie between 0 and 1 (got {baseline:g} and {other:g})."
        )
    if not -1.0 <= correlation <= 1.0:
        raise StatisticsError(f"correlation must lie between -1 and 1 (got {correlation!r}).")
    other = min(1.0, max(0.0, other))
    independent = baseline * (1.0 - other) + other * (1.0 - baseline)
    spread = math.sqrt(baseline * (1.0 - baseline) * other * (1.0 - other))
    return min(1.0, max(abs(difference), independent - 2.0 * correlation * spread))


def rows_needed_zero_one(
    difference: float, discordant_rate: float, *, alpha: float = ALPHA, power: float = POWER
) -> int:
    """How many rows show a difference of two accuracies by McNemar's exact test.

    n0 = (z(1 - alpha / 2) sqrt(r) + z(power) sqrt(r - d^2))^2 / d^2 for the discordant rate r
    (Connor 1987), then n = n0 / 4 * (1 + sqrt(1 + 4 / (n0 d)))^2: the continuity correction of
    Edwards 1948 (|b - c| - 1 for |b - c|) solved for n. It makes up for the exact test's caution;
    without it the power is 0.76 to 0.79 for 0.8.

    Args:
      difference: the true difference of the two accuracies, not 0.
      discordant_rate: the share of rows that only one of the models gets right; at least
        |difference|.
      alpha: chance of a false alarm.
      power: chance to find the difference.

    Raises:
      StatisticsError: a value is out of range.
    """
    _require_difference(difference)
    size = abs(difference)
    # The allowance is for 0.3 - 0.1 and its like.
    if not size - 1e-12 <= discordant_rate <= 1.0:
        raise StatisticsError(
            f"the discordant rate must lie between the difference and 1 (got {discordant_rate:g} "
            f"for a difference of {size:g})."
        )
    return math.ceil(_real_rows_zero_one(size, discordant_rate, alpha, power))


def minimal_detectable_zero_one(
    n: int,
    discordant_rate: Callable[[float], float],
    *,
    largest: float = 1.0,
    alpha: float = ALPHA,
    power: float = POWER,
) -> float | None:
    """The smallest difference of two accuracies that n rows show.

    This is `rows_needed_zero_one` solved for the difference.

    Args:
      n: the number of rows.
      discordant_rate: from a difference above 0 to the discordant rate expected with it.
      largest: the largest difference that is possible, 1 - baseline for a gain.
      alpha: chance of a false alarm.
      power: chance to find the difference.

    Returns:
      The difference, or None when not even the largest would be shown.

    Raises:
      StatisticsError: a value is out of range.
    """
    if n < 1:
        raise StatisticsError(f"n must be at least 1 (got {n!r}).")

    def is_shown(difference: float) -> bool:
        rate = discordant_rate(difference)
        return _real_rows_zero_one(difference, rate, alpha, power) <= n

    if largest <= 0.0 or not is_shown(largest):
        return None
    hidden, shown = 0.0, largest
    for _ in range(60):
        middle = (hidden + shown) / 2.0
        if is_shown(middle):
            shown = middle
        else:
            hidden = middle
    return shown


def _real_rows_zero_one(size: float, discordant_rate: float, alpha: float, power: float) -> float:
    z_alpha, z_power = _z_values(alpha, power)
    variance = max(0.0, discordant_rate - size * size)
    uncorrected = (z_alpha * math.sqrt(discordant_rate) + z_power * math.sqrt(variance)) / size
    uncorrected *= uncorrected
    return uncorrected / 4.0 * (1.0 + math.sqrt(1.0 + 4.0 / (uncorrected * size))) ** 2


def _fewest_differences(alpha: float) -> int:
    """The fewest n for which one sign pattern of 2^n, and its mirror image, are below alpha."""
    return math.floor(math.log2(2.0 / alpha)) + 1


def _z_values(alpha: float, power: float) -> tuple[float, float]:
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0.0 < value < 1.0:
            raise StatisticsError(f"{name} must lie strictly between 0 and 1 (got {value!r}).")
    return normal_quantile(1.0 - alpha / 2.0), normal_quantile(power)


def _require_difference(difference: float) -> None:
    if difference == 0.0 or not math.isfinite(difference):
        raise StatisticsError(f"difference must be a number other than 0 (got {difference!r}).")
