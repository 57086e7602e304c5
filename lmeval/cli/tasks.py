# SPDX-License-Identifier: Apache-2.0
"""`lmeval tasks`: what tasks there are."""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from absl import flags

from lmeval.api.errors import LmevalError, UsageError
from lmeval.cli.flag_kinds import define_joined_list
from lmeval.cli.tables import counted, print_table, printable

if TYPE_CHECKING:
    from lmeval.api.registry import TaskSummary

USAGE = "tasks [PATTERN…] [flags]"
HELP = "List the tasks: all, those of a name pattern, or those with a keyword."


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""
    flags.DEFINE_multi_string(
        "tasks_dir", [], "Folder with tasks of yours.", flag_values=flag_values
    )
    define_joined_list(flag_values, "keyword", [], "Only tasks with each of these.")
    flags.DEFINE_boolean("by_keyword", False, "List tasks under keywords.", flag_values=flag_values)
    flags.DEFINE_boolean("markdown", False, "Write a Markdown table.", flag_values=flag_values)


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """List tasks; 1 if one of them cannot be described."""
    from lmeval.api.failures import describe_failure
    from lmeval.api.registry import TaskCatalog, summarize_task

    catalog = TaskCatalog.of(flag_values.tasks_dir)
    summaries: list[TaskSummary] = []
    problems: list[str] = []
    for source in catalog.sources:
        if args and not any(fnmatch.fnmatchcase(source.name, pattern) for pattern in args):
            continue
        try:
            summaries.append(summarize_task(source))
        except LmevalError as error:
            problems.append(f"{source.name}: {error}")
        except (Exception, SystemExit) as error:  # get_task_details may raise anything
            reason = describe_failure(error, source.path / "task.py")
            problems.append(f"{source.name}: {reason}")
    wanted = set(flag_values.keyword)
    summaries = [summary for summary in summaries if wanted <= set(summary.keywords)]
    if not summaries and not problems:
        raise UsageError("No task fits; `lmeval tasks --by_keyword` lists the keywords in use.")
    if flag_values.markdown:
        _print_markdown(summaries, out)
    elif flag_values.by_keyword:
        _print_by_keyword(summaries, out)
    else:
        _print_list(summaries, out)
    for problem in problems:
        print(f"cannot be listed: {printable(' '.join(problem.split()))}", file=out)
    return int(bool(problems))


def _print_list(summaries: Sequence[TaskSummary], out: TextIO) -> None:
    room = shutil.get_terminal_size((100, 0)).columns
    names = max((len(summary.source.name) for summary in summaries), default=0)
    rows = []
    for summary in summaries:
        text = " ".join(summary.description.split())
        space = max(20, room - names - 20)
        shown = text if len(text) <= space else f"{text[: space - 1]}…"
        rows.append([summary.source.name, summary.source.kind, shown])
    print_table(out, ["task", "kind", "what it asks"], rows, left=3)
    print(f"\n{counted(len(rows), 'task')}", file=out)


def _print_by_keyword(summaries: Sequence[TaskSummary], out: TextIO) -> None:
    keywords = sorted({keyword for summary in summaries for keyword in summary.keywords})
    for keyword in keywords:
        names = [printable(s.source.name) for s in summaries if keyword in s.keywords]
        print(f"{printable(keyword)} ({len(names)}): {', '.join(names)}", file=out)
    without = [printable(s.source.name) for s in summaries if not s.keywords]
    if without:
        print(f"without keywords ({len(without)}): {', '.join(without)}", file=out)


def _print_markdown(summaries: Sequence[TaskSummary], out: TextIO) -> None:
    print("| task | kind | keywords | description |\n| --- | --- | --- | --- |", file=out)
    for summary in summaries:
        cells = [
            summary.source.name,
            summary.source.kind,
            ", ".join(summary.keywords),
            summary.description,
        ]
        escaped = (printable(" ".join(cell.split())).replace("|", "\\|") for cell in cells)
        print(f"| {' | '.join(escaped)} |", file=out)
