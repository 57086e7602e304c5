#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Look at a task folder as a reviewer would: `scripts/check_task.py my_tasks/my_task`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("check")
