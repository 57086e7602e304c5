# SPDX-License-Identifier: Apache-2.0
"""BIG-bench's metrics over the log-probabilities of choices.

A failed row (the model gave no numbers) stays in every mean and never improves one: it is wrong, it
counts as sure of the worst choice where probabilities are compared, and as the metric's low score
where they are summed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt

from lmeval.bigbench.score_names import SCORE_RANGES
from lmeval.statistics import RowsStatistic
from lmeval.statistics.values import IntArray

Floats = npt.NDArray[np.float64]

N_BUCKETS = 15
"""Buckets of confidence in the expected calibration error."""


@attrs.frozen(eq=False)
class ChoiceRow:
    """One question with choices, and what the model makes of them."""

    choices: Sequence[str]
    target_scores: Mapping[str, float]
    log_probs: Floats
    """What is graded: normalized within the question unless the task asks for absolute ones."""
    absolute_log_probs: Floats
    failed: bool = False

    @property
    def picked(self) -> str | None:
        """The choice that the model prefers; None if it gave no numbers."""
        return None if self.failed else self.choices[argmax(self.log_probs)]


@attrs.frozen
class Score:
    """A metric's score over all rows."""

    value: float
    rows: Sequence[float] | None = None
    """The score of each row; None where only all rows together have one."""
    warnings: Mapping[int, str] = attrs.field(factory=dict)
    """For rows whose score is not what it seems: what is to be known."""
    counted: RowsStatistic | None = attrs.field(default=None, eq=False, repr=False)
    """The score from how often each row counts, for its error; None for the plain mean of the rows'
    scores, and where no error can be stated."""

    @classmethod
    def mean_of(cls, rows: Sequence[float], warnings: Mapping[int, str] | None = None) -> Score:
        """The plain mean of the rows' scores."""
        return cls(sum(rows) / len(rows), rows, warnings or {})


def normalize(log_probs: Floats) -> Floats:
    """Log-probabilities less their log-sum-exp, so that the probabilities add up to 1.

    The tie-break of `argmax` depends on the last bit of these numbers, so the steps are those of
    scipy 1.15 and later: the largest numbers are set apart, and log1p takes the sum of the rest.
    """
    return log_probs - log_sum_exp(log_probs)


def log_sum_exp(values: Floats) -> np.float64:
    """log(sum(exp(values))); -inf where all are -inf."""
    highest = np.max(values)
    if not np.isfinite(highest):
        return np.float64(highest)
    is_highest = values == highest
    n_highest = np.sum(is_highest, dtype=np.float64)
    rest = np.sum(np.exp(np.where(is_highest, -np.inf, values) - highest))
    return np.float64(np.log1p(rest / n_highest) + np.log(n_highest) + highest)


def argmax(values: Floats) -> int:
    """The place of the largest number; ties are broken by a hash of the numbers' bytes."""
    places = np.flatnonzero(values == np.max(values))
    digest = hashlib.sha256(values.tobytes()).hexdigest()
    return int(places[int(digest, 16) % len(places)])


def grade(rows: Sequence[ChoiceRow]) -> Score:
    """multiple_choice_grade: the mean target score of the choice that the model prefers."""
    return Score.mean_of(
        [0.0 if row.failed else row.target_scores[str(row.picked)] for row in rows]
    )


def brier_score(rows: Sequence[ChoiceRow]) -> Score:
    """calibration_multiple_choice_brier_score: the mean over all choices of t(p-1)² + (1-t)p².

    p is the softmax of the log-probabilities, t the target scores divided by their sum. A question
    with more choices has more weight. Brier (1950), with soft targets.
    """
    sums = []
    for row in rows:
        p, t = _probabilities(row), _target_probabilities(row)
        sums.append(float(np.sum(t * (p - 1) ** 2 + (1 - t) * p**2)))
    n_choices = [len(row.choices) for row in rows]
    return Score(
        sum(sums) / sum(n_choices),
        [total / n for total, n in zip(sums, n_choices, strict=True)],
        counted=lambda counts: float(counts @ np.array(sums) / (counts @ np.array(n_choices))),
    )


def calibration_error(rows: Sequence[ChoiceRow]) -> Score:
    """expected_calibration_error over 15 buckets of the highest probability.

    An answer is right if the choice of the highest probability is the choice of the highest target
    score; of several equal ones only the first counts, on both sides.
    """
    probabilities = [_probabilities(row) for row in rows]
    right = [
        not row.failed and int(np.argmax(_target_probabilities(row))) == int(np.argmax(p))
        for row, p in zip(rows, probabilities, strict=True)
    ]
    # No error is stated: redrawn rows look less calibrated than the rows themselves, so that the
    # bootstrap's interval misses the truth, and often the score (measured, docs/statistics.md).
    return Score(expected_calibration_error([float(np.max(p)) for p in probabilities], right))


def expected_calibration_error(
    confidences: Sequence[float], right: Sequence[bool], n_buckets: int = N_BUCKETS
) -> float:
    """The mean over the answers of |accuracy - mean confidence| in the answer's bucket.

    Naeini, Cooper, Hauskrecht (2015). A confidence of 1 belongs to the last of the equally wide
    buckets, each of which holds its lower end.
    """
    buckets: dict[int, list[int]] = {}
    for number, confidence in enumerate(confidences):
        inside = (j for j in range(n_buckets) if confidence < (j + 1) / n_buckets)
        buckets.setdefault(next(inside, n_buckets - 1), []).append(number)
    error = 0.0
    for _, members in sorted(buckets.items()):
        accuracy = float(np.mean([right[number] for number in members]))
        mean_confidence = float(np.mean([confidences[number] for number in members]))
        error += len(members) / len(confidences) * abs(accuracy - mean_confidence)
    return error


