# SPDX-License-Identifier: Apache-2.0
"""`lmeval compare`: which tasks moved between two leaderboards, and which answers flipped."""

from __future__ import annotations

from typing import TextIO

from absl import flags

from lmeval.api.errors import ResultsError, UsageError

USAGE = "compare A.json B.json [flags]"
HELP = (
    "Show which tasks moved from leaderboard A to leaderboard B, by how much, whether that is more "
    "than chance, and which answers flipped."
)


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""
    flags.DEFINE_enum(
        "format", "text", ["text", "markdown", "json"], "How to show it.", flag_values=flag_values
    )
    flags.DEFINE_integer(
        "flips", 5, "Flipped answers to show per task.", lower_bound=0, flag_values=flag_values
    )
    flags.DEFINE_float(
        "alpha",
        0.05,
        "Chance of a false alarm over all tasks (Holm).",
        lower_bound=0.0,
        upper_bound=1.0,
        flag_values=flag_values,
    )
    flags.DEFINE_boolean(
        "fail_on_regression",
        False,
        "Exit with 1 if a task got significantly worse, or has no result in B.",
        flag_values=flag_values,
    )
    flags.DEFINE_boolean(
        "allow_changed_tasks",
        False,
        "Compare tasks whose content differs, too.",
        flag_values=flag_values,
    )
    flags.DEFINE_boolean(
        "any_shots",
        False,
        "Compare a task that A and B have at different numbers of shots.",
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "resamples",
        10_000,
        "Random exchanges of the two runs' answers that a permutation test draws.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_integer("seed", 0, "Seed of that drawing.", lower_bound=0, flag_values=flag_values)


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Compare two leaderboards; 1 if --fail_on_regression is on and a task got worse."""
    if len(args) != 2:
        raise UsageError(f"compare takes two leaderboard files (found {len(args)} arguments).")
    if not 0.0 < flag_values.alpha < 1.0:
        raise UsageError(f"--alpha {flag_values.alpha}: must lie strictly between 0 and 1.")
    from lmeval.api.comparison import ComparisonOptions, compare_leaderboards
    from lmeval.api.leaderboard_reading import read_leaderboard
    from lmeval.cli import compare_report

    before, after = read_leaderboard(args[0]), read_leaderboard(args[1])
    comparison = compare_leaderboards(
        before,
        after,
        ComparisonOptions(
            alpha=flag_values.alpha,
            seed=flag_values.seed,
            resamples=flag_values.resamples,
            allow_changed_tasks=flag_values.allow_changed_tasks,
            any_shots=flag_values.any_shots,
        ),
    )
    report = compare_report.Report(comparison, args[0], args[1], flag_values.flips)
    compare_report.WRITERS[flag_values.format](report, out)
    if not flag_values.fail_on_regression:
        return 0
    if all(task.verdict == "not tested" for task in comparison.tasks):
        # A gate that looked at nothing must not open.
        raise ResultsError("--fail_on_regression: no task of the two leaderboards could be tested.")
    is_worse = comparison.with_verdict("worse") or comparison.only_in_a or after.failed_tasks
    return int(bool(is_worse))
