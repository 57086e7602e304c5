#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compute a leaderboard again from saved samples: `scripts/rescore.py samples`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("rescore")