def weighted_log_probabilities(rows: Sequence[ChoiceRow]) -> Score:
    """The mean over the questions of the sum of target score times log-probability."""
    return _weighted(rows, lambda log_probs: log_probs, "weighted_log_probabilities")


def weighted_probabilities(rows: Sequence[ChoiceRow]) -> Score:
    """The mean over the questions of the sum of target score times probability."""
    return _weighted(rows, np.exp, "weighted_probabilities")


def _weighted(rows: Sequence[ChoiceRow], transform: Callable[[Floats], Floats], name: str) -> Score:
    low = SCORE_RANGES[name][0]
    values: list[float] = []
    warnings: dict[int, str] = {}
    for number, row in enumerate(rows):
        weights = _scores_in_order(row)
        # A choice without weight counts nothing, even where its log-probability is -inf.
        with np.errstate(invalid="ignore"):
            terms = np.where(weights == 0, 0.0, weights * transform(row.absolute_log_probs))
        total = float(np.sum(terms))
        if row.failed or not math.isfinite(total):
            warnings[number] = f"{name} is {total}; counted as {low:g}"
            total = low
        values.append(total)
    return Score.mean_of(values, warnings)


def macro_f1(rows: Sequence[ChoiceRow]) -> Score:
    """The mean over the labels of their F1; labels are the choices that are right or preferred.

    A failed row has no label: it is missed by the label that is right.

    Raises:
      ValueError: a question has not exactly one choice with the score 1 and 0 for the others.
    """
    for row in rows:
        scores = list(row.target_scores.values())
        if scores.count(1) != 1 or sum(scores) != 1:
            raise ValueError("macro_f1 needs exactly one right choice in each example.")
    gold = [next(c for c, score in row.target_scores.items() if score == 1) for row in rows]
    picked = [row.picked for row in rows]
    labels = sorted({*gold, *(label for label in picked if label is not None)})
    pairs = list(zip(gold, picked, strict=True))
    f1_scores = []
    for label in labels:
        hits = sum(g == p == label for g, p in pairs)
        f1_scores.append(2 * hits / sum((g == label) + (p == label) for g, p in pairs))
    return Score(math.fsum(f1_scores) / len(f1_scores), counted=_counted_macro_f1(gold, picked))


def _counted_macro_f1(gold: Sequence[str], picked: Sequence[str | None]) -> RowsStatistic:
    numbers = {label: number for number, label in enumerate(dict.fromkeys([*gold, *picked]))}
    wanted_label = np.array([numbers[label] for label in gold])
    given_label = np.array([numbers[label] for label in picked])
    is_label = np.array([label is not None for label in numbers])

    def score(counts: IntArray) -> float:
        wanted, given, hits = (
            np.bincount(labels, weights, len(numbers))[is_label]
            for labels, weights in (
                (wanted_label, counts),
                (given_label, counts),
                (wanted_label, counts * (wanted_label == given_label)),
            )
        )
        occurs = wanted + given > 0
        return float(np.mean(2 * hits[occurs] / (wanted + given)[occurs]))

    return score


CHOICE_SCORES: Mapping[str, Callable[[Sequence[ChoiceRow]], Score]] = {
    "multiple_choice_grade": grade,
    "calibration_multiple_choice_brier_score": brier_score,
    "expected_calibration_error": calibration_error,
    "weighted_log_probabilities": weighted_log_probabilities,
    "weighted_probabilities": weighted_probabilities,
    "macro_f1": macro_f1,
}


def _scores_in_order(row: ChoiceRow) -> Floats:
    return np.array([row.target_scores[choice] for choice in row.choices], dtype=np.float64)


def _target_probabilities(row: ChoiceRow) -> Floats:
    scores = _scores_in_order(row)
    total = sum(row.target_scores.values())
    return scores / total if total != 0 else np.zeros(len(scores))


def _probabilities(row: ChoiceRow) -> Floats:
    if row.failed:
        probabilities = np.zeros(len(row.choices))
        probabilities[np.argmin(_scores_in_order(row))] = 1
    else:
        probabilities = np.exp(row.log_probs - np.max(row.log_probs))
        probabilities /= np.sum(probabilities)
    return probabilities


def choice_row(
    choices: Sequence[str],
    target_scores: Mapping[str, float],
    log_probs: Sequence[float],
    absolute_normalization: bool,
    failed: bool = False,
) -> ChoiceRow:
    """A row from the log-probabilities that a model gave, as they are.

    Numbers from which nothing can be told (one is NaN, or none is above -inf) make a failed row.
    """
    absolute = np.array(log_probs, dtype=np.float64)
    # `not >` is true of NaN as well.
    failed = failed or not np.max(absolute) > -np.inf
    normalized = absolute if failed or absolute_normalization else normalize(absolute)
    return ChoiceRow(choices, target_scores, normalized, absolute, failed)
