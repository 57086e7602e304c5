# SPDX-License-Identifier: Apache-2.0
"""Multiple choice by likelihood (section E, and cases from other libraries' faults)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api.choices import best_choices, choice_credit, choice_likelihood, length_normalized
from lmeval.api.errors import MetricError
from lmeval.api.metrics import find_metric

log_probs_and_choices = st.lists(
    st.tuples(st.integers(-20, 0).map(float), st.text(min_size=1, max_size=6)),
    min_size=2,
    max_size=6,
    unique_by=lambda pair: pair[1],
)


@pytest.mark.parametrize(
    ("choices", "log_probs", "normalization", "token_counts", "normalized", "best"),
    [
        # P047 (a): two characters of three bytes each, against six of one byte
        (["日本", "Tokyo!"], [-6.0, -6.6], "raw", None, [-6.0, -6.6], 0),
        (["日本", "Tokyo!"], [-6.0, -6.6], "per_char", None, [-3.0, -1.1], 1),
        (["日本", "Tokyo!"], [-6.0, -6.6], "per_byte", None, [-1.0, -1.1], 0),
        # P047 (b): padding is not counted
        (["one", "two"], [-4.0, -5.4], "per_token", [2, 3], [-2.0, -1.8], 1),
        # lighteval's cases
        (["x", "abc"], [-2.0, -3.0], "raw", None, [-2.0, -3.0], 0),
        (["x", "abc"], [-2.0, -3.0], "per_char", None, [-2.0, -1.0], 1),
        (["x", "abc"], [-2.0, -3.0], "per_token", [1, 3], [-2.0, -1.0], 1),
    ],
)
def test_normalisation_by_length(choices, log_probs, normalization, token_counts, normalized, best):
    got = length_normalized(log_probs, choices, normalization, token_counts)

    assert got == pytest.approx(normalized)
    assert best_choices(got) == [best]


def test_the_metric_gives_all_three_scores():
    assert choice_likelihood([-6.0, -6.6], ["日本", "Tokyo!"], ["Tokyo!"]) == {
        "choice_likelihood": 0.0,
        "choice_likelihood_per_char": 1.0,
        "choice_likelihood_per_byte": 0.0,
    }


@pytest.mark.parametrize(
    ("log_probs", "targets", "credit"),
    [
        ([-1, -1, -3], ["b"], 0.5),  # P046: a tie is shared, wherever the target stands
        ([-1, -1, -3], ["a"], 0.5),
        ([-1, -1, -3], ["c"], 0.0),
        ([-1, -1, -3], ["a", "b"], 1.0),  # both of the tied are right
        ([-2, -1, -3], ["b"], 1.0),
        ([-2, -1, -3], ["a", "c"], 0.0),
        ([-math.inf, -math.inf, -math.inf], ["a"], 1 / 3),
        ([-math.inf, -5, -math.inf], ["b"], 1.0),
    ],
)
def test_credit(log_probs, targets, credit):
    assert choice_credit(log_probs, ["a", "b", "c"], targets) == pytest.approx(credit)


def test_a_model_without_preference_scores_at_chance():
    # P046: not 1.0, and not the share of rows whose target is the first choice.
    choices = ["a", "b", "c", "d"]
    credits = [choice_credit([-1.0] * 4, choices, [choices[row % 4]]) for row in range(400)]

    assert sum(credits) / 400 == pytest.approx(0.25)


@given(log_probs_and_choices, st.randoms(use_true_random=False), st.data())
def test_the_order_of_choices_does_not_matter(pairs, random, data):
    target = data.draw(st.sampled_from([choice for _, choice in pairs]))
    shuffled = random.sample(pairs, len(pairs))

    def scores(rows):
        return choice_likelihood([row[0] for row in rows], [row[1] for row in rows], [target])

    assert scores(pairs) == scores(shuffled)


@given(log_probs_and_choices)
def test_the_credits_of_all_choices_add_up_to_one(pairs):
    log_probs, choices = zip(*pairs, strict=True)
    credits = [choice_credit(log_probs, choices, [choice]) for choice in choices]

    assert sum(credits) == pytest.approx(1)
    assert all(0 <= credit <= 1 for credit in credits)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_log_probability_is_refused(bad):
    with pytest.raises(MetricError, match="choice 1"):
        best_choices([-1.0, bad])


def test_counts_must_agree():
    with pytest.raises(MetricError, match="3 log-probabilities for 4 choices"):
        choice_likelihood([-1.0, -2.0, -3.0], ["a", "b", "c", "d"], ["a"])


@pytest.mark.parametrize(
    ("choices", "normalization", "token_counts", "reason"),
    [
        (["a", ""], "per_char", None, "choice 1 is empty"),
        (["", "a"], "per_byte", None, "choice 0 is empty"),
        (["a", "b"], "per_token", [1, 0], "choice 1 is empty"),
        (["a", "b"], "per_token", None, "got none"),
        (["a", "b"], "per_token", [1], "got 1"),
        (["a", "b"], "per_word", None, "known ones are"),
    ],
)
def test_lengths_that_cannot_divide_are_refused(choices, normalization, token_counts, reason):
    with pytest.raises(MetricError, match=reason):
        length_normalized([-1.0, -2.0], choices, normalization, token_counts)


def test_no_choices_are_refused():
    with pytest.raises(MetricError, match="no log-probability"):
        best_choices([])


@pytest.mark.parametrize(
    ("extras", "targets", "reason"),
    [
        ({}, ["a"], "two or more"),
        ({"choices": "ab"}, ["a"], "two or more"),
        ({"choices": ["a"]}, ["a"], "two or more"),
        ({"choices": ["a", ""]}, ["a"], "something to read"),
        ({"choices": ["a", " "]}, ["a"], "something to read"),
        ({"choices": ["a", 2]}, ["a"], "something to read"),
        ({"choices": ["a", "b", "a"]}, ["a"], "'a' is given twice"),
        ({"choices": ["a", "b"]}, ["c"], "'c' is not among"),
        ({"choices": ["a", "b"]}, ["a", "c"], "'c' is not among"),
    ],
)
def test_rows_without_usable_choices_are_refused(extras, targets, reason):
    assert reason in find_metric("choice_likelihood").check_row(targets, extras)


@pytest.mark.parametrize("targets", [["a"], ["a", "b"], "a"])
def test_rows_with_usable_choices_are_taken(targets):
    assert find_metric("choice_likelihood").check_row(targets, {"choices": ["a", "b"]}) is None
