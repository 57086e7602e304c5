# SPDX-License-Identifier: Apache-2.0
"""The scripts run from a checkout, and say what a bare Python lacks."""

import configparser
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (ROOT / "scripts").glob("*.py") if path.stem != "_checkout")


def run_script(path, *arguments, options=()):
    return subprocess.run(
        [sys.executable, *options, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_a_verb(path):
    done = run_script(path, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: lmeval ")


def test_a_bare_python_is_told_what_to_install():
    # Without site-packages, as a Python that nothing was installed into.
    done = run_script(SCRIPTS[0], options=("-E", "-S"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    needed = re.findall(r"^([\w-]+)", metadata["options"]["install_requires"], re.MULTILINE)
    assert done.stderr.endswith(f"-m pip install {' '.join(needed)}\n")
