#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Evaluate a model on tasks: `scripts/evaluate_task.py --task arithmetic --model toy`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("evaluate")
