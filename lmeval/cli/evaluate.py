# SPDX-License-Identifier: Apache-2.0
"""`lmeval evaluate`: run tasks on a model, print a table, write a leaderboard."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from absl import flags

from lmeval.api.errors import ResultsError, UsageError
from lmeval.cli.code_exec_flags import LIMIT_FLAGS, define_code_exec_flags, make_sandbox
from lmeval.cli.flag_kinds import define_integer, define_joined_list
from lmeval.cli.folders import default_cache_dir
from lmeval.cli.report import check_output, print_leaderboard, report_failures
from lmeval.cli.streams import messages, tell
from lmeval.cli.tables import printable

if TYPE_CHECKING:
    from lmeval.api.model import Model
    from lmeval.api.options import TaskOptions
    from lmeval.api.results import Leaderboard
    from lmeval.engine.engine import Engine
    from lmeval.engine.run import LoadedTask
    from lmeval.engine.samples_folder import SamplesFolder
    from lmeval.engine.settings import EngineSettings
    from lmeval.sandbox import Sandbox

USAGE = "evaluate --task NAME[,NAME…] --model NAME [flags]"
HELP = "Run tasks on a model, print a table and write a leaderboard."

EXIT_INTERRUPTED = 130

_USUAL_CONCURRENCY = 8
"""Calls at once unless said otherwise: much faster than one, and gentle to a server."""

_SCORE_FLAGS = (
    "task",
    "model",
    "model_args",
    "max_examples",
    "shots",
    "max_length",
    "output_regex",
    "stop_string",
    "answer_extraction",
    "bigbench_rouge_seed",
    "timeout_s",
    "max_retries",
    "allow_code_exec",
)
"""Flags that can change a score: they stand in the leaderboard, as does the seed."""


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""
    _define_what_to_run(flag_values)
    _define_how_to_run(flag_values)
    define_code_exec_flags(flag_values)
    _define_what_to_write(flag_values)


def _define_what_to_run(values: flags.FlagValues) -> None:
    def text(name: str, default: str | None, help_text: str) -> None:
        flags.DEFINE_string(name, default, help_text, flag_values=values)

    define_joined_list(values, "task", [], "Tasks: names, NAME.SUBTASK, patterns, paths, or all.")
    text("model", None, "Built-in name, package.module:Class or file.py:Class.")
    text("model_args", "", "Settings of the model: name=value,…")
    flags.DEFINE_multi_string("tasks_dir", [], "Folder with tasks of yours.", flag_values=values)
    define_joined_list(values, "shots", ["0"], "Solved examples in the prompt: 0 or 0,2,5.")
    define_integer(values, "max_examples", None, "Evaluate only the first N examples of a task.", 1)
    define_integer(values, "max_length", None, "Longest answer, in characters.", 1)
    define_integer(values, "seed", None, "Seed of all that is drawn.", upper_bound=2**128 - 1)
    text("output_regex", None, "The answer is the first match (its group, if any).")
    text("stop_string", None, "The answer ends before this text.")
    text("answer_extraction", None, "Find the answer in free text: letter or number.")
    define_integer(
        values,
        "bigbench_rouge_seed",
        None,
        "BIG-bench tasks: rouge as the original's bootstrap, with this seed (default: the mean).",
        0,
    )


def _define_how_to_run(values: flags.FlagValues) -> None:
    define_integer(values, "batch_size", None, "Most requests in a call (default: the model's).", 1)
    define_integer(values, "batch_chars", None, "Most characters in one call of the model.", 1)
    define_integer(values, "concurrency", None, "Most calls at once (default: 8, if it can).", 1)
    define_integer(values, "parallel_tasks", 1, "Tasks to evaluate side by side.", 1)
    flags.DEFINE_float("timeout_s", None, "Seconds that an answer may take.", flag_values=values)
    define_integer(values, "max_retries", 5, "How often to ask again after a passing fault.", 0)
    define_integer(values, "max_consecutive_failures", 100, "Stop after so many failures.", 1)
    flags.DEFINE_boolean("nocache", False, "Keep no answers for later runs.", flag_values=values)
    flags.DEFINE_string(
        "cache_dir",
        None,
        "Where answers are kept (default: your cache folder).",
        flag_values=values,
    )
    flags.DEFINE_boolean("quiet", False, "Show no progress.", flag_values=values)


def _define_what_to_write(values: flags.FlagValues) -> None:
    flags.DEFINE_string("output", "leaderboard.json", "The leaderboard file.", flag_values=values)
    flags.DEFINE_boolean(
        "include_per_example", False, "Write every answer and its score too.", flag_values=values
    )
    flags.DEFINE_string(
        "samples_dir",
        None,
        "Write every answer and its score to JSON Lines in this folder, task by task.",
        flag_values=values,
    )
    flags.DEFINE_boolean("overwrite", False, "Replace another run's file.", flag_values=values)
    define_integer(values, "allow_failures", 0, "Failed answers that still count as a good run.", 0)


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Run tasks on a model; 0 for a good run, 1 for one with failures."""
    if args:
        raise UsageError(f"evaluate takes flags only (found {args[0]!r}); name tasks with --task.")
    if flag_values.model is None:
        raise UsageError("No model given; name one with --model (toy needs nothing).")
    check_output(flag_values.output)
    sandbox = make_sandbox(flag_values)
    try:
        board = _evaluated(flag_values, sandbox)
    finally:
        if sandbox is not None:
            sandbox.close()
    if board is None:
        return EXIT_INTERRUPTED
    return _write_and_print(board, flag_values, out)


