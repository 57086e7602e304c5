# SPDX-License-Identifier: Apache-2.0
"""What a run prints at its end: the table, the overall score, the failures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from lmeval.api.errors import ResultsError, UsageError
from lmeval.cli.tables import (
    counted,
    print_table,
    printable,
    shown_count,
    shown_interval,
    shown_score,
    shown_seconds,
)

if TYPE_CHECKING:
    from lmeval.api.results import Leaderboard, TaskResult
    from lmeval.statistics import Summary


def check_output(path: str) -> None:
    """Raise an LmevalError if a leaderboard cannot be written to `path`."""
    from lmeval.api.leaderboard_file import check_writable

    folder = os.path.dirname(path)
    if folder and not os.path.exists(folder):
        raise UsageError(f"--output {path}: there is no folder {folder}; make it first.")
    try:
        check_writable(path)
    except ResultsError as error:
        raise UsageError(f"--output {error}") from error


def print_leaderboard(board: Leaderboard, out: TextIO) -> None:
    """Print a leaderboard as a table, the overall scores and what failed."""
    columns = _columns(board.tasks)
    rows = [[cell(task) for cell in columns.values()] for task in board.tasks]
    print(f"\nmodel: {printable(board.adapter)}\n", file=out)
    print_table(out, list(columns), rows, left=2)
    if len(board.tasks) > 1:
        _print_overall(board, out)
    _print_code_outcomes(board, out)
    for task in board.tasks:
        if task.cut_off:
            print(
                f"{printable(task.task)}: {counted(task.cut_off, 'answer')} of {task.total:,} cut "
                "off, because the model may write no more; look at them, or raise its limit.",
                file=out,
            )


def _print_overall(board: Leaderboard, out: TextIO) -> None:
    from lmeval.api.group_means import means_over_tasks

    means = means_over_tasks(board)
    print(
        f"\noverall score {shown_score(board.overall_score)} (mean of {len(board.tasks)} "
        f"results{_with_error(means.macro)}), "
        f"normalized {shown_score(board.overall_normalized_score)}",
        file=out,
    )
    if len({task.high_score for task in board.tasks}) > 1:
        print("The tasks have different scales: the normalized score is the one to read.", file=out)
    elif means.micro.mean is not None:
        print(
            f"mean over all {means.micro.n:,} rows {shown_score(means.micro.mean)}"
            f"{_with_error(means.micro)}",
            file=out,
        )


def _with_error(mean: Summary) -> str:
    error = f" ± {mean.stderr:.4f}" if mean.stderr else ""
    return error + (f", 95% interval {shown_interval(mean.ci95)}" if mean.ci95 else "")


def _print_code_outcomes(board: Leaderboard, out: TextIO) -> None:
    """Say how model-written code ended, and whether anything less than the sandbox held it."""
    for task in board.tasks:
        if any(outcome != "ok" for outcome in task.outcomes):
            ends = ", ".join(f"{count:,} {outcome}" for outcome, count in task.outcomes.items())
            print(f"{printable(task.task)}: code ended {ends}", file=out)
    if any(task.isolation == "reduced" for task in board.tasks):
        print("Code ran with reduced isolation, by your leave: see docs/security.md.", file=out)


def _metric_with_mark(task: TaskResult) -> str:
    """The metric, marked where code ran with less than the whole isolation."""
    return f"{task.metric} (reduced)" if task.isolation == "reduced" else task.metric


def _columns(tasks: tuple[TaskResult, ...]) -> Mapping[str, Any]:
    columns: dict[str, Any] = {"task": lambda t: t.task, "metric": _metric_with_mark}
    if any(task.number_of_shots not in (0, -1) for task in tasks):
        columns["shots"] = lambda t: str(t.number_of_shots)
    columns |= {
        "score": lambda t: shown_score(t.score),
        # 0 only says that all scores are equal; the interval says how sure that makes us.
        "± stderr": lambda t: shown_score(t.stderr or None),
        "95% interval": lambda t: shown_interval(t.ci95),
        "n": lambda t: shown_count(t.total),
    }
    for name in ("timeouts", "errors", "no_answer"):
        if any(getattr(task, name) for task in tasks):
            columns[name.replace("_", " ")] = lambda t, name=name: str(getattr(t, name))
    columns["time"] = lambda t: shown_seconds(t.latency_ms and t.latency_ms / 1000)
    return columns


def report_failures(board: Leaderboard, allowed: int, out: TextIO) -> int:
    """Say what failed; 1 if a task did or more than `allowed` answers, else 0."""
    for failure in board.failed_tasks:
        print(printable(f"{failure.task}: no result: {failure.reason}"), file=out)
    answers = sum(task.failures for task in board.tasks)
    if answers:
        worst = [(task.task, _first_error(task)) for task in board.tasks if task.failures]
        for name, error in worst[:5]:
            print(printable(f"{name}: first failure: {error}"), file=out)
        print(f"{counted(answers, 'answer')} failed, scored 0 and counted in n.", file=out)
    return int(bool(board.failed_tasks) or answers > allowed)


def _first_error(task: TaskResult) -> str:
    errors = (row.error for _, row in task.per_example if row.error)
    return next(errors, "the task does not say which")
