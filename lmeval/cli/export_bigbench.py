# SPDX-License-Identifier: Apache-2.0
"""`lmeval export-bigbench`: a leaderboard in BIG-bench's own result files."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from absl import flags

from lmeval.api.errors import UsageError

USAGE = "export-bigbench leaderboard.json [--output_dir DIR]"
HELP = (
    "Write each task's scores as BIG-bench does, to TASK/results/scores_FAMILY_MODEL.json; a file "
    "that is there already is kept under another name."
)


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""
    flags.DEFINE_string(
        "output_dir", "bigbench_results", "The folder to write to.", flag_values=flag_values
    )


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Write the files; 0 if all are written."""
    if len(args) != 1:
        raise UsageError("export-bigbench takes one leaderboard: lmeval export-bigbench A.json")
    import lmeval
    from lmeval.bigbench.export import result_files, write_result_file

    for name, content in result_files(lmeval.read_leaderboard(args[0])):
        path = Path(flag_values.output_dir, name)
        kept = write_result_file(path, content)
        print(f"{path}" + (f" (the older one is {kept.name})" if kept else ""), file=out)
    return 0
