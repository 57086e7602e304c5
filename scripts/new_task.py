#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a task folder that runs at once: `scripts/new_task.py my_task --kind python`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("new")
