#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare two leaderboards: `scripts/compare_runs.py before.json after.json`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("compare")
