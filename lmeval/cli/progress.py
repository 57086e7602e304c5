# SPDX-License-Identifier: Apache-2.0
"""Showing a run's progress: bars on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import attrs

from lmeval.cli.tables import printable

if TYPE_CHECKING:
    from lmeval.engine.settings import Counts

_SECONDS_BETWEEN_LINES = 10.0
_RATE_WINDOW_S = 30.0
_TASKS_IN_A_LINE = 3


@attrs.frozen(kw_only=True)
class Snapshot:
    """How far a task, or the whole run, has come."""

    answered: int
    total: int | None
    """Requests in all, answered ones included; None where nobody knows."""
    failed: int
    per_second: float | None
    """Requests that the model answers a second, over the last half minute; None at first."""

    @property
    def seconds_left(self) -> float | None:
        """How long the rest will take at this rate; None where nobody knows."""
        if self.total is None or not self.per_second:
            return None
        return (self.total - self.answered) / self.per_second


class _Pace:
    """The rate of what was counted over the last half minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._points = collections.deque([(clock(), 0)])

    def add(self, count: int) -> None:
        now = self._clock()
        self._points.append((now, count))
        while len(self._points) > 2 and self._points[1][0] <= now - _RATE_WINDOW_S:
            self._points.popleft()

    def per_second(self) -> float | None:
        start, first = self._points[0]
        seconds = self._clock() - start
        return (self._points[-1][1] - first) / seconds if seconds > 0 else None


class RunProgress:
    """Where a run stands, put together from what the engine tells; itself it shows notices only.

    Args:
      expected: the tasks with the number of requests each will make, as far as that is known.
      stream: where notices go.
      clock: seconds, only ever growing.
    """

    def __init__(
        self,
        expected: Mapping[str, int | None],
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expected = dict(expected)
        self._stream = stream
        self._clock = clock
        self._lock = threading.RLock()
        self._counts: dict[str, Counts] = {}
        self._done: set[str] = set()
        self._paces: dict[str, _Pace] = collections.defaultdict(lambda: _Pace(clock))
        self._pace = _Pace(clock)

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def advanced(self, task: str, counts: Counts) -> None:
        """See `ProgressSink.advanced`."""
        with self._lock:
            self._counts[task] = counts
            self._paces[task].add(counts.answered - counts.cached)
            self._pace.add(sum(c.answered - c.cached for c in self._counts.values()))
            self._show(task)

    def finished(self, task: str) -> None:
        """See `ProgressSink.finished`."""
        with self._lock:
            self._done.add(task)
            self._show(task)

    def tick(self) -> None:
        """See `ProgressSink.tick`."""
        with self._lock:
            self._show(None)

    def notice(self, message: str) -> None:
        """See `ProgressSink.notice`."""
        with self._lock:
            print(printable(message), file=self._stream, flush=True)

    def close(self) -> None:
        """End the show."""

    def running(self) -> list[str]:
        """The tasks that have asked something and are not done."""
        return [task for task in self._counts if task not in self._done]

    def of_task(self, task: str) -> Snapshot:
        """How far one task has come."""
        counts = self._counts[task]
        expected = self._expected.get(task)
        total = None if expected is None else max(expected, counts.requests)
        return Snapshot(
            answered=counts.answered,
            total=counts.answered if task in self._done else total,
            failed=counts.errors + counts.timeouts,
            per_second=self._paces[task].per_second(),
        )

    def of_run(self) -> Snapshot:
        """How far the whole run has come."""
        begun = {task: self.of_task(task) for task in self._counts}
        totals = [part.total for part in begun.values()]
        totals += [
            0 if task in self._done else expected
            for task, expected in self._expected.items()
            if task not in begun
        ]
        known = [total for total in totals if total is not None]
        return Snapshot(
            answered=sum(part.answered for part in begun.values()),
            total=sum(known) if len(known) == len(totals) else None,
            failed=sum(part.failed for part in begun.values()),
            per_second=self._pace.per_second(),
        )

    def tasks_done(self) -> str:
        """How many tasks are done, in words."""
        return f"{len(self._done)} of {max(len(self._expected), len(self._counts))} tasks done"

    def _show(self, task: str | None) -> None:
        """Show the new state; `task` is where it changed."""


class LineProgress(RunProgress):
    """Writes a line every ten seconds."""

    def __init__(
        self,
        expected: Mapping[str, int | None],
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(expected, stream, clock)
        self._last_line = clock()

    def _show(self, task: str | None) -> None:
        now = self._clock()
        if now - self._last_line < _SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        running = self.running()
        parts = [f"{name} {_share(self.of_task(name))}" for name in running[:_TASKS_IN_A_LINE]]
        if len(running) > _TASKS_IN_A_LINE:
            parts.append(f"{len(running) - _TASKS_IN_A_LINE} more")
        tasks = f"; now {', '.join(parts)}" if parts else ""
        line = f"{shown_progress(self.of_run())}; {self.tasks_done()}{tasks}"
        print(printable(line), file=self._stream, flush=True)


class BarProgress(RunProgress):
    """Draws a bar for the run and one for each running task.

    Args:
      expected: see `RunProgress`.
      stream: the terminal.
      clock: see `RunProgress`.
      console: a rich Console to draw on, in place of one for `stream`.
    """

    def __init__(
        self,
        expected: Mapping[str, int | None],
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
        console: Any = None,
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(expected, stream, clock)
        self._bars: dict[str, Any] = {}
        self._display = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[said]}", markup=False),
            console=console or Console(file=stream),
            transient=True,
            refresh_per_second=5,
        )
        self._whole = self._display.add_task("all tasks", total=None, said="")
        self._display.start()

    def notice(self, message: str) -> None:
        """See `ProgressSink.notice`."""
        with self._lock:
            text = printable(message)
            self._display.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bars away."""
        self._display.stop()

    def _show(self, task: str | None) -> None:
        self._update(self._whole, self.of_run(), f"; {self.tasks_done()}")
        if task is None or task not in self._counts:
            return
        if task in self._done:
            with contextlib.suppress(KeyError):
                self._display.remove_task(self._bars.pop(task))
        else:
            if task not in self._bars:
                name = printable(task) or "requests"
                self._bars[task] = self._display.add_task(name, total=None, said="")
            self._update(self._bars[task], self.of_task(task), "")

    def _update(self, bar: Any, state: Snapshot, more: str) -> None:
        said = shown_progress(state) + more
        self._display.update(bar, completed=state.answered, total=state.total, said=said)


def shown_progress(state: Snapshot) -> str:
    """A state in words: requests, rate, time left, failures."""
    parts = [f"{_share(state)} requests"]
    if state.per_second is not None:
        parts.append(f"{state.per_second:,.1f} a second")
    if state.seconds_left is not None and state.seconds_left > 0:
        parts.append(f"{_shown_time(state.seconds_left)} left")
    if state.failed:
        parts.append(f"{state.failed:,} failed")
    return ", ".join(parts)


def _share(state: Snapshot) -> str:
    return f"{state.answered:,}" + ("" if state.total is None else f" of {state.total:,}")


def _shown_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def make_progress(
    expected: Mapping[str, int | None],
    stream: TextIO,
    quiet: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> RunProgress:
    """The display that suits a stream; use it as a context manager around the run.

    Args:
      expected: the tasks with the number of requests each will make, as far as that is known.
      stream: usually standard error.
      quiet: show notices only.
      clock: seconds, only ever growing.
    """
    if quiet:
        return RunProgress(expected, stream, clock)
    return (BarProgress if stream.isatty() else LineProgress)(expected, stream, clock)
