# SPDX-License-Identifier: Apache-2.0
"""Metrics over words, numbers and labels: token F1, numeric match, BLEU and macro F1.

BLEU and macro F1 are no means of row scores, so they take all rows of a task at once.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmeval.api.answers import number_value
from lmeval.api.errors import MetricError, MissingExtraError
from lmeval.api.metrics import metric, normalize_answer, rows_metric, targets_of
from lmeval.api.rouge import word_tokens


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


@rows_metric("bleu", check_row=_check_bleu_row, high_score=100.0)
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
    _require_sacrebleu()
    from sacrebleu.metrics import BLEU

    _require_rows("bleu", predictions)
    # sacrebleu wants the first references of all rows, then the second ones; None fills the gaps.
    streams = list(itertools.zip_longest(*map(targets_of, targets)))
    score = BLEU().corpus_score(list(predictions), streams).score
    return min(float(score), 100.0)  # rounding can carry a perfect score past 100


def _refuse_several_labels(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    if len(targets_of(targets)) != 1:
        return f"macro_f1 needs exactly one target, the row's label (got {len(targets)})"
    return None


@rows_metric("macro_f1", check_row=_refuse_several_labels)
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
    answers = [normalize_answer(prediction) for prediction in predictions]
    labels = [normalize_answer(targets_of(row)[0]) for row in targets]
    answered, wanted = Counter(answers), Counter(labels)
    right = Counter(label for answer, label in zip(answers, labels, strict=True) if answer == label)

    def mean_f1(chosen: Iterable[str]) -> float:
        # Sorted, since a sum of floats depends on its order and that of a set on the process.
        scores = [2 * right[name] / (answered[name] + wanted[name]) for name in sorted(chosen)]
        return sum(scores) / len(scores)

    return {
        "macro_f1": mean_f1(answered.keys() | wanted.keys()),
        "macro_f1_target_labels": mean_f1(wanted),
    }


def _require_rows(name: str, predictions: Sequence[str]) -> None:
    if not predictions:
        raise MetricError(f"{name} needs at least one row.")
