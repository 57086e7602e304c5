# SPDX-License-Identifier: Apache-2.0
"""How long the engine waits before it asks again."""

import random

import pytest

from lmeval.api.errors import TransientModelError
from lmeval.engine.calls import wanted_and_given_pause
from lmeval.engine.settings import EngineSettings


def pauses(retry_after, attempt=0):
    fault = TransientModelError("busy", retry_after)
    settings = EngineSettings(backoff_s=2.0, max_backoff_s=60.0)
    return wanted_and_given_pause(fault, attempt, settings, random.Random(0))


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [(3, (3.0, 3.0)), ("7", (7.0, 7.0)), (100.0, (100.0, 60.0)), (-1, (-1.0, 0.0))],
)
def test_what_the_model_states_is_kept_up_to_the_longest_wait(retry_after, expected):
    assert pauses(retry_after) == expected


@pytest.mark.parametrize("retry_after", [None, "Wed, 21 Oct 2026 07:28:00 GMT", []])
def test_without_a_number_the_wait_doubles_with_each_attempt(retry_after):
    first, second = (pauses(retry_after, attempt)[1] for attempt in (0, 1))
    assert 1.0 <= first <= 2.0
    assert second == 2 * first


def test_the_thousandth_attempt_waits_as_long_as_any():
    assert pauses(None, attempt=5000)[1] == 60.0
