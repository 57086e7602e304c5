# SPDX-License-Identifier: Apache-2.0
"""Where lmeval keeps things on this system."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lmeval.api.errors import UsageError


def default_cache_dir() -> Path:
    """The folder for stored answers unless `--cache_dir` names one: in the user's cache folder.

    Raises:
      UsageError: the user has no home folder.
    """
    try:
        return _user_cache() / "lmeval"
    except RuntimeError:  # in a container, say, whose user has neither HOME nor an account
        raise UsageError(
            "There is no home folder to keep answers in; name one with --cache_dir, or run with "
            "--nocache."
        ) from None


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base)
