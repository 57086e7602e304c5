#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Show, prune or export stored answers: `scripts/cache.py`."""

from _checkout import run_verb

if __name__ == "__main__":
    run_verb("cache")
