# SPDX-License-Identifier: Apache-2.0
"""Lets the scripts beside it run from a checkout that is not installed."""

import importlib.util
import pathlib
import sys

_CHECKOUT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGES = {"absl": "absl-py", "attrs": "attrs", "numpy": "numpy", "rich": "rich"}
"""What lmeval needs: the module's name and the package's, as in setup.cfg."""


def run_verb(verb: str) -> None:
    """Run `lmeval VERB` with this process's arguments; leaves with its exit code."""
    if missing := [module for module in _PACKAGES if importlib.util.find_spec(module) is None]:
        packages = " ".join(_PACKAGES[module] for module in missing)
        sys.exit(
            f"lmeval: this Python lacks packages that lmeval needs: {sys.executable} -m pip "
            f"install {packages}"
        )
    sys.path.insert(0, str(_CHECKOUT))
    from lmeval.cli.main import console

    sys.argv.insert(1, verb)
    console()
