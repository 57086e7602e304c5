# SPDX-License-Identifier: Apache-2.0
"""Token F1, numeric match, BLEU and macro F1 (sections C, D and G)."""

import importlib.util
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval.api import corpus_metrics
from lmeval.api.corpus_metrics import bleu, macro_f1, numeric_match, token_f1
from lmeval.api.errors import MetricError, MissingExtraError
from lmeval.api.metrics import find_metric

texts = st.text(max_size=30)
needs_sacrebleu = pytest.mark.skipif(
    importlib.util.find_spec("sacrebleu") is None, reason="sacrebleu is not installed"
)


# --- token_f1 ---


@pytest.mark.parametrize(
    ("target", "prediction", "score"),
    [
        ("Paris", "Paris Paris Paris Paris Paris", 1 / 3),  # P030: precision 0.2, recall 1
        ("hello world", "world hello", 1.0),  # order does not count
        ("hello", "hello hello", 2 / 3),  # repeats do
        ("A", "A", 1.0),  # P024: articles stay
        ("A", "zebra", 0.0),
        ("A", "", 0.0),
        ("The", "The", 1.0),
        ("The Beatles", "Beatles", 2 / 3),  # P025
        ("Panama Canal", "Pm Cl", 0.0),
        ("3.14", "314", 0.0),  # P028
        ("10", "1.0", 0.0),
        ("Paris", "Paris.", 1.0),  # punctuation is no word
        ("кошка сидит", "кошка", 2 / 3),
        ("", "", 0.0),
        ("...", "...", 0.0),
    ],
)
def test_token_f1(target, prediction, score):
    assert token_f1(prediction, [target], {}) == pytest.approx(score)


def test_token_f1_takes_the_best_target():
    assert token_f1("a b", ["x y", "a b c d"], {}) == pytest.approx(2 / 3)


@given(texts, st.lists(texts, max_size=3))
def test_token_f1_of_any_text_lies_in_range(prediction, targets):
    assert 0 <= token_f1(prediction, targets, {}) <= 1


@given(texts, texts)
def test_token_f1_is_symmetric(first, second):
    assert token_f1(first, [second], {}) == token_f1(second, [first], {})


# --- numeric_match ---


@pytest.mark.parametrize(
    ("target", "prediction", "score"),
    [
        # P028
        ("10", "1.0", 0),
        ("3.14", "314", 0),
        ("1.0", "1", 1),
        ("3.14", "(3.14)", 1),
        ("1,000", "1000", 1),
        # faults of substring logic on numbers
        ("5", "25", 0),
        ("5", "50", 0),
        ("5", "-5", 0),
        ("11", "711", 0),
        ("3.14", "33.14", 0),
        # further
        ("42", "$42.00", 1),
        ("42", "**42**", 1),
        ("42", "42.", 1),
        ("-7", "\u22127", 1),
        ("0.1", "0.1000000000000000055", 0),  # exact, no tolerance
        ("42", "the answer is 42", 0),  # one number and nothing else
        ("42", "", 0),
        ("42", "nan", 0),
    ],
)
def test_numeric_match(target, prediction, score):
    assert numeric_match(prediction, [target], {}) == score


def test_numeric_match_takes_any_target():
    assert numeric_match("2", ["1", "2.0"], {}) == 1


@pytest.mark.parametrize("target", ["forty", "", "5 apples", "1/2"])
def test_a_target_that_is_no_number_is_refused(target):
    assert "none" in find_metric("numeric_match").check_row(["1", target], {})


@given(texts, st.lists(texts, max_size=3))
def test_numeric_match_of_any_text_is_zero_or_one(prediction, targets):
    assert numeric_match(prediction, targets, {}) in (0, 1)


@given(st.integers())
def test_an_integer_matches_itself_however_it_is_written(value):
    assert numeric_match(f"{value:,}.0", [str(value)], {}) == 1


# --- bleu ---

NO_EXTRAS = [{}] * 3


@needs_sacrebleu
def test_references_are_scored_row_by_row():
    # P036: 45.0675; the transposed references would give 100 and a flat list 0.
    hypotheses = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    references = [
        ["The dog bit the man."],
        ["It was not unexpected."],
        ["The man bit him first."],
    ]

    assert bleu(hypotheses, references, NO_EXTRAS) == pytest.approx(45.0675, abs=5e-5)


@needs_sacrebleu
@pytest.mark.parametrize(
    ("prediction", "target", "score"),
    [
        ("hello world", "hello world", 0.0),  # P037: corpus BLEU has no 4-gram to count here
        ("no", "yes", 0.0),
        ("the cat", "the cat sat on the mat", 0.0),
        ("", "some text", 0.0),  # P035
        ("some text", "\f", 0.0),
        ("...", "...", 0.0),
        ("", "", 0.0),
        ("the cat sat on the mat", "the cat sat on the mat", 100.0),
    ],
)
def test_bleu_of_one_row(prediction, target, score):
    assert bleu([prediction], [[target]], [{}]) == pytest.approx(score)


