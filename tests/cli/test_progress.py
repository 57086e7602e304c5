# SPDX-License-Identifier: Apache-2.0
"""What a run shows of its progress, on a terminal, in a pipe and when told to be quiet."""

import io

import pytest
from rich.console import Console

from lmeval.cli.progress import (
    BarProgress,
    LineProgress,
    RunProgress,
    Snapshot,
    make_progress,
    shown_progress,
)
from lmeval.engine.settings import Counts


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def lines(expected, clock):
    stream = io.StringIO()
    return LineProgress(expected, stream, clock), stream


def test_a_pipe_gets_one_line_every_ten_seconds(clock):
    progress, stream = lines({"a": 100}, clock)
    for second in range(1, 31):
        clock.now = 100 + second
        progress.advanced("a", Counts(requests=100, answered=2 * second))
        progress.tick()
    assert stream.getvalue().splitlines() == [
        "20 of 100 requests, 2.0 a second, 40 s left; 0 of 1 tasks done; now a 20 of 100",
        "40 of 100 requests, 2.0 a second, 30 s left; 0 of 1 tasks done; now a 40 of 100",
        "60 of 100 requests, 2.0 a second, 20 s left; 0 of 1 tasks done; now a 60 of 100",
    ]


def test_a_line_comes_also_when_nothing_moves(clock):
    progress, stream = lines({"a": 10}, clock)
    clock.now += 11
    progress.tick()
    assert stream.getvalue() == "0 of 10 requests, 0.0 a second; 0 of 1 tasks done\n"


def test_failures_and_several_tasks_are_shown(clock):
    progress, stream = lines({name: 10 for name in "abcdef"}, clock)
    progress.advanced("a", Counts(requests=10, answered=10))
    progress.finished("a")
    for name in "bcdef":
        progress.advanced(name, Counts(requests=10, answered=3, errors=1, timeouts=1))
    clock.now += 10
    progress.tick()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("25 of 60 requests, 2.5 a second, 14 s left, 10 failed; ")
    assert line.endswith("1 of 6 tasks done; now b 3 of 10, c 3 of 10, d 3 of 10, 2 more")


def test_stored_answers_do_not_count_for_the_rate(clock):
    progress = RunProgress({"a": 1000}, io.StringIO(), clock)
    progress.advanced("a", Counts(requests=1000, answered=900, cached=900))
    clock.now += 10
    progress.advanced("a", Counts(requests=1000, answered=910, cached=900))
    assert progress.of_run().per_second == 1.0
    assert progress.of_run().seconds_left == 90.0


def test_the_rate_is_that_of_the_last_half_minute(clock):
    progress = RunProgress({"a": 10_000}, io.StringIO(), clock)
    answered = 0
    for second in range(120):
        clock.now += 1
        answered += 100 if second < 60 else 1
        progress.advanced("a", Counts(requests=10_000, answered=answered))
    assert progress.of_task("a").per_second == pytest.approx(1.0)


def test_an_unknown_total_gives_no_time_left(clock):
    progress = RunProgress({"a": 10, "b": None}, io.StringIO(), clock)
    progress.advanced("b", Counts(requests=3, answered=2))
    clock.now += 1
    assert (progress.of_run().total, progress.of_run().seconds_left) == (None, None)
    progress.finished("b")
    assert progress.of_run().total == 12


def test_a_task_that_asks_less_than_expected_ends_nevertheless(clock):
    progress = RunProgress({"a": 10, "b": 10}, io.StringIO(), clock)
    progress.advanced("a", Counts(requests=4, answered=4))
    progress.finished("a")
    progress.finished("b")
    assert progress.of_run().total == progress.of_run().answered == 4


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (Snapshot(answered=0, total=None, failed=0, per_second=None), "0 requests"),
        (
            Snapshot(answered=1000, total=90_000, failed=2, per_second=10.0),
            "1,000 of 90,000 requests, 10.0 a second, 2 h 28 min left, 2 failed",
        ),
        (
            Snapshot(answered=10, total=100, failed=0, per_second=1.0),
            "10 of 100 requests, 1.0 a second, 1 min 30 s left",
        ),
    ],
)
def test_progress_in_words(state, text):
    assert shown_progress(state) == text


def test_bars_on_a_terminal(clock):
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with BarProgress({"[a]": 10, "b": 10}, screen.file, clock, screen) as progress:
        progress.advanced("[a]", Counts(requests=10, answered=5, errors=1))
        clock.now += 1
        progress.tick()
        progress.notice("[b] Waiting 30 s\x1b[2J")
        progress._display.refresh()
        progress.finished("[a]")
    drawn = screen.file.getvalue()
    assert "[a]" in drawn and "5 of 10 requests" in drawn and "1 failed" in drawn
    assert "5 of 20 requests, 5.0 a second, 3 s left, 1 failed; 0 of 2 tasks done" in drawn
    assert "[b] Waiting 30 s\\x1b[2J" in drawn


def test_quiet_shows_notices_only(clock):
    stream = io.StringIO()
    with make_progress({"a": 10}, stream, quiet=True, clock=clock) as progress:
        progress.advanced("a", Counts(requests=10, answered=5))
        clock.now += 100
        progress.tick()
        progress.notice("The store is damaged.")
    assert stream.getvalue() == "The store is damaged.\n"


def test_the_display_suits_the_stream():
    stream = io.StringIO()
    assert type(make_progress({}, stream)) is LineProgress
    stream.isatty = lambda: True
    with make_progress({}, stream) as progress:
        assert type(progress) is BarProgress
