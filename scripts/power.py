#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Say how many rows it takes to see a difference: `scripts/power.py --difference 0.02`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("power")
