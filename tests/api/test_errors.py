# SPDX-License-Identifier: Apache-2.0
"""Errors cross processes whole and say what the command line ends with."""

import pickle

import pytest

from lmeval.api import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.MissingExtraError("The model x", "hf"),
        errors.TaskFileError("task.jsonl", "is bad.", 3, 4),
        errors.TransientModelError("busy", retry_after=2.0),
        errors.UsageError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_pickled_whole(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UsageError, 2),
        (errors.TaskFileError, 2),
        (errors.UnsupportedByModel, 2),
        (errors.MissingExtraError, 2),
        (errors.ModelError, 1),
        (errors.FatalModelError, 1),
        (errors.MetricError, 2),
        (errors.FailedMetricError, 1),
    ],
)
def test_wrong_usage_ends_in_2_and_what_goes_wrong_in_a_run_in_1(kind, code):
    assert kind.exit_code == code
