# SPDX-License-Identifier: Apache-2.0
"""`lmeval power`: rows needed, detectable differences, and flags that contradict each other."""

import io

import pytest
from absl import flags

from lmeval.api.errors import UsageError
from lmeval.cli import power


def run(*arguments):
    values = flags.FlagValues()
    power.define_flags(values)
    positional = values(["lmeval power", *arguments])[1:]
    out = io.StringIO()
    assert power.run(positional, values, out) == 0
    return out.getvalue()


def cells(text):
    """The table's lines below its header as lists of cells."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("---")) + 1
    return [line.split() for line in lines[start : lines.index("", start)]]


def test_rows_for_a_difference_over_several_correlations():
    text = run("--difference=0.1")
    # Discordant: 0.5 - 2 r sqrt(0.25 * 0.24).
    assert [line[:2] for line in cells(text)] == [
        ["0", "0.5000"],
        ["0.25", "0.3775"],
        ["0.5", "0.2551"],
        ["0.75", "0.1326"],
    ]
    rows = [int(line[2]) for line in cells(text)]
    assert rows == sorted(rows, reverse=True)
    assert "A at 0.5, McNemar's exact test" in text


def test_rows_for_a_difference_at_a_discordant_rate():
    # 174.02 rounded up; see tests/statistics/test_power_formulas.py.
    assert cells(run("--difference=0.1", "--discordant=0.2")) == [["-", "0.2000", "175"]]
    assert cells(run("--difference=-0.1", "--discordant=0.2")) == [["-", "0.2000", "175"]]


def test_a_given_correlation_and_baseline_are_used():
    text = run("--difference=0.1", "--baseline=0.8", "--correlation=0")
    assert [line[:2] for line in cells(text)] == [["0", "0.2600"]]
    assert "A at 0.8" in text


def test_detectable_difference_of_a_number_of_rows():
    (line,) = cells(run("--n=175", "--discordant=0.2"))
    assert float(line[1]) == pytest.approx(0.1, abs=5e-4)
    gain, loss = map(float, cells(run("--n=1000", "--baseline=0.9", "--correlation=0"))[0][1:])
    assert gain < loss


def test_too_few_rows_show_nothing():
    assert cells(run("--n=4", "--discordant=0.2")) == [["-", "-", "-"]]


def test_other_scores_go_by_their_spread():
    # (2.801585 * 0.3 / 0.05)^2 + 1.92 = 284.5; 2.801585 * 0.3 / sqrt(100 - 1.92) = 0.08487.
    assert run("--difference=0.05", "--stddev=0.3").startswith("285 rows")
    assert "0.0849 or more" in run("--n=100", "--stddev=0.3")
    assert run("--n=5", "--stddev=0.3").startswith("5 rows show no difference")


def test_level_and_power_count():
    strict = run("--difference=0.05", "--stddev=0.3", "--alpha=0.01", "--power=0.95")
    # (2.575829 + 1.644854)^2 * 36 + 2.575829^2 / 2 = 641.3 + 3.3
    assert strict.startswith("645 rows")
    assert "two-sided level 0.01, power 0.95" in strict


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "one of --difference and --n"),
        (("--n=5", "--difference=0.1"), "one of --difference and --n"),
        (("--n=5", "extra"), "flags only"),
        (("--n=5", "--discordant=0.2", "--baseline=0.5"), "leave --baseline out"),
        (("--n=5", "--stddev=0.2", "--correlation=0.5"), "leave --correlation out"),
        (("--n=5", "--stddev=0.2", "--discordant=0.5"), "leave --discordant out"),
        (("--n=5", "--stddev=-1"), "--stddev must not be below 0"),
        (("--n=5", "--discordant=1.5"), "--discordant must lie between 0 and 1"),
        (("--difference=0.3", "--discordant=0.2"), "smaller than the difference"),
        (("--difference=0",), "other than 0"),
        (("--difference=nan",), "--difference must be a number"),
        (("--difference=0.6",), "accuracies must lie between 0 and 1"),
        (("--difference=0.1", "--correlation=2"), "correlation must lie"),
        (("--n=100", "--alpha=0"), "alpha must lie"),
        (("--n=100", "--power=1"), "power must lie"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments, message):
    with pytest.raises(UsageError, match=message):
        run(*arguments)
