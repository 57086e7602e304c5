# SPDX-License-Identifier: Apache-2.0
"""Fixtures that the whole suite shares."""

import os
import pathlib

import hypothesis
import pytest

# Deadlines measure the machine, not the code.
hypothesis.settings.register_profile("lmeval", deadline=None)
hypothesis.settings.load_profile("lmeval")

SHARED_CANDIDATES = (
    os.environ.get("LMEVAL_SHARED", ""),
    str(pathlib.Path(__file__).resolve().parents[2] / "shared"),
)


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder of public reference data that lies beside the project, never inside it."""
    for candidate in SHARED_CANDIDATES:
        if candidate and pathlib.Path(candidate).is_dir():
            return pathlib.Path(candidate)
    pytest.skip("the reference data (../shared, or LMEVAL_SHARED) is not on this machine")
