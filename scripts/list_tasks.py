#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""List tasks: `scripts/list_tasks.py --by_keyword`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("tasks")
