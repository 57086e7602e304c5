# SPDX-License-Identifier: Apache-2.0
"""Runs Python that a language model wrote, so that it can neither do harm nor forge its score.

One locked-down process per prediction, forked from a small worker; answers come back as data and
are compared here. See docs/security.md for what is promised and what is not.
"""

from lmeval.sandbox._extract import extract_source
from lmeval.sandbox._pool import Sandbox
from lmeval.sandbox._types import (
    OUTCOMES,
    Job,
    Limits,
    SandboxError,
    SandboxUnavailable,
    Verdict,
)

__all__ = [
    "OUTCOMES",
    "Job",
    "Limits",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailable",
    "Verdict",
    "extract_source",
]
