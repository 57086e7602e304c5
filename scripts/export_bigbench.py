#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a leaderboard as BIG-bench's files: `scripts/export_bigbench.py leaderboard.json`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("export_bigbench")
