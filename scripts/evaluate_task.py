#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluate a model on tasks: `scripts/evaluate_task.py --task arithmetic --model toy`."""

import pathlib
import sys

# So that it works from a checkout that is not installed.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from lmeval.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
