# SPDX-License-Identifier: Apache-2.0
import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval.bigbench.choice_scores import (
    argmax,
    brier_score,
    calibration_error,
    choice_row,
    expected_calibration_error,
    grade,
    log_sum_exp,
    macro_f1,
    weighted_log_probabilities,
    weighted_probabilities,
)


def row(target_scores, *probabilities, failed=False):
    with np.errstate(divide="ignore"):
        log_probs = np.log(probabilities)
    return choice_row(list(target_scores), target_scores, log_probs, False, failed)


@pytest.mark.parametrize(
    ("target_scores", "probabilities", "score"),
    [
        ({"joy": 0.69, "anger": 0.31}, (0.7, 0.3), 0.69),
        ({"joy": 0.69, "anger": 0.31}, (0.3, 0.7), 0.31),
        ({"a": 1, "b": 1, "c": 0}, (0.2, 0.5, 0.3), 1.0),
        ({"a": 1, "b": -1}, (0.2, 0.5), -1.0),
    ],
)
def test_the_grade_is_the_score_of_the_preferred_choice(target_scores, probabilities, score):
    assert grade([row(target_scores, *probabilities)]).value == score


def test_brier_weighs_each_choice_alike_whatever_its_question():
    rows = [row({"a": 1, "b": 0}, 0.8, 0.2), row({"a": 0, "b": 0.5, "c": 0.5}, 0.2, 0.2, 0.6)]
    first = 0.2**2 + 0.2**2
    second = 0.2**2 + (0.5 * 0.8**2 + 0.5 * 0.2**2) + (0.5 * 0.4**2 + 0.5 * 0.6**2)
    score = brier_score(rows)
    assert math.isclose(score.value, (first + second) / 5)
    assert np.allclose(score.rows, [first / 2, second / 3])


def test_brier_takes_scores_without_a_sum_for_zero_everywhere():
    assert math.isclose(brier_score([row({"a": 1, "b": -1}, 0.8, 0.2)]).value, (0.64 + 0.04) / 2)


@pytest.mark.parametrize("n_buckets", [10, 15])
def test_a_confidence_of_one_belongs_to_the_last_bucket(n_buckets):
    assert math.isclose(expected_calibration_error([0.95, 1.0], [True, False], n_buckets), 0.475)


def test_calibration_compares_accuracy_and_confidence_within_a_bucket():
    error = expected_calibration_error([0.41, 0.43, 0.9], [True, False, True])
    assert math.isclose(error, 2 / 3 * abs(0.5 - 0.42) + 1 / 3 * 0.1)


def test_calibration_looks_at_the_first_of_several_right_choices():
    assert math.isclose(calibration_error([row({"a": 1, "b": 1}, 0.3, 0.7)]).value, 0.7)


def test_weighted_scores_use_absolute_log_probabilities():
    rows = [row({"a": 0.7, "b": 0.3}, 0.5, 0.25), row({"a": 1, "b": 0}, 0.5, 0.0)]
    expected = (0.7 * math.log(0.5) + 0.3 * math.log(0.25) + math.log(0.5)) / 2
    assert math.isclose(weighted_log_probabilities(rows).value, expected)
    assert math.isclose(weighted_probabilities(rows).value, (0.7 * 0.5 + 0.3 * 0.25 + 0.5) / 2)


def test_an_impossible_choice_that_counts_gives_the_low_score_and_a_warning():
    score = weighted_log_probabilities([row({"a": 1, "b": 0}, 0.0, 0.5)])
    assert score.value == -10
    assert "-inf" in score.warnings[0]


def test_macro_f1_counts_labels_that_are_only_predicted():
    rows = [
        row({"a": 1, "b": 0, "c": 0}, 0.8, 0.1, 0.1),
        row({"a": 1, "b": 0, "c": 0}, 0.8, 0.1, 0.1),
        row({"a": 0, "b": 1, "c": 0}, 0.1, 0.1, 0.8),
    ]
    assert math.isclose(macro_f1(rows).value, (1 + 0 + 0) / 3)


def test_macro_f1_keeps_a_failed_row_as_a_miss():
    rows = [row({"a": 1, "b": 0}, 0.8, 0.2), row({"a": 1, "b": 0}, 0.8, 0.2, failed=True)]
    assert math.isclose(macro_f1(rows).value, 2 / 3)


def test_macro_f1_refuses_soft_scores():
    with pytest.raises(ValueError, match="exactly one"):
        macro_f1([row({"a": 0.5, "b": 0.5}, 0.8, 0.2)])


@pytest.mark.parametrize("log_probs", [[math.nan, -1.0], [-math.inf, -math.inf]])
def test_numbers_that_tell_nothing_make_a_wrong_answer(log_probs):
    rows = [choice_row(["a", "b"], {"a": 1, "b": 0}, log_probs, False)]
    assert rows[0].failed
    assert rows[0].picked is None
    assert grade(rows).value == 0
    assert brier_score(rows).value == 1
    assert calibration_error(rows).value == 1
    assert weighted_log_probabilities(rows).value == -10


def test_a_failed_row_stays_in_the_mean():
    rows = [row({"a": 1, "b": 0}, 0.8, 0.2), row({"a": 1, "b": 0}, 0.8, 0.2, failed=True)]
    assert grade(rows).value == 0.5


def test_ties_are_broken_by_the_hash_of_the_numbers():
    values = np.array([-1.0, -2.0, -1.0, -1.0])
    place = int(hashlib.sha256(values.tobytes()).hexdigest(), 16) % 3
    assert argmax(values) == [0, 2, 3][place]


finite = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@settings(deadline=None)
@given(finite)
def test_log_sum_exp_is_scipys_to_the_last_bit(values):
    special = pytest.importorskip("scipy.special")
    if not hasattr(special, "_logsumexp") or not hasattr(special._logsumexp, "_logsumexp"):
        pytest.skip("scipy before 1.15 takes other steps")
    assert log_sum_exp(np.array(values)) == special.logsumexp(values)


@settings(deadline=None)
@given(finite)
def test_log_sum_exp_lies_between_the_largest_and_the_largest_plus_log_n(values):
    assert (
        max(values) <= log_sum_exp(np.array(values)) <= max(values) + math.log(len(values)) + 1e-9
    )


@st.composite
def counted_rows(draw):
    n_rows = draw(st.integers(1, 6))
    rows = []
    for _ in range(n_rows):
        choices = "abc"[: draw(st.integers(2, 3))]
        right = draw(st.sampled_from(choices))
        weights = [draw(st.sampled_from([0.1, 0.3, 0.6, 1.0])) for _ in choices]
        scores = {choice: int(choice == right) for choice in choices}
        failed = draw(st.booleans()) and draw(st.booleans())
        rows.append(row(scores, *weights, failed=failed))
    counts = draw(
        st.lists(st.integers(0, 3), min_size=n_rows, max_size=n_rows).filter(lambda c: sum(c) > 0)
    )
    return rows, counts


@pytest.mark.parametrize("metric", [brier_score, macro_f1])
@settings(max_examples=50, deadline=None)
@given(rows_and_counts=counted_rows())
def test_counted_rows_score_as_repeated_ones(metric, rows_and_counts):
    rows, counts = rows_and_counts
    repeated = [one for one, count in zip(rows, counts, strict=True) for _ in range(count)]
    counted = metric(rows).counted(np.array(counts))
    assert counted == pytest.approx(metric(repeated).value, abs=1e-12)
