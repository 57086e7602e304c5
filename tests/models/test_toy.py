# SPDX-License-Identifier: Apache-2.0
"""The toy model: its rules, and the one distribution behind its log-probabilities."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.models.toy import ToyModel
from lmeval.models.toy_rules import UNKNOWN, answer_by_rule
from lmeval.testing import ModelTestMixin

CHOICE = "choose A, B, C or D: {}\nA) {}\nB) {}\nC) {}\nD) {}"


class TestToyModel(ModelTestMixin):
    scores_text = True
    scores_whole_texts = True

    def make_model(self):
        return ToyModel()


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("compute: 2 + 2", "4"),
        ("compute: 2 + 3 * (4 - 6)", "-4"),
        ("compute: -7", "-7"),
        ("compute: 84 / 7", "12"),
        ("compute: 1 / 3", "1/3"),
        ("Compute:2+2", "4"),
        ("compute: 1 / 0", UNKNOWN),
        ("compute: 2 ** 9", UNKNOWN),
        ("compute: __import__('os')", UNKNOWN),
        ("compute: " + "(" * 100 + "1" + ")" * 99, UNKNOWN),
        ("compute: " + "1 + " * 1000 + "1", UNKNOWN),
        ("compute:", UNKNOWN),
        ("summarize: It rained. The river rose.", "It rained."),
        (
            "summarize: Prices rose by 2.5 per cent today. Why?",
            "Prices rose by 2.5 per cent today.",
        ),
        ("summarize: no end", UNKNOWN),
        (CHOICE.format("Which number is the largest?", 3, 20, -1, 7), "B"),
        (CHOICE.format("Which number is the smallest?", 3, 20, -1, 7), "C"),
        (CHOICE.format("Which number is even?", 3, 21, -1, 8), "D"),
        (CHOICE.format("Which number is even?", 3, 21, -1, 7), UNKNOWN),
        (CHOICE.format("Which number is the largest?", "x", "y", "z", "u"), UNKNOWN),
        (CHOICE.format("Which number can be divided by 0?", 1, 2, 3, 4), UNKNOWN),
        (CHOICE.format("Which word ends with the letter 'k'?", "a", "milk", "c", "d"), "B"),
        (CHOICE.format("Which is best?", 1, 2, 3, 4), UNKNOWN),
        ("choose A, B, C or D: Which number is the largest?", UNKNOWN),
        ("python: write a function f that doubles its input", "def f(x): return 2 * x"),
        ("python: write a function f that adds 31 to its input.", "def f(x): return x + 31"),
        ("python: write a function f that proves Fermat's theorem", UNKNOWN),
        ("python: print hello", UNKNOWN),
        ("write: a sentence with the day after Sunday", "Here it is: Monday."),
        ("write: a sentence with the month before January", "Here it is: December."),
        ("write: a sentence with the day after Doomsday", UNKNOWN),
        ("write: a sentence with the sum of six and ten in digits", "Here it is: 16."),
        ("write: a sentence with the plural of 'city'", "Here it is: cities."),
        ("write: a sentence with the plural of 'key'", "Here it is: keys."),
        ('edit: replace "a" by "b": a c a', "b c b"),
        ('edit: leave out "very": a very big dog', "a big dog"),
        ('edit: swap "cat" and "dog": cat, dog, catalogue', "dog, cat, catalogue"),
        ('edit: put "red" before "car": a car', "a red car"),
        ("edit: make it better: a car", UNKNOWN),
        ("What is 2 + 2?", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_follows_its_rules(prompt, answer):
    assert answer_by_rule(prompt) == answer


@pytest.mark.parametrize(
    "prompt",
    [
        "Q: compute: 3 + 4\nA:",
        "Q: compute: 3 + 4 A: ",
        "Answer the question.\n\ncompute: 1 + 1\n2\n\ncompute: 3 + 4",
        "Q: compute: 1 + 1\nA: 2\nQ: compute: 3 + 4\nAnswer:",
        "compute: 3 + 4\nGive the number only.",
    ],
)
def test_answers_the_last_query_between_shots_and_prefixes(prompt):
    assert answer_by_rule(prompt) == "7"


def test_choices_are_those_of_the_last_query():
    shot = CHOICE.format("Which number is odd?", 2, 4, 5, 6) + "\nC"
    query = CHOICE.format("Which number is odd?", 9, 4, 8, 6) + "\nAnswer:"
    assert answer_by_rule(f"{shot}\n\n{query}") == "A"


@given(st.text())
def test_answers_any_text(text):
    assert answer_by_rule(text)
    assert answer_by_rule(f"compute: {text}")
    assert answer_by_rule(f"choose A, B, C or D: Which number is even?\nA) {text}\nB) {text}")


@pytest.mark.parametrize(
    "query",
    [
        'edit: swap "' + '" and "' * 30_000,
        "choose A, B, C or D: " + "number equals " * 30_000 + "\nA) 1",
        "write: " + "the sum of one and " * 30_000,
        "compute: " + "(" * 300_000,
        "summarize: " + "." * 300_000,
        "python: write a function f that " + "." * 300_000,
        "compute: " * 50_000,
    ],
)
def test_hostile_queries_are_not_understood_but_come_to_an_end(query):
    assert answer_by_rule(query) == UNKNOWN


def test_absolute_log_probs_follow_the_documented_distribution():
    def rest(n):
        return 0.1 * 0.5 * (0.5 / (sys.maxunicode + 1)) ** n

    values = ToyModel().cond_log_prob("compute: 2 + 2", ["4", " 4", "5", "", "five"], True)
    expected = [0.45 + rest(1), 0.45 + rest(2), rest(1), rest(0), rest(4)]
    assert [math.exp(value) for value in values] == pytest.approx(expected, rel=1e-12)


def test_probabilities_of_all_texts_sum_to_one():
    # sys.maxunicode + 1 texts of each further character, each 0.5 / (sys.maxunicode + 1) as likely.
    rest = sum(0.1 * 0.5 * 0.5**length for length in range(200))
    assert 0.45 + 0.45 + rest == pytest.approx(1.0, abs=1e-12)


def test_whole_texts_are_scored_after_nothing():
    model = ToyModel()
    texts = ["one", "", UNKNOWN]
    after_nothing = model.cond_log_prob(["", "", ""], [[text] for text in texts], True)
    assert model.rolling_log_prob(texts) == [row[0] for row in after_nothing]


def test_fingerprint_names_the_version_of_the_rules():
    assert ToyModel().fingerprint() == "toy, rules version 1"
