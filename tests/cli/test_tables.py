# SPDX-License-Identifier: Apache-2.0
"""Tables line up whatever they hold, and hostile text cannot move the cursor."""

import io

import pytest

from lmeval.cli.tables import (
    counted,
    display_width,
    print_table,
    printable,
    shown_count,
    shown_interval,
    shown_score,
    shown_seconds,
)


def test_columns_line_up():
    out = io.StringIO()
    print_table(out, ["task", "n"], [["東京", "1"], ["a", "1,000"]])
    assert out.getvalue() == "task      n\n----  -----\n東京      1\na     1,000\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb", "a\\nb"),
        ("\ud800", "\\ud800"),
        ("naïve 🙂", "naïve 🙂"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("東京", 4), ("e\u0301", 1), ("", 0)])
def test_width(text, width):
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.004, "4 ms"), (59.5, "59.50 s"), (61, "1 min 01 s"), (3700, "1 h 01 min")],
)
def test_times(seconds, shown):
    assert shown_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (1234, "1,234 tasks")]
)
def test_a_count_has_its_noun_in_the_right_number(count, shown):
    assert counted(count, "task") == shown


def test_what_is_not_there_is_a_dash():
    assert (shown_score(None), shown_count(None), shown_interval(None)) == ("-", "-", "-")
    assert shown_interval((0.1, 0.25)) == "0.100 to 0.250"
