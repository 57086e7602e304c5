# SPDX-License-Identifier: Apache-2.0
"""`lmeval cache`: what the store of answers holds; thinning it out; taking answers out of it."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from absl import flags

from lmeval.api.errors import ResultsError, UsageError
from lmeval.cli.tables import print_table, printable, shown_count

if TYPE_CHECKING:
    from lmeval.engine.cache_admin import StoreSummary

USAGE = "cache [show|prune|export] [flags]"
HELP = "Show what the store of answers holds, delete answers from it, or write them as JSON Lines."

_SECONDS_A_DAY = 86_400
_LONGEST_FINGERPRINT = 60


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""

    def text(name: str, help_text: str) -> None:
        flags.DEFINE_string(name, None, help_text, flag_values=flag_values)

    text("cache_dir", "Where the answers are kept (in your cache folder unless given).")
    text("model", "prune, export: only answers of the model of this name.")
    flags.DEFINE_float(
        "older_than_days",
        None,
        "prune: only answers stored longer ago.",
        lower_bound=0,
        flag_values=flag_values,
    )
    flags.DEFINE_boolean("all", False, "prune: every answer.", flag_values=flag_values)
    text("output", "export: the file to write, instead of the screen.")


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Carry out one of the three jobs; always 0."""
    job = args[0] if args else "show"
    if job not in ("show", "prune", "export") or len(args) > 1:
        raise UsageError(f"cache knows show, prune and export (found {' '.join(args)!r}).")
    _refuse_flags_of_other_jobs(job, flag_values)
    from lmeval.cli.folders import default_cache_dir

    chosen = flag_values.cache_dir
    folder = Path(chosen or default_cache_dir())
    if job == "show":
        _show(folder, out)
    elif job == "prune":
        _prune(folder, flag_values, out)
    else:
        _export(folder, flag_values, out)
    return 0


def _refuse_flags_of_other_jobs(job: str, values: flags.FlagValues) -> None:
    belongs = {"model": ("prune", "export"), "older_than_days": ("prune",)}
    belongs |= {"all": ("prune",), "output": ("export",)}
    for name, jobs in belongs.items():
        if values[name].present and job not in jobs:
            raise UsageError(f"--{name} belongs to cache {' and cache '.join(jobs)}, not to {job}.")


def _show(folder: Path, out: TextIO) -> None:
    from lmeval.engine.cache_admin import summarize_store

    summary = summarize_store(folder)
    print(f"{summary.path}: {summary.size_bytes / 1e6:.1f} MB\n", file=out)
    if summary.models:
        print_table(out, ["model", "fingerprint", "answers", "oldest", "newest"], _rows(summary), 2)
    else:
        print("No answers.", file=out)
    for path in summary.set_aside:
        print(f"\nA damaged store was set aside, which may be deleted: {path}*", file=out)


def _rows(summary: StoreSummary) -> list[list[str]]:
    rows = []
    for model in summary.models:
        fingerprint = model.fingerprint
        if len(fingerprint) > _LONGEST_FINGERPRINT:
            fingerprint = fingerprint[: _LONGEST_FINGERPRINT - 1] + "…"
        days = [
            datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%d")
            for when in (model.oldest, model.newest)
        ]
        rows.append([model.name, fingerprint, shown_count(model.answers), *days])
    return rows


def _prune(folder: Path, values: flags.FlagValues, out: TextIO) -> None:
    from lmeval.engine.cache_admin import prune_store

    chosen = values.model is not None or values.older_than_days is not None
    if chosen == values.all:
        raise UsageError("cache prune needs --model, --older_than_days or both, or else --all.")
    days = values.older_than_days
    before = None if days is None else time.time() - days * _SECONDS_A_DAY
    deleted, left = prune_store(folder, values.model, before)
    print(f"{shown_count(deleted)} answers deleted, {shown_count(left)} left.", file=out)


def _export(folder: Path, values: flags.FlagValues, out: TextIO) -> None:
    from lmeval.api import strict_json
    from lmeval.engine.cache_admin import export_store

    answers = export_store(folder, values.model)
    if values.output is None:
        for answer in answers:
            print(strict_json.encode_text(strict_json.dumps(answer)).decode(), file=out)
        return
    count = 0
    try:
        with open(values.output, "xb") as file:
            for answer in answers:
                file.write(strict_json.dump_bytes(answer) + b"\n")
                count += 1
    except OSError as error:
        raise ResultsError(
            f"--output {values.output}: cannot be written: {error.strerror or error}."
        ) from None
    print(f"{shown_count(count)} answers written to {printable(values.output)}", file=out)
