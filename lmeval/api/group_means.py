# SPDX-License-Identifier: Apache-2.0
"""Means over the tasks of a run and over the sub-tasks of a task, each with its own error."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lmeval.api.results import Leaderboard, SubtaskResult, TaskResult
from lmeval.statistics import Summary, macro_mean, micro_mean


@attrs.frozen(kw_only=True)
class GroupMeans:
    """The mean over groups of rows in two ways; what is undefined is None."""

    macro: Summary
    """Every group counts the same."""
    micro: Summary
    """Every row counts the same."""


def means_over_tasks(board: Leaderboard) -> GroupMeans:
    """The means over a run's tasks; the micro mean is that over the rows of all sub-tasks.

    Both are undefined where a task gave no result. Where a task stands there with several numbers
    of shots the errors are, because the same rows were asked more than once.
    """
    if board.failed_tasks:
        return GroupMeans(macro=macro_mean([]), micro=micro_mean([]))
    tasks = [Summary(t.total or 0, t.score, t.stderr, t.ci95, None) for t in board.tasks]
    parts = [part for task in board.tasks for part in _parts(task)]
    means = GroupMeans(macro=macro_mean(tasks), micro=_micro(parts))
    if len({task.task for task in board.tasks}) == len(board.tasks):
        return means
    return GroupMeans(macro=_without_error(means.macro), micro=_without_error(means.micro))


def micro_of_subtasks(task: TaskResult) -> Summary:
    """The mean over the rows of a task's sub-tasks, beside its score, which is their macro mean."""
    return _micro(_parts(task))


def _parts(task: TaskResult) -> list[SubtaskResult]:
    return [part for part in task.subtasks if not part.is_aggregate] or list(task.subtasks)


def _micro(parts: Sequence[SubtaskResult]) -> Summary:
    if any(part.n is None for part in parts):
        return micro_mean([])  # a task that does not hand out its rows has no weight
    return micro_mean([Summary(p.n or 0, p.score, p.stderr, p.ci95, None) for p in parts])


def _without_error(mean: Summary) -> Summary:
    return attrs.evolve(mean, stderr=None, ci95=None, method=None)