def _evaluated(values: flags.FlagValues, sandbox: Sandbox | None) -> Leaderboard | None:
    """The results of the run that the flags describe; None if it was interrupted."""
    from lmeval.api.model_registry import build_model, parse_model_args
    from lmeval.cli.progress import make_progress
    from lmeval.engine.engine import Engine
    from lmeval.engine.run import load_tasks, run_tasks

    options = _task_options(values, sandbox)
    tasks = load_tasks(values.task, options, values.tasks_dir)
    model = build_model(values.model, parse_model_args(values.model_args))
    recorded = _flags_to_record(values)
    hashes = {task.name: task.sha256 for task in tasks}
    with (
        make_progress(_expected_requests(tasks), messages(), values.quiet) as progress,
        Engine(model, _engine_settings(values, model), progress=progress) as engine,
    ):
        try:
            _refuse_to_lose(values, engine, options, recorded, hashes)
            return run_tasks(
                tasks,
                engine,
                options,
                flags=recorded,
                parallel_tasks=values.parallel_tasks,
                samples=_samples(values, engine, options, recorded, hashes),
                notify=progress.notice,
            )
        except KeyboardInterrupt:
            interrupted = engine
    tell(_how_to_go_on(values, interrupted))
    return None


def _flags_to_record(values: flags.FlagValues) -> dict[str, Any]:
    names = (*_SCORE_FLAGS, *LIMIT_FLAGS) if values.allow_code_exec else _SCORE_FLAGS
    return {name: values[name].value for name in names}


def _refuse_to_lose(
    values: flags.FlagValues,
    engine: Engine,
    options: TaskOptions,
    recorded: Mapping[str, Any],
    hashes: Mapping[str, str],
) -> None:
    """Raise ResultsError if writing this run would cost what the output file holds."""
    if values.overwrite:
        return
    from lmeval.api.leaderboard_file import RunConfiguration, refuse_other_run

    planned = RunConfiguration(
        engine.name, engine.model_data(), engine.fingerprint(), options.seed, recorded, hashes
    )
    refuse_other_run(values.output, planned, values.include_per_example)


