# SPDX-License-Identifier: Apache-2.0
"""What the package leans on: numpy and attrs, nothing else of lmeval, never scipy."""

import ast
import sys
from pathlib import Path

import pytest

import lmeval.statistics

MODULES = sorted(Path(lmeval.statistics.__file__).parent.glob("*.py"))


def imported_names(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_the_standard_library_numpy_attrs_and_its_neighbours(path):
    for name in imported_names(path):
        root = name.partition(".")[0]
        own = name.startswith("lmeval.statistics.")
        assert own or root in ("numpy", "attrs") or root in sys.stdlib_module_names


ALIASES = ("Interval", "RowsStatistic")


def test_every_public_name_is_there():
    for name in lmeval.statistics.__all__:
        assert getattr(lmeval.statistics, name).__doc__ or name in ALIASES
