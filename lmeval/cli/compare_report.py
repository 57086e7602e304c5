# SPDX-License-Identifier: Apache-2.0
"""A comparison of two leaderboards as text, as Markdown and as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import attrs

from lmeval.api import strict_json
from lmeval.api.comparison import Comparison, TaskComparison
from lmeval.api.score_bases import RowKey, RowPair
from lmeval.cli.tables import print_table, printable, shown_count, shown_score
from lmeval.statistics import PairedComparison, Summary

SCHEMA = "comparison.v1"

# The beginning shows what an answer is about, the end mostly what it comes to.
_SHOWN_BEGINNING, _SHOWN_END = 110, 50
_IDS_SHOWN = 5


@attrs.frozen
class Report:
    """What is to be shown."""

    comparison: Comparison
    path_a: str
    path_b: str
    flips: int
    """How many flipped answers to show per task."""


def write_text(report: Report, out: TextIO) -> None:
    """Write the report for a terminal or a log."""
    for line in _head(report):
        print(printable(line), file=out)
    if report.comparison.tasks:
        print(file=out)
        print_table(out, list(_COLUMNS), _cells(report.comparison), left=2)
    print(file=out)
    for line in _conclusions(report.comparison):
        print(printable(line), file=out)
    for task in report.comparison.tasks:
        for line in _flip_lines(task, report.flips):
            print(line, file=out)


def write_markdown(report: Report, out: TextIO) -> None:
    """Write the report for a pull request or a wiki page."""
    for line in _head(report):
        print(f"- {_markdown(line)}", file=out)
    if report.comparison.tasks:
        print(f"\n| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}", file=out)
        for row in _cells(report.comparison):
            print(f"| {' | '.join(map(_markdown, row))} |", file=out)
    print(file=out)
    for line in _conclusions(report.comparison):
        print(f"- {_markdown(line)}", file=out)
    for task in report.comparison.tasks:
        _write_markdown_flips(task, report.flips, out)


def write_json(report: Report, out: TextIO) -> None:
    """Write the report for a program: the same numbers, unrounded, and whole predictions."""
    comparison = report.comparison
    value = {
        "schema": SCHEMA,
        "a": {"path": report.path_a, "adapter": comparison.adapter_a},
        "b": {"path": report.path_b, "adapter": comparison.adapter_b},
        "options": attrs.asdict(comparison.options),
        "warnings": comparison.warnings,
        "tasks": [_task_json(task, report.flips) for task in comparison.tasks],
        "overall": _mean_json(comparison.overall),
        "overall_micro": _mean_json(comparison.overall_micro),
        "left_out": dict(comparison.left_out),
        "only_in_a": comparison.only_in_a,
        "only_in_b": comparison.only_in_b,
    }
    print(strict_json.dump_bytes(value, indent=1).decode(), file=out)


WRITERS: Mapping[str, Callable[[Report, TextIO], None]] = {
    "text": write_text,
    "markdown": write_markdown,
    "json": write_json,
}
"""The formats by name."""


def _head(report: Report) -> Iterator[str]:
    comparison = report.comparison
    yield f"A: {comparison.adapter_a} ({report.path_a})"
    yield f"B: {comparison.adapter_b} ({report.path_b})"
    for warning in comparison.warnings:
        yield f"warning: {warning}"


def _compared_scores(task: TaskComparison) -> tuple[float, float]:
    """The scores whose difference is shown: over the paired rows where there are some."""
    result = task.result
    if (
        isinstance(result, PairedComparison)
        and result.mean_a is not None
        and result.mean_b is not None
    ):
        return result.mean_a, result.mean_b
    return task.score_a, task.score_b


def _shown_error(stderr: float | None) -> str:
    # A formula that gives 0 says that it saw no spread, not that there is none: the interval tells.
    return f"± {stderr:.4f}" if stderr else "-"


def _shown_p(p_value: float | None) -> str:
    if p_value is None:
        return "-"
    return f"{p_value:.4f}" if p_value >= 0.00005 else f"{p_value:.0e}"


def _shown_interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"[{interval[0]:+.4f}, {interval[1]:+.4f}]"


def _shown_test(task: TaskComparison) -> str:
    if task.result.test is None:
        return "none"
    paired = isinstance(task.result, PairedComparison)
    return task.result.test if paired else f"unpaired {task.result.test}"


def _shown_rows(task: TaskComparison) -> str:
    if isinstance(task.result, PairedComparison):
        return shown_count(task.result.n)
    return f"{shown_count(task.rows_a)} / {shown_count(task.rows_b)}"


_COLUMNS: Mapping[str, Callable[[TaskComparison], str]] = {
    "task": lambda task: task.label,
    "metric": lambda task: task.metric,
    "A": lambda task: shown_score(_compared_scores(task)[0]),
    "B": lambda task: shown_score(_compared_scores(task)[1]),
    "B - A": lambda task: f"{task.difference:+.4f}",
    "± stderr": lambda task: _shown_error(task.result.stderr),
    "95% interval": lambda task: _shown_interval(task.result.ci95),
    "rows": _shown_rows,
    "test": _shown_test,
    "p": lambda task: _shown_p(task.result.p_value),
    "p (Holm)": lambda task: _shown_p(task.adjusted_p_value),
    "detectable": lambda task: shown_score(task.result.detectable),
    "verdict": lambda task: task.verdict,
}


def _cells(comparison: Comparison) -> list[list[str]]:
    return [[show(task) for show in _COLUMNS.values()] for task in comparison.tasks]


def _conclusions(comparison: Comparison) -> Iterator[str]:
    counts = {
        verdict: len(comparison.with_verdict(verdict))
        for verdict in ("worse", "better", "no clear change", "not tested")
    }
    alpha = comparison.options.alpha
    if not comparison.tasks:
        yield "Nothing could be compared: A and B have no task in common that fits."
    else:
        yield (
            f"{counts['worse']} worse, {counts['better']} better, "
            f"{counts['no clear change']} without a clear change, "
            f"{counts['not tested']} not tested (level {alpha:g} over all, Holm)"
        )
    if len(comparison.tasks) > 1:
        means = {
            f"mean over {len(comparison.tasks)} tasks": comparison.overall,
            f"weighted by rows ({comparison.overall_micro.n:,})": comparison.overall_micro,
        }
        for name, mean in means.items():
            if mean.mean is not None:
                error = f" {_shown_error(mean.stderr)}" if mean.stderr else ""
                interval = _shown_interval(mean.ci95)
                yield f"{name}: B - A = {mean.mean:+.4f}{error}, 95% interval {interval}"
    for task in comparison.tasks:
        for note in task.notes:
            yield f"{task.label}: {note}"
        for side, keys in (("A", task.only_in_a), ("B", task.only_in_b)):
            if keys:
                yield f"{task.label}: rows only in {side}: {len(keys)} ({_shown_keys(keys)})"
    for label, reason in comparison.left_out.items():
        yield f"left out: {label}: {reason}"
    for side, labels in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        for label in labels:
            yield f"only in {side}: {label}"


def _shown_keys(keys: Sequence[RowKey]) -> str:
    shown = ", ".join(_shown_key(key) for key in keys[:_IDS_SHOWN])
    return shown if len(keys) <= _IDS_SHOWN else f"{shown}, …"


def _shown_key(key: RowKey) -> str:
    subtask, example, sample = key
    name = f"{subtask}/{example}" if subtask else example
    return _cut(name) if sample == 0 else f"{_cut(name)} (sample {sample})"


def _cut(text: str) -> str:
    """`text` on one line, without its middle when it is long, control characters escaped."""
    if len(text) > _SHOWN_BEGINNING + _SHOWN_END + 1:
        text = f"{text[:_SHOWN_BEGINNING]}…{text[-_SHOWN_END:]}"
    return printable(text)


def _flip_title(task: TaskComparison, shown: int) -> str:
    worse = sum((flip.change < 0) != task.lower_is_better for flip in task.flips)
    first = f"; the first {shown}" if shown < len(task.flips) else ""
    return f"flips in {task.label}: {worse} worse in B, {len(task.flips) - worse} better{first}"


def _answers(flip: RowPair) -> Iterator[tuple[str, str]]:
    """Name and text of what a reader wants to see of a flip."""
    yield "target", " | ".join(flip.a.targets[:3]) + (" | …" if len(flip.a.targets) > 3 else "")
    for side, row in (("A", flip.a), ("B", flip.b)):
        error = f"[{row.error}] " if row.error else ""
        yield side, f"{error}{row.prediction}".strip() or "(empty)"
        if row.raw_prediction and not row.prediction.strip():
            # Why nothing was found in it is the first thing that a reader wants to know.
            yield f"{side} raw", row.raw_prediction


def _scores(flip: RowPair) -> str:
    return f"{flip.a.score:g} → {flip.b.score:g}"


def _flip_lines(task: TaskComparison, limit: int) -> Iterator[str]:
    shown = task.flips[:limit]
    if not shown:
        return
    yield f"\n{printable(_flip_title(task, len(shown)))}"
    for flip in shown:
        yield f"  {_shown_key(flip.key)}: {_scores(flip)}"
        for name, text in _answers(flip):
            yield f"    {name + ':':<8}{_cut(text)}"


def _write_markdown_flips(task: TaskComparison, limit: int, out: TextIO) -> None:
    shown = task.flips[:limit]
    if not shown:
        return
    print(f"\n{_markdown(_flip_title(task, len(shown)))}\n", file=out)
    for flip in shown:
        print(f"- {_code(_shown_key(flip.key))}: {_scores(flip)}", file=out)
        for name, text in _answers(flip):
            print(f"  - {name}: {_code(_cut(text))}", file=out)


def _markdown(text: str) -> str:
    """`text` so that Markdown shows it as it is."""
    return re.sub(r"([\\`*_\[\]<>|~&#])", r"\\\1", printable(text))


def _code(text: str) -> str:
    """`text` as a Markdown code span; its fence is longer than any run of backticks inside."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}"