def _write_and_print(board: Leaderboard, values: flags.FlagValues, out: TextIO) -> int:
    """Write the file first: whoever reads what is printed may be gone."""
    from lmeval.api.leaderboard_file import write_leaderboard

    try:
        write_leaderboard(
            board,
            values.output,
            include_per_example=values.include_per_example,
            overwrite=values.overwrite,
        )
    except ResultsError:  # the disk is full, or another run was quicker
        print_leaderboard(board, out)
        raise
    print_leaderboard(board, out)
    print(f"\nWritten to {printable(values.output)}", file=out)
    return report_failures(board, values.allow_failures, out)


def _task_options(values: flags.FlagValues, sandbox: Sandbox | None) -> TaskOptions:
    from lmeval.api.answers import ANSWER_EXTRACTIONS
    from lmeval.api.model import compile_output_regex, stop_strings
    from lmeval.api.options import TaskOptions

    compile_output_regex(values.output_regex)
    stop_strings(values.stop_string)
    rouge_seed = values.bigbench_rouge_seed
    if values.answer_extraction not in (None, *ANSWER_EXTRACTIONS):
        known = ", ".join(ANSWER_EXTRACTIONS)
        raise UsageError(f"--answer_extraction {values.answer_extraction}: known are {known}.")
    return TaskOptions(
        shots=_shots(values.shots),
        max_examples=values.max_examples,
        seed=values.seed,
        max_length=values.max_length,
        stop_string=values.stop_string,
        output_regex=values.output_regex,
        answer_extraction=values.answer_extraction,
        dialect_settings={} if rouge_seed is None else {"rouge_seed": rouge_seed},
        sandbox=sandbox,
    )


def _expected_requests(tasks: Sequence[LoadedTask]) -> dict[str, int | None]:
    """How many requests each task will make; None where only the task itself knows."""
    from lmeval.api.json_task import JsonTask

    return {
        each.name: each.task.number_of_requests if isinstance(each.task, JsonTask) else None
        for each in tasks
    }


def _how_to_go_on(values: flags.FlagValues, engine: Engine) -> str:
    stopped = "stopped; no leaderboard is written,"
    if values.nocache:
        return f"{stopped} and with --nocache no answer is kept, so the next run begins anew."
    if engine.fingerprint() is None:
        return (
            f"{stopped} and no answer is kept, since the model {engine.name} gives no "
            "fingerprint (docs/models.md), so the next run begins anew."
        )
    return f"{stopped} but the same command goes on from the answers that are stored."


def _shots(words: list[str]) -> tuple[int, ...]:
    if not words or not all(word.strip().isdecimal() for word in words):
        raise UsageError(f"--shots {','.join(words)}: must be numbers such as 0 or 0,2,5.")
    return tuple(dict.fromkeys(int(word) for word in words))


def _engine_settings(values: flags.FlagValues, model: Model) -> EngineSettings:
    from lmeval.engine.settings import EngineSettings

    return EngineSettings(
        batch_size=values.batch_size or model.preferred_batch_size,
        batch_chars=values.batch_chars,
        concurrency=values.concurrency or min(_USUAL_CONCURRENCY, model.max_concurrency),
        timeout_s=values.timeout_s,
        max_retries=values.max_retries,
        max_consecutive_failures=values.max_consecutive_failures,
        cache_dir=None if values.nocache else values.cache_dir or default_cache_dir(),
    )


def _samples(
    values: flags.FlagValues,
    engine: Engine,
    options: TaskOptions,
    recorded: Mapping[str, Any],
    hashes: Mapping[str, str],
) -> SamplesFolder | None:
    if values.samples_dir is None:
        return None
    from lmeval.engine.run import environment, utc_time
    from lmeval.engine.samples import SampledRun
    from lmeval.engine.samples_folder import SamplesFolder

    run_facts = SampledRun(
        adapter=engine.name,
        model=engine.model_data(),
        fingerprint=engine.fingerprint(),
        options=options,
        tasks=tuple(hashes),
        flags=recorded,
        environment=environment(),
        timestamp=utc_time(time.time()),
    )
    return SamplesFolder(values.samples_dir, run_facts, hashes, values.overwrite)
