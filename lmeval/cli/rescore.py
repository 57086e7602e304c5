# SPDX-License-Identifier: Apache-2.0
"""`lmeval rescore`: a leaderboard from saved samples, without the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import attrs
from absl import flags

from lmeval.api.errors import TaskError, UsageError
from lmeval.cli.code_exec_flags import define_code_exec_flags, make_sandbox
from lmeval.cli.flag_kinds import define_integer
from lmeval.cli.report import check_output, print_leaderboard, report_failures
from lmeval.cli.tables import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lmeval.api.options import TaskOptions
    from lmeval.engine.rescore import Rescored
    from lmeval.engine.run import LoadedTask
    from lmeval.engine.samples import TaskSamples

USAGE = "rescore FOLDER [flags]"
HELP = (
    "Score the answers in a folder of samples again, with the tasks and metrics as they are now, "
    "and write a leaderboard; no model is asked."
)


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""

    def switch(name: str, help_text: str) -> None:
        flags.DEFINE_boolean(name, False, help_text, flag_values=flag_values)

    flags.DEFINE_multi_string(
        "tasks_dir", [], "Folder with tasks of yours.", flag_values=flag_values
    )
    switch("as_recorded", "Take the recorded scores; load no task.")
    flags.DEFINE_string(
        "output", "leaderboard.json", "The leaderboard file.", flag_values=flag_values
    )
    switch("include_per_example", "Write every answer and its score too.")
    switch("overwrite", "Replace another run's file.")
    define_integer(
        flag_values, "allow_failures", 0, "Failed answers that still count as a good run.", 0
    )
    define_code_exec_flags(flag_values)


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Write and print the leaderboard; 0 when good, 1 when answers or tasks failed."""
    if len(args) != 1:
        raise UsageError(f"rescore needs one folder of samples (found {' '.join(args)!r}).")
    from lmeval.api.leaderboard_file import write_leaderboard
    from lmeval.engine.rescore import common_run, rescore
    from lmeval.engine.samples import find_samples, read_samples

    check_output(flag_values.output)
    samples = [read_samples(path) for path in find_samples(args[0])]
    sandbox = make_sandbox(flag_values)
    try:
        options = attrs.evolve(common_run(samples).options, sandbox=sandbox)
        tasks, taken_over = _tasks(samples, options, flag_values)
        rescored = rescore(samples, tasks, options, taken_over)
    finally:
        if sandbox is not None:
            sandbox.close()
    write_leaderboard(
        rescored.leaderboard,
        flag_values.output,
        include_per_example=flag_values.include_per_example,
        overwrite=flag_values.overwrite,
    )
    print_leaderboard(rescored.leaderboard, out)
    _print_how(rescored, out)
    print(f"\nWritten to {printable(flag_values.output)}", file=out)
    return report_failures(rescored.leaderboard, flag_values.allow_failures, out)


def _tasks(
    samples: Sequence[TaskSamples], options: TaskOptions, values: flags.FlagValues
) -> tuple[list[LoadedTask], dict[str, str]]:
    """The tasks that can be loaded, and why the others cannot."""
    if values.as_recorded:
        return [], {task.task: "--as_recorded says so." for task in samples}
    from lmeval.engine.run import load_tasks

    loaded: list[LoadedTask] = []
    missing: dict[str, str] = {}
    for task in samples:
        try:
            loaded += load_tasks([task.task], options, values.tasks_dir)
        except TaskError as error:
            missing[task.task] = str(error)
        except UsageError as error:
            missing[task.task] = f"{error} --tasks_dir names the folder of tasks of your own."
    return loaded, missing


def _print_how(rescored: Rescored, out: TextIO) -> None:
    print(file=out)
    for task, n_changed in rescored.changed.items():
        outcome = f"{n_changed:,} scores differ" if n_changed else "no score differs"
        print(f"{printable(task)}: scored again; {outcome} from those recorded.", file=out)
    for task, reason in rescored.as_recorded.items():
        print(f"{printable(task)}: taken over as recorded: {printable(reason)}", file=out)
