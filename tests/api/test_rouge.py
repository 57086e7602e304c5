# SPDX-License-Identifier: Apache-2.0
"""ROUGE-L: values from rouge-score 0.1.2 and by hand (section D)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval.api.rouge import (
    RougeScore,
    longest_common_subsequence,
    rouge_l,
    rouge_l_score,
    word_tokens,
)

ascii_texts = st.text(st.sampled_from("aAbB zZ09_-.,\n\t\x00\x1c\x7f"), max_size=60)
any_texts = st.text(max_size=40)
tokens = st.lists(st.sampled_from("abcd"), max_size=12)


@pytest.mark.parametrize(
    ("target", "prediction", "precision", "recall", "f1"),
    [
        # P033
        ("the quick brown fox jumps", "quick fox", 1.0, 0.4, 0.5714),
        ("A B C D E F C", "A C B", 0.6667, 0.2857, 0.4),
        ("the the the", "the", 1.0, 0.3333, 0.5),
        ("the cat sat on the mat", "the cat was on a mat", 0.6667, 0.6667, 0.6667),
        ("the cat sat on the mat", "the cat on mat", 1.0, 0.6667, 0.8),
        # P031
        ("สวัสดี", "สวัสดี", 1, 1, 1),
        ("кошка сидит", "кошка сидит", 1, 1, 1),
        ("नमस्ते दुनिया, कैसे हो?", "नमस्ते दुनिया, कैसे हो?", 1, 1, 1),
        ("cafö", "café", 0, 0, 0),
        ("cafe", "café", 0, 0, 0),
        # P035
        ("", "words", 0, 0, 0),
        ("words", "", 0, 0, 0),
        ("\f", "words", 0, 0, 0),
        ("...", "...", 0, 0, 0),
        ("", "", 0, 0, 0),
        # one character is one word in Chinese: 我 喜 欢 猫 / 我 喜 欢 狗
        ("我喜欢猫", "我喜欢狗", 0.75, 0.75, 0.75),
        ("дом стоит тут", "дом тут", 1.0, 0.6667, 0.8),
    ],
)
def test_rouge_l_score(target, prediction, precision, recall, f1):
    score = rouge_l_score(prediction, target)

    assert score == RougeScore(
        pytest.approx(precision, abs=5e-5),
        pytest.approx(recall, abs=5e-5),
        pytest.approx(f1, abs=5e-5),
    )
    assert rouge_l(prediction, [target], {}) == score.f1


def test_the_best_reference_counts():
    # P032: precision 2/2 and recall 2/4 against the first, nothing against the second.
    assert rouge_l("a b", ["a b c d", "x y"], {}) == pytest.approx(2 / 3)
    assert rouge_l("a b", ["x y", "a b c d"], {}) == pytest.approx(2 / 3)


def test_a_bare_string_is_one_target():
    assert rouge_l("cat", "cat", {}) == 1
    assert rouge_l("c", "cat", {}) == 0


def test_no_targets_score_nothing():
    assert rouge_l("cat", [], {}) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat's snake_case, v2!", ["the", "cat", "s", "snake", "case", "v2"]),
        ("\x00a\x1fb\x7fc", ["a", "b", "c"]),
        ("Crème brûlée", ["crème", "brûlée"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),  # the marks belong to the words
        ("Привет_мир", ["привет", "мир"]),
        ("日本語abc 12", ["日", "本", "語", "abc", "12"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("می\u200cخواهم", ["میخواهم"]),  # a joiner is no part of a word, nor its end
        ("so\u00adft", ["soft"]),
        ("a\u200bb", ["a", "b"]),
        ("한국어 좋아", ["한국어", "좋아"]),
        ("x²", ["x²"]),
        ("🙂 — …", []),
        ("", []),
    ],
)
def test_word_tokens(text, words):
    assert word_tokens(text) == words


@settings(deadline=None)  # importing rouge-score takes a second
@given(ascii_texts, ascii_texts)
def test_equal_to_rouge_score_on_ascii(prediction, target):
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    theirs = rouge_scorer.RougeScorer(["rougeL"]).score(target, prediction)["rougeL"]
    ours = rouge_l_score(prediction, target)

    assert ours.precision == pytest.approx(theirs.precision, abs=1e-12)
    assert ours.recall == pytest.approx(theirs.recall, abs=1e-12)
    assert ours.f1 == pytest.approx(theirs.fmeasure, abs=1e-12)


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127), max_size=80))
def test_ascii_words_are_those_of_rouge_score(text):
    tokenize = pytest.importorskip("rouge_score.tokenize")

    assert word_tokens(text) == tokenize.tokenize(text, None)


@given(ascii_texts, any_texts)
def test_ascii_text_splits_alike_beside_other_scripts(text, other):
    # One foreign word switches to the path for Unicode, which must agree with the one for ASCII.
    assert word_tokens(f"{text} é") == [*word_tokens(text), "é"]


@given(any_texts, any_texts)
def test_swapped_arguments_exchange_precision_and_recall(first, second):
    forward, backward = rouge_l_score(first, second), rouge_l_score(second, first)

    assert (forward.precision, forward.recall) == (backward.recall, backward.precision)
    assert forward.f1 == pytest.approx(backward.f1, abs=1e-12)


@given(any_texts, st.lists(any_texts, max_size=3))
def test_any_text_scores_from_zero_to_one(prediction, targets):
    assert 0 <= rouge_l(prediction, targets, {}) <= 1


@given(any_texts)
def test_identical_texts_score_one_unless_they_have_no_word(text):
    assert rouge_l(text, [text], {}) == (1.0 if word_tokens(text) else 0.0)


@given(any_texts, any_texts, any_texts)
def test_a_further_target_never_lowers_the_score(prediction, target, further):
    assert rouge_l(prediction, [target, further], {}) >= rouge_l(prediction, [target], {})


def _textbook_lcs(first, second):
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, left in enumerate(first):
        for j, right in enumerate(second):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


@given(tokens, tokens)
def test_the_subsequence_is_as_long_as_the_textbook_says(first, second):
    assert longest_common_subsequence(first, second) == _textbook_lcs(first, second)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_subsequence_of_long_runs_is_the_shorter_run(first, second):
    # More tokens than bits in a machine word, so that carries run across words.
    assert longest_common_subsequence(["a"] * first, ["a"] * second) == min(first, second)


def test_a_huge_answer_to_a_short_target_is_scored():
    assert rouge_l("word " * 200_000, ["a word or two"], {}) == pytest.approx(2 / 200_004)
