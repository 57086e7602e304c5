# SPDX-License-Identifier: Apache-2.0
"""Starts the worker in a bare interpreter: run by path, as `python -s -S -B _boot.py`.

The worker must not load lmeval: each module in it makes each child slower and is one more thing
that foreign code can reach. So the two packages are made up here, and their own code never runs.
"""

import importlib
import os
import sys
import types


def _bare_package(name: str, folder: str) -> None:
    package = types.ModuleType(name)
    package.__path__ = [folder]
    sys.modules[name] = package


def main() -> None:
    """Runs the worker until lmeval hangs up."""
    os.environ.pop("LD_LIBRARY_PATH", None)
    # With one thread no module has anything to mend after a fork, and each hook makes each child
    # slower. Above all `random` would seed itself anew.
    os.register_at_fork = lambda **hooks: None
    here = os.path.dirname(os.path.abspath(__file__))
    # The script's own folder came first; with it gone the path holds the standard library alone.
    del sys.path[0]
    _bare_package("lmeval", os.path.dirname(here))
    _bare_package("lmeval.sandbox", here)
    importlib.import_module("lmeval.sandbox._worker").main()


if __name__ == "__main__":
    main()