@needs_sacrebleu
def test_rows_may_have_different_numbers_of_references():
    predictions = ["a b c d e", "f g h i j"]
    targets = [["x", "a b c d e"], ["f g h i j"]]

    assert bleu(predictions, targets, [{}, {}]) == 100.0


@needs_sacrebleu
@settings(deadline=None)
@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_bleu_of_any_text_lies_in_range(rows):
    predictions, targets = zip(*rows, strict=True)
    assert 0 <= bleu(predictions, targets, [{}] * len(rows)) <= 100


words = st.text(alphabet="ab c.,", max_size=12)
some_rows = st.lists(
    st.tuples(words, st.lists(words, min_size=1, max_size=3), st.integers(0, 3)),
    min_size=1,
    max_size=6,
).filter(lambda rows: any(count for *_, count in rows))


@needs_sacrebleu
@settings(deadline=None)
@given(some_rows)
def test_bleu_of_counted_rows_is_sacrebleus_of_repeated_ones(rows):
    from sacrebleu.metrics import BLEU

    predictions, targets, counts = map(list, zip(*rows, strict=True))
    repeated = [row for row in rows for _ in range(row[2])]
    streams = list(itertools.zip_longest(*(row[1] for row in repeated)))
    expected = BLEU().corpus_score([row[0] for row in repeated], streams).score
    score = find_metric("bleu").prepare(predictions, targets, [{}] * len(rows))
    assert score(np.array(counts)) == min(expected, 100.0)


def test_bleu_says_its_range():
    assert find_metric("bleu").high_score == 100


def test_bleu_without_sacrebleu_names_the_extra_while_the_task_loads(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    corpus_metrics._require_sacrebleu.cache_clear()

    with pytest.raises(MissingExtraError, match=r"pip install 'lmeval\[text\]'"):
        find_metric("bleu").check_row(["target"], {})


@needs_sacrebleu
def test_bleu_of_no_rows_is_an_error():
    with pytest.raises(MetricError, match="at least one row"):
        bleu([], [], [])


# --- macro_f1 ---


def test_macro_f1_takes_the_union_of_labels():
    # P061. a: 2 of 2 right, F1 1; b: never answered, 0; c: never right, 0.
    scores = macro_f1(["a", "a", "c"], [["a"], ["a"], ["b"]], NO_EXTRAS)

    assert scores["macro_f1"] == pytest.approx(1 / 3)
    assert scores["macro_f1_target_labels"] == pytest.approx(1 / 2)


def test_macro_f1_by_hand():
    # a: 1 right of 2 answered and 1 wanted, F1 2/3; b: 1 of 1 and 2, F1 2/3.
    scores = macro_f1(["A", "a ", "B"], [["a"], ["b"], ["b"]], NO_EXTRAS)

    assert scores == {
        "macro_f1": pytest.approx(2 / 3),
        "macro_f1_target_labels": pytest.approx(2 / 3),
    }


def test_a_row_without_answer_is_not_dropped():
    # a: 1 right of 1 and 2, F1 2/3; the empty answer is a label with F1 0.
    scores = macro_f1(["a", ""], [["a"], ["a"]], [{}, {}])

    assert scores["macro_f1"] == pytest.approx(1 / 3)
    assert scores["macro_f1_target_labels"] == pytest.approx(2 / 3)


labels = st.sampled_from(["a", "b", "c", ""])


@given(st.lists(st.tuples(labels, labels), min_size=1, max_size=12))
def test_macro_f1_lies_in_range_and_is_one_only_when_all_is_right(rows):
    predictions, targets = zip(*rows, strict=True)
    score = macro_f1(predictions, [[target] for target in targets], [{}] * len(rows))["macro_f1"]

    assert 0 <= score <= 1
    assert (score == 1) == (predictions == targets)


def test_several_targets_are_no_label():
    assert "exactly one target" in find_metric("macro_f1").check_row(["a", "b"], {})
    assert find_metric("macro_f1").check_row(["a"], {}) is None


def test_macro_f1_of_no_rows_is_an_error():
    with pytest.raises(MetricError, match="at least one row"):
        macro_f1([], [], [])


@given(some_rows)
def test_macro_f1_of_counted_rows_is_that_of_repeated_ones(rows):
    predictions, targets, counts = map(list, zip(*rows, strict=True))
    repeated = [row for row in rows for _ in range(row[2])]
    expected = macro_f1(
        [row[0] for row in repeated], [row[1][:1] for row in repeated], [{}] * len(repeated)
    )
    score = find_metric("macro_f1").prepare(predictions, targets, [{}] * len(rows))
    assert score(np.array(counts)) == pytest.approx(expected)
