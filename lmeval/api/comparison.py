# SPDX-License-Identifier: Apache-2.0
"""What changed between two leaderboards: which tasks moved, by how much, and which answers flipped.

The first leaderboard is called A, the second B; every difference is B - A.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from lmeval.api.errors import ResultsError
from lmeval.api.paired_rows import PairedRows, compare_rows, flipped, pair_rows
from lmeval.api.results import Leaderboard, TaskResult
from lmeval.api.score_bases import RowKey, RowPair
from lmeval.statistics import (
    PairedComparison,
    Summary,
    UnpairedComparison,
    compare_unpaired,
    holm,
    macro_mean,
    micro_mean,
    pair_keys,
)

Verdict: TypeAlias = Literal["worse", "better", "no clear change", "not tested"]

_TaskKey: TypeAlias = tuple[str, int]
"""A task's name and its number of shots."""
_SAMPLED_TESTS = ("permutation sampled", "randomization")

# What was run and on which model: a difference in these is what a comparison is for.
_FLAGS_THAT_MAY_DIFFER = frozenset({"task", "model", "model_args"})


@attrs.frozen(kw_only=True)
class ComparisonOptions:
    """How to compare."""

    alpha: float = 0.05
    """The chance of a false alarm, over all tasks together."""
    seed: int = 0
    """Seeds what the tests draw, anew for each task."""
    resamples: int = 10_000
    """How many random exchanges of the two runs' answers a test draws."""
    allow_changed_tasks: bool = False
    """Whether to compare tasks whose content differs, instead of leaving them out."""
    any_shots: bool = False
    """Whether to compare a task that each run has at one number of shots, if not the same one."""