def _mean_json(mean: Summary) -> dict[str, Any]:
    return {"difference": mean.mean, "stderr": mean.stderr, "ci95": mean.ci95}


def _task_json(task: TaskComparison, flips: int) -> dict[str, Any]:
    return {
        "task": task.task,
        "number_of_shots": task.number_of_shots,
        "metric": task.metric,
        "score_a": task.score_a,
        "score_b": task.score_b,
        "rows_a": task.rows_a,
        "rows_b": task.rows_b,
        "lower_is_better": task.lower_is_better,
        "paired": isinstance(task.result, PairedComparison),
        **attrs.asdict(task.result),
        "adjusted_p_value": task.adjusted_p_value,
        "verdict": task.verdict,
        "notes": task.notes,
        "only_in_a": [_key_json(key) for key in task.only_in_a],
        "only_in_b": [_key_json(key) for key in task.only_in_b],
        "flip_count": len(task.flips),
        "flips": [_flip_json(flip) for flip in task.flips[:flips]],
    }


def _key_json(key: RowKey) -> dict[str, Any]:
    return dict(zip(("subtask", "id", "sample"), key, strict=True))


def _flip_json(flip: RowPair) -> dict[str, Any]:
    return {
        **_key_json(flip.key),
        "prompt": flip.a.prompt,
        "targets": flip.a.targets,
        "score_a": flip.a.score,
        "score_b": flip.b.score,
        "prediction_a": flip.a.prediction,
        "prediction_b": flip.b.prediction,
    }
