# SPDX-License-Identifier: Apache-2.0
"""Lets the scripts beside it run from a checkout that is not installed."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))


def run_verb(verb: str) -> None:
    """Run `lmeval VERB` with this process's arguments; leaves with its exit code."""
    from lmeval.cli.main import console

    sys.argv.insert(1, verb)
    console()
