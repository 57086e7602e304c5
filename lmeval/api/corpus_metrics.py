# SPDX-License-Identifier: Apache-2.0
"""Metrics over words, numbers and labels: token F1, numeric match, BLEU and macro F1.

BLEU and macro F1 are no means of row scores, so they take all rows of a task at once.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lmeval.api.answers import number_value
from lmeval.api.errors import MetricError, MissingExtraError
from lmeval.api.metrics import metric, normalize_answer, rows_metric, targets_of
from lmeval.api.rouge import word_tokens

if TYPE_CHECKING:
    from lmeval.statistics.values import IntArray


@metric("token_f1")
def token_f1(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """F1 over words in any order, each counted as often as it occurs, against the best target.

    As in SQuAD (Rajpurkar et al. 2016, section 6.1), but articles stay and words are those of
    `lmeval.api.rouge.word_tokens`. 0 where either side has no word.
    """
    answer = Counter(word_tokens(prediction))
    return max(
        (_overlap_f1(answer, Counter(word_tokens(target))) for target in targets_of(targets)),
        default=0.0,
    )


def _overlap_f1(first: Counter[str], second: Counter[str]) -> float:
    common = (first & second).total()
    return 2 * common / (first.total() + second.total()) if common else 0.0


def _refuse_target_without_number(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    for target in targets_of(targets):
        if number_value(target) is None:
            return f"numeric_match compares numbers, but the target {target!r} is none"
    return None


@metric("numeric_match", check_row=_refuse_target_without_number)
def numeric_match(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """1 if the prediction is a number of exactly the value of any target, else 0.

    "1.0" is "1", and "1,000" is "1000". The prediction must be one number, with nothing around it
    that `lmeval.api.answers.number_value` does not allow; for longer answers see `extract_number`.
    """
    value = number_value(prediction)
    if value is None:
        return 0.0
    return float(any(value == number_value(target) for target in targets_of(targets)))


@functools.cache
def _require_sacrebleu() -> None:
    if importlib.util.find_spec("sacrebleu") is None:
        raise MissingExtraError("the metric bleu", "text")


def _check_bleu_row(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    # Asked while the task loads, so that a missing package costs no model call.
    _require_sacrebleu()
    return None


def counted_bleu(
    predictions: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str
) -> Callable[[IntArray], float]:
    """Corpus BLEU from 0 to 100 by sacrebleu, from how often each row counts.

    Papineni et al. (2002): BLEU depends on nothing but sums over the rows of matching and of all
    groups of one to four words, and of lengths, so each row is cut into words only once.

    Args:
      predictions: one a row.
      references: the right texts of each row.
      tokenizer: one of sacrebleu's.

    Returns:
      The score of n counts.
    """
    import numpy as np
    from sacrebleu.metrics import BLEU

    # Effective order changes a sentence's score, not its counts; without it sacrebleu warns.
    scorer = BLEU(tokenize=tokenizer, effective_order=True)
    sentences = [
        scorer.sentence_score(prediction, list(texts))
        for prediction, texts in zip(predictions, references, strict=True)
    ]
    parts = np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in sentences])

    def score(counts: IntArray) -> float:
        sums = (counts @ parts).tolist()
        return float(BLEU.compute_bleu(sums[0:4], sums[4:8], *sums[8:], smooth_method="exp").score)

    return score


def _counted_bleu(
    predictions: Sequence[str],
    targets: Sequence[Sequence[str]],
    extras: Sequence[Mapping[str, Any]],
) -> Callable[[IntArray], float]:
    _require_sacrebleu()
    score = counted_bleu(predictions, list(map(targets_of, targets)), "13a")
    return lambda counts: min(score(counts), 100.0)  # rounding can carry a perfect score past 100


@rows_metric("bleu", check_row=_check_bleu_row, high_score=100.0, prepare=_counted_bleu)
def bleu(
    predictions: Sequence[str],
    targets: Sequence[Sequence[str]],
    extras: Sequence[Mapping[str, Any]],
) -> float:
    """Corpus BLEU from 0 to 100 by sacrebleu with its defaults; every target is a reference.

    Papineni et al. (2002) as sacrebleu (Post 2018) has it: `case:mixed|eff:no|tok:13a|smooth:exp`.

    Raises:
      MissingExtraError: sacrebleu is not installed.
      MetricError: there is no row.
    """
    _require_rows("bleu", predictions)
    return _counted_bleu(predictions, targets, extras)(_once_each(len(predictions)))


def _refuse_several_labels(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    if len(targets_of(targets)) != 1:
        return f"macro_f1 needs exactly one target, the row's label (got {len(targets)})"
    return None


def _counted_macro_f1(
    predictions: Sequence[str],
    targets: Sequence[Sequence[str]],
    extras: Sequence[Mapping[str, Any]],
) -> Callable[[IntArray], dict[str, float]]:
    import numpy as np

    answers = [normalize_answer(prediction) for prediction in predictions]
    labels = [normalize_answer(targets_of(row)[0]) for row in targets]
    # Sorted, since a sum of floats depends on its order.
    numbers = {label: number for number, label in enumerate(sorted({*answers, *labels}))}
    answered_label = np.array([numbers[answer] for answer in answers])
    wanted_label = np.array([numbers[label] for label in labels])
    is_right = answered_label == wanted_label

    def scores(counts: IntArray) -> dict[str, float]:
        answered = np.bincount(answered_label, counts, len(numbers))
        wanted = np.bincount(wanted_label, counts, len(numbers))
        right = np.bincount(wanted_label, counts * is_right, len(numbers))
        f1 = 2.0 * right / np.maximum(answered + wanted, 1.0)
        return {
            "macro_f1": math.fsum(f1.tolist()) / np.count_nonzero(answered + wanted),
            "macro_f1_target_labels": math.fsum(f1[wanted > 0].tolist()) / np.count_nonzero(wanted),
        }

    return scores


@rows_metric("macro_f1", check_row=_refuse_several_labels, prepare=_counted_macro_f1)
def macro_f1(
    predictions: Sequence[str],
    targets: Sequence[Sequence[str]],
    extras: Sequence[Mapping[str, Any]],
) -> dict[str, float]:
    """The mean over labels of each label's F1, after `normalize_answer`.

    `macro_f1` takes all labels, those that only the model uses included, as scikit-learn does by
    default; `macro_f1_target_labels` takes the labels among the targets alone. An answer that is no
    label, the empty one too, is a label of its own.

    Raises:
      MetricError: there is no row.
    """
    _require_rows("macro_f1", predictions)
    return _counted_macro_f1(predictions, targets, extras)(_once_each(len(predictions)))


def _require_rows(name: str, predictions: Sequence[str]) -> None:
    if not predictions:
        raise MetricError(f"{name} needs at least one row.")


def _once_each(n_rows: int) -> IntArray:
    import numpy as np

    return np.ones(n_rows, dtype=np.intp)