@attrs.frozen(kw_only=True)
class TaskComparison:
    """What changed in one task at one number of shots."""

    task: str
    number_of_shots: int
    metric: str
    score_a: float
    """A's reported score, over all of A's rows."""
    score_b: float
    rows_a: int | None
    """How many rows A's score is over; None where the task does not hand them out."""
    rows_b: int | None
    high_score: float
    """An extremely good score on the metric's scale."""
    lower_is_better: bool
    result: PairedComparison | UnpairedComparison
    """Over the rows that both have, or of the reported scores where rows are not at hand."""
    adjusted_p_value: float | None = None
    """Holm's, over all tasks that were tested; None if this one was not."""
    verdict: Verdict = "not tested"
    """Whether B is significantly worse or better than A."""
    flips: tuple[RowPair, ...] = ()
    """Answers that scored differently: B's losses first, larger changes first."""
    only_in_a: tuple[RowKey, ...] = ()
    """Rows that only A has; left out of `result` when it is paired."""
    only_in_b: tuple[RowKey, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know to trust the numbers."""

    @property
    def label(self) -> str:
        """The name under which it is listed."""
        return task_label(self.task, self.number_of_shots)

    @property
    def difference(self) -> float:
        """B - A, over what was compared."""
        if self.result.difference is None:
            return self.score_b - self.score_a
        return self.result.difference


@attrs.frozen(kw_only=True)
class Comparison:
    """What changed between two leaderboards."""

    adapter_a: str
    adapter_b: str
    tasks: tuple[TaskComparison, ...]
    overall: Summary
    """The mean of the tasks' differences; without a mean if a task stands there twice, or if tasks
    have different scales."""
    overall_micro: Summary
    """The same with every task weighted by its rows; without a mean if a task is not paired."""
    left_out: Mapping[str, str]
    """Tasks that both have but that were not compared, each with the reason."""
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    warnings: tuple[str, ...]
    options: ComparisonOptions

    def with_verdict(self, verdict: Verdict) -> tuple[TaskComparison, ...]:
        """The tasks that got this verdict."""
        return tuple(task for task in self.tasks if task.verdict == verdict)


def task_label(task: str, number_of_shots: int) -> str:
    """The name under which a task at a number of shots is listed."""
    return task if number_of_shots in (0, -1) else f"{task} ({number_of_shots} shots)"


def compare_leaderboards(
    a: Leaderboard, b: Leaderboard, options: ComparisonOptions | None = None
) -> Comparison:
    """Compare two runs task by task.

    Where both hold their rows, rows are paired by sub-task, id and sample, and tested as
    `compare_paired` does; elsewhere the reported scores are compared as independent ones. The
    p-values of all tasks are adjusted by Holm's method.

    Raises:
      ResultsError: a leaderboard contradicts itself: a task or a row twice, a row without an id.
    """
    options = options or ComparisonOptions()
    tasks_a, tasks_b = _by_task(a, "A"), _by_task(b, "B")
    if options.any_shots:
        tasks_b = _at_shots_of(tasks_a, tasks_b)
    pairing = pair_keys(tasks_a, tasks_b)
    left_out: dict[str, str] = {}
    compared: list[TaskComparison] = []
    for key in pairing.common:
        reason = _reason_to_leave_out(tasks_a[key], tasks_b[key], options)
        if reason:
            left_out[task_label(*key)] = reason
        else:
            compared.append(_compare_task(tasks_a[key], tasks_b[key], options))
    tasks = _with_verdicts(compared, options.alpha)
    differences = _independent_differences(tasks)
    all_paired = all(isinstance(task.result, PairedComparison) for task in tasks)
    return Comparison(
        adapter_a=a.adapter,
        adapter_b=b.adapter,
        tasks=tasks,
        overall=macro_mean(differences),
        overall_micro=micro_mean(differences if all_paired else []),
        left_out=left_out,
        only_in_a=tuple(_missing(key, tasks_b, b) for key in pairing.only_in_a),
        only_in_b=tuple(_missing(key, tasks_a, a) for key in pairing.only_in_b),
        warnings=(*_warnings(a, b), *_scales_warning(tasks), *_resamples_warning(tasks, options)),
        options=options,
    )


def _by_task(board: Leaderboard, side: str) -> dict[_TaskKey, TaskResult]:
    tasks: dict[_TaskKey, TaskResult] = {}
    for task in board.tasks:
        key = task.task, task.number_of_shots
        if key in tasks:
            raise ResultsError(f"{side}: the task {task_label(*key)!r} stands there twice.")
        tasks[key] = task
    return tasks


def _at_shots_of(
    tasks_a: Mapping[_TaskKey, TaskResult], tasks_b: Mapping[_TaskKey, TaskResult]
) -> dict[_TaskKey, TaskResult]:
    """B's tasks under A's number of shots, where each of the two has a task at one number only."""
    moved: dict[_TaskKey, TaskResult] = {}
    for key, result in tasks_b.items():
        in_a = [other for other in tasks_a if other[0] == key[0]]
        in_b = [other for other in tasks_b if other[0] == key[0]]
        moved[in_a[0] if len(in_a) == len(in_b) == 1 else key] = result
    return moved


def _missing(key: _TaskKey, other_tasks: Mapping[_TaskKey, TaskResult], other: Leaderboard) -> str:
    """The label of a task that `other` has no result of, with what is known of it there."""
    name, shots = key
    reasons = [failure.reason for failure in other.failed_tasks if failure.task == name]
    if reasons:
        return f"{task_label(*key)} (failed in the other: {reasons[0]})"
    others = [str(their_shots) for their_name, their_shots in other_tasks if their_name == name]
    if others:
        hint = "" if len(others) > 1 else "; --any_shots compares them"
        return f"{name} with {shots} shots (the other has {' and '.join(others)}{hint})"
    return task_label(*key)


def _warnings(a: Leaderboard, b: Leaderboard) -> list[str]:
    warnings = []
    if a.seed != b.seed:
        warnings.append(f"--seed is {_shown(a.seed)} in A and {_shown(b.seed)} in B")
    for name in sorted((a.flags.keys() | b.flags.keys()) - _FLAGS_THAT_MAY_DIFFER):
        first, second = a.flags.get(name), b.flags.get(name)
        if first != second:
            warnings.append(f"--{name} is {_shown(first)} in A and {_shown(second)} in B")
    return warnings


def _scales_warning(tasks: Sequence[TaskComparison]) -> list[str]:
    if _have_one_scale(tasks):
        return []
    return ["the tasks have different scales, so that there is no mean over them"]


def _have_one_scale(tasks: Sequence[TaskComparison]) -> bool:
    return len({task.high_score for task in tasks}) <= 1


def _resamples_warning(tasks: Sequence[TaskComparison], options: ComparisonOptions) -> list[str]:
    """Where drawing is so short that even the clearest change would pass for chance."""
    n_tested = sum(task.result.p_value is not None for task in tasks)
    drawn = [task for task in tasks if task.result.test in _SAMPLED_TESTS]
    if not drawn or n_tested / (options.resamples + 1) < options.alpha:
        return []
    return [
        f"--resamples {options.resamples} gives no p-value below 1/{options.resamples + 1}, which "
        f"over {n_tested} tested tasks can hardly be significant; "
        f"use --resamples {math.floor(n_tested / options.alpha + 1e-9)} or more"
    ]


def _shown(flag_value: Any) -> str:
    return "not set" if flag_value is None else str(flag_value)


def _reason_to_leave_out(
    first: TaskResult, second: TaskResult, options: ComparisonOptions
) -> str | None:
    if first.metric != second.metric:
        return f"A reports {first.metric!r}, B {second.metric!r}"
    if first.sha256 != second.sha256 and not options.allow_changed_tasks:
        hashes = f"sha256 {first.sha256!s:.12}… and {second.sha256!s:.12}…"
        return f"the task's content differs ({hashes}); --allow_changed_tasks compares it"
    return None


def _compare_task(
    first: TaskResult, second: TaskResult, options: ComparisonOptions
) -> TaskComparison:
    rows = pair_rows(first, second)
    lower_is_better = first.high_score < first.low_score
    paired = compare_rows(first.task, rows, options.seed, options.resamples)
    result = paired or compare_unpaired(_reported(first), _reported(second))
    return TaskComparison(
        task=first.task,
        number_of_shots=first.number_of_shots,
        metric=first.metric,
        score_a=first.score,
        score_b=second.score,
        rows_a=first.total,
        rows_b=second.total,
        high_score=first.high_score,
        lower_is_better=lower_is_better,
        result=result,
        flips=flipped(rows, lower_is_better),
        only_in_a=rows.only_in_a,
        only_in_b=rows.only_in_b,
        notes=(*_notes(first, second, rows), *_unused_examples(rows, paired)),
    )


def _reported(result: TaskResult) -> Summary:
    # Without the number of rows a standard error has no degrees of freedom.
    has_error = result.total is not None and result.total > 1
    stderr = result.stderr if has_error else None
    return Summary(result.total or 0, result.score, stderr, result.ci95, None)


def _notes(first: TaskResult, second: TaskResult, rows: PairedRows) -> list[str]:
    notes = []
    if rows.obstacle is not None:
        notes.append(f"unpaired, taken as independent: {rows.obstacle}")
    elif rows.only_in_a or rows.only_in_b:
        notes.append(
            f"compared on the {len(rows.pairs)} rows that both have; over all of its rows A has "
            f"{first.score:.4f}, B {second.score:.4f}"
        )
    if first.number_of_shots != second.number_of_shots:
        notes.append(f"A has {first.number_of_shots} shots, B {second.number_of_shots}")
    if first.sha256 != second.sha256:
        notes.append("the task's content differs between A and B")
    edited = [pair.a.id for pair in rows.pairs if pair.a.targets != pair.b.targets]
    if edited:
        notes.append(f"rows with other targets in B: {len(edited)}, {edited[0]!r} for one")
    for side, result in (("A", first), ("B", second)):
        if result.failures:
            notes.append(f"failed answers in {side}, which scored 0: {result.failures}")
    return notes


def _unused_examples(rows: PairedRows, paired: PairedComparison | None) -> list[str]:
    unused = len({pair.key[:2] for pair in rows.pairs}) - (paired.n if paired else 0)
    if paired is None or not unused:
        return []
    return [f"examples left out, of which both runs have too few samples in common: {unused}"]


def _with_verdicts(tasks: Sequence[TaskComparison], alpha: float) -> tuple[TaskComparison, ...]:
    adjusted = holm([task.result.p_value for task in tasks])
    return tuple(
        attrs.evolve(task, adjusted_p_value=p_value, verdict=_verdict(task, p_value, alpha))
        for task, p_value in zip(tasks, adjusted, strict=True)
    )


def _verdict(task: TaskComparison, p_value: float | None, alpha: float) -> Verdict:
    if p_value is None:
        return "not tested"
    if p_value >= alpha or task.difference == 0.0:
        return "no clear change"
    return "worse" if (task.difference < 0.0) != task.lower_is_better else "better"


def _independent_differences(tasks: Sequence[TaskComparison]) -> list[Summary]:
    """Each task's difference; none where errors of a mean over them cannot be stated."""
    # One task at several numbers of shots asks the same rows twice: not independent.
    if len({task.task for task in tasks}) < len(tasks) or not _have_one_scale(tasks):
        return []
    return [
        Summary(_rows(task.result), task.difference, task.result.stderr, task.result.ci95, None)
        for task in tasks
    ]


def _rows(result: PairedComparison | UnpairedComparison) -> int:
    # Two runs that are not paired have no number of rows in common.
    return result.n if isinstance(result, PairedComparison) else 0
