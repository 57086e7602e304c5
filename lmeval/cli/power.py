# SPDX-License-Identifier: Apache-2.0
"""`lmeval power`: how many rows a difference needs, or what difference N rows can show."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TextIO

import attrs
from absl import flags

from lmeval.api.errors import UsageError
from lmeval.cli.tables import print_table, shown_score

USAGE = "power --difference D | --n N [flags]"
HELP = (
    "Say how many rows it takes to see a difference between two models on the same rows, or the "
    "smallest difference that N rows can show."
)

_CORRELATIONS_SHOWN = (0.0, 0.25, 0.5, 0.75)
_DEFAULT_BASELINE = 0.5


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""

    def number(name: str, default: float | None, help_text: str) -> None:
        flags.DEFINE_float(name, default, help_text, flag_values=flag_values)

    number("difference", None, "The difference to see; below 0 for a loss.")
    flags.DEFINE_integer("n", None, "Number of rows.", lower_bound=1, flag_values=flag_values)
    number("baseline", None, "Score of the first model, for right/wrong rows (0.5 if not given).")
    number("correlation", None, "Correlation of right and wrong between the two models over rows.")
    number("discordant", None, "Or: the share of rows that only one of them gets right.")
    number("stddev", None, "Or, for other scores: the spread of the row-by-row differences.")
    number("alpha", 0.05, "Chance of a false alarm, two-sided.")
    number("power", 0.8, "Chance to see a difference that is there.")


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Print the rows needed or the detectable difference; always 0."""
    if args:
        raise UsageError(f"power takes flags only (found {args[0]!r}).")
    if (flag_values.n is None) == (flag_values.difference is None):
        raise UsageError("power needs one of --difference and --n.")
    _refuse_contradictions(flag_values)
    from lmeval.statistics import StatisticsError

    try:
        if flag_values.stddev is not None:
            _print_for_any_scores(flag_values, out)
        else:
            _print_for_zero_one(flag_values, out)
    except StatisticsError as error:
        raise UsageError(f"power: {error}") from None
    return 0


def _refuse_contradictions(values: flags.FlagValues) -> None:
    for name in ("difference", "baseline", "correlation", "discordant", "stddev"):
        if values[name].value is not None and not math.isfinite(values[name].value):
            raise UsageError(f"--{name} must be a number (got {values[name].value}).")
    for leader in ("stddev", "discordant"):
        for other in ("baseline", "correlation", "discordant"):
            if leader != other and None not in (values[leader].value, values[other].value):
                raise UsageError(f"--{leader} says it all; leave --{other} out.")
    if values.discordant is not None and not 0.0 <= values.discordant <= 1.0:
        raise UsageError(f"--discordant must lie between 0 and 1 (got {values.discordant:g}).")
    if None not in (values.discordant, values.difference) and (
        values.discordant < abs(values.difference)
    ):
        raise UsageError("--discordant cannot be smaller than the difference.")
    if values.stddev is not None and values.stddev < 0.0:
        raise UsageError(f"--stddev must not be below 0 (got {values.stddev:g}).")


def _print_for_any_scores(values: flags.FlagValues, out: TextIO) -> None:
    from lmeval.statistics import minimal_detectable_difference, rows_needed

    levels = _levels(values)
    if values.n is None:
        rows = rows_needed(values.difference, values.stddev, **levels)
        print(f"{rows:,} rows show a difference of {values.difference:+g}", file=out)
    else:
        stderr = values.stddev / math.sqrt(values.n)
        difference = minimal_detectable_difference(stderr, units=values.n, **levels)
        shown = (
            "no difference" if difference is None else f"a difference of {difference:.4f} or more"
        )
        print(f"{values.n:,} rows show {shown}", file=out)
    scores = f"differences with a standard deviation of {values.stddev:g}, permutation test"
    _print_assumptions(scores, values, out)


def _print_for_zero_one(values: flags.FlagValues, out: TextIO) -> None:
    cases = _cases(values)
    if values.n is None:
        headers = ["correlation", "discordant", "rows"]
        rows = [[case.correlation, *_rows_needed(case, values)] for case in cases]
        print(f"rows that show a difference of {values.difference:+g}\n", file=out)
    else:
        headers = ["correlation", "gain", "loss"]
        rows = [[case.correlation, *_detectable(case, values)] for case in cases]
        print(f"smallest difference that {values.n:,} rows show\n", file=out)
    print_table(out, headers, rows)
    if values.discordant is None:
        assumption = f"A at {_baseline(values):g}"
    else:
        assumption = f"{values.discordant:g} of the rows right in one model only"
    _print_assumptions(f"right/wrong scores, {assumption}, McNemar's exact test", values, out)


@attrs.frozen
class _Case:
    """One assumption on how often the two models disagree."""

    correlation: str
    discordant_rate: Callable[[float], float]
    """From the difference of B and A."""
    largest_gain: float
    largest_loss: float


def _cases(values: flags.FlagValues) -> list[_Case]:
    from lmeval.statistics import expected_discordant_rate

    if values.discordant is not None:
        return [_Case("-", lambda difference: max(values.discordant, abs(difference)), 1.0, 1.0)]
    baseline = _baseline(values)
    correlations = _CORRELATIONS_SHOWN if values.correlation is None else (values.correlation,)
    return [
        _Case(
            f"{correlation:g}",
            functools.partial(expected_discordant_rate, baseline, correlation=correlation),
            1.0 - baseline,
            baseline,
        )
        for correlation in correlations
    ]


def _rows_needed(case: _Case, values: flags.FlagValues) -> tuple[str, str]:
    from lmeval.statistics import rows_needed_zero_one

    rate = case.discordant_rate(values.difference)
    rows = rows_needed_zero_one(values.difference, rate, **_levels(values))
    return f"{rate:.4f}", f"{rows:,}"


def _detectable(case: _Case, values: flags.FlagValues) -> tuple[str, str]:
    from lmeval.statistics import minimal_detectable_zero_one

    gain = minimal_detectable_zero_one(
        values.n, case.discordant_rate, largest=case.largest_gain, **_levels(values)
    )
    loss = minimal_detectable_zero_one(
        values.n,
        lambda size: case.discordant_rate(-size),
        largest=case.largest_loss,
        **_levels(values),
    )
    return shown_score(gain), shown_score(loss)


def _baseline(values: flags.FlagValues) -> float:
    return _DEFAULT_BASELINE if values.baseline is None else float(values.baseline)


def _levels(values: flags.FlagValues) -> dict[str, float]:
    return {"alpha": values.alpha, "power": values.power}


def _print_assumptions(scores: str, values: flags.FlagValues, out: TextIO) -> None:
    print(
        f"\n({scores}; two models on the same rows, two-sided level {values.alpha:g}, "
        f"power {values.power:g})",
        file=out,
    )
