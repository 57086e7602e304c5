# SPDX-License-Identifier: Apache-2.0
import math
import sys

import numpy as np
import pytest

from lmeval.api import metrics
from lmeval.api.errors import MetricError, MissingExtraError
from lmeval.bigbench.score_names import NUMERIC_MATCH, NUMERIC_MATCH_CORRECTED
from lmeval.bigbench.text_scores import (
    bleu,
    bleurt,
    case_insensitive_str_match,
    check_requirements,
    exact_str_match,
    numeric_match,
    rouge,
    rouge_bootstrap,
    score_texts,
    sequence_f1,
)


def test_exact_match_takes_any_target_as_it_is():
    scores = exact_str_match([["a", "b"], ["c"], ["d"]], ["b", " c", "D"])
    assert scores["exact_str_match"].rows == [1, 0, 0]


def test_case_insensitive_match_strips_both_sides():
    scores = case_insensitive_str_match([[" STRASSE 1 "], ["straße"]], ["strasse 1\n", "STRASSE"])
    assert scores["case_insensitive_str_match"].rows == [1, 0]


@pytest.mark.parametrize(
    ("target", "response", "original", "corrected"),
    [
        ("100", "90", 1, 1),
        ("100", "111", 0, 0),
        ("100", "i am not a number", 0, 0),
        ("abc", "1", 0, 0),
        ("-4", "999", 1, 0),
        ("-4", "-4.3", 1, 1),
        ("0", "0.05", 1, 1),
        ("0", "0.2", 0, 0),
        ("1_000", " 1e3 ", 1, 1),
        ("nan", "nan", 0, 0),
        ("inf", "inf", 0, 0),
    ],
)
def test_numeric_match_as_it_is_and_as_it_should_be(target, response, original, corrected):
    scores = numeric_match([[target]], [response])
    assert scores[NUMERIC_MATCH].value == original
    assert scores[NUMERIC_MATCH_CORRECTED].value == corrected
    assert bool(scores[NUMERIC_MATCH].warnings) == (original != corrected)


@pytest.mark.parametrize(
    ("target", "response", "score"),
    [
        ("O LOC O PER", "O LOC", 75.0),
        ("O LOC O PER", "O LOC O PER PER", 100.0),
        ("O LOC", "O  LOC", 50.0),
    ],
)
def test_sequence_f1_fills_up_and_cuts(target, response, score):
    assert sequence_f1([[target]], [response])["sequence_f1"].value == score


def test_rouge_takes_the_best_target_for_each_type():
    pytest.importorskip("rouge_score")
    scores = rouge([["g f e d c b a", "a b e f"]], ["a b c d e f g"])
    assert math.isclose(scores["rouge1"].value, 100)
    assert math.isclose(scores["rouge2"].value, 100 * 2 * (2 / 6 * 2 / 3) / (2 / 6 + 2 / 3))
    assert math.isclose(scores["rougeLsum"].value, 100 * 8 / 11)


def test_rouge_lsum_takes_a_lone_full_stop_for_the_end_of_a_sentence():
    pytest.importorskip("rouge_score")
    scores = rouge([["a b . c d"]], ["c d . a b"])
    assert math.isclose(scores["rougeLsum"].value, 100)


def test_the_bootstrap_depends_on_the_seed_alone():
    rows = {name: [0.0, 13.0, 62.0, 77.0, 98.0] for name in ("rouge1", "rouge2", "rougeLsum")}
    assert rouge_bootstrap(rows, 1, 50) == rouge_bootstrap(rows, 1, 50)
    assert rouge_bootstrap(rows, 1, 50) != rouge_bootstrap(rows, 2, 50)
    for median in rouge_bootstrap(rows, 1).values():
        assert abs(median - 50) < 5  # the mean


def test_failed_rows_score_zero_where_an_empty_answer_would_be_right():
    scores = score_texts(
        ["exact_str_match", "sequence_f1"], [[""], ["O O"]], ["", ""], [True, True]
    )
    assert scores["exact_str_match"].value == 0
    assert scores["sequence_f1"].value == 0


def test_bleurt_says_what_it_needs():
    with pytest.raises(MetricError, match=r"needs a learned scorer.*lmeval.metric"):
        check_requirements(["bleurt"])


def test_bleurt_is_the_best_target_by_the_registered_scorer(monkeypatch):
    monkeypatch.setattr(metrics, "_registered", dict(metrics._registered))
    metrics.metric("bleurt")(lambda prediction, targets, extras: len(targets[0]) / 10)
    assert bleurt([["ab", "a"], ["abcd"]], ["x", "y"])["bleurt"].rows == [0.2, 0.4]


@pytest.mark.parametrize(("name", "package"), [("bleu", "sacrebleu"), ("rouge", "rouge_score")])
def test_a_missing_package_is_named_before_anything_is_asked(monkeypatch, name, package):
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=r"lmeval\[text\]"):
        check_requirements([name])


def test_bleu_of_counted_rows_is_that_of_repeated_ones():
    pytest.importorskip("sacrebleu")
    targets = [["the cat sat on the mat", "a cat sat on a mat"], ["it rained all day long"], ["no"]]
    responses = ["a cat sat on the mat", "it rained nearly all day long", "yes"]
    score = bleu(targets, responses)["bleu"]
    assert score.counted(np.array([1, 1, 1])) == pytest.approx(score.value)
    repeated = bleu([targets[0], *[targets[1]] * 2], [responses[0], *[responses[1]] * 2])["bleu"]
    assert score.counted(np.array([1, 2, 0])) == pytest.approx(repeated.value)
