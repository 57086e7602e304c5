# SPDX-License-Identifier: Apache-2.0
"""BIG-bench's metrics by name: what each needs of an example, and its scale."""

from __future__ import annotations

from collections.abc import Sequence

CHOICE_METRICS = (
    "multiple_choice_grade",
    "calibration_multiple_choice_brier_score",
    "expected_calibration_error",
    "weighted_log_probabilities",
    "weighted_probabilities",
    "macro_f1",
)
"""Scored on the log-probabilities of the choices in `target_scores`."""

TEXT_METRICS = (
    "exact_str_match",
    "case_insensitive_str_match",
    "numeric_match_with_0_1_relative_error",
    "sequence_f1",
    "bleu",
    "rouge",
    "bleurt",
)
"""Scored on generated text and `target`."""

LIKELIHOOD_METRICS = ("log_likelihood",)
"""Scored on the log-probabilities of `target`."""

ROUGE_TYPES = ("rouge1", "rouge2", "rougeLsum")
"""What the metric "rouge" reports."""

SCORE_RANGES = {
    "bleu": (0.0, 100.0),
    "sequence_f1": (0.0, 100.0),
    "bleurt": (-0.1, 1.1),
    "calibration_multiple_choice_brier_score": (0.0, 1.0),
    "expected_calibration_error": (0.0, 1.0),
    "exact_str_match": (0.0, 1.0),
    "case_insensitive_str_match": (0.0, 1.0),
    "log_likelihood": (-10.0, 0.0),
    "multiple_choice_grade": (0.0, 1.0),
    "numeric_match_with_0_1_relative_error": (0.0, 1.0),
    "rouge1": (0.0, 100.0),
    "rouge2": (0.0, 100.0),
    "rougeLsum": (0.0, 100.0),
    "weighted_log_probabilities": (-10.0, 0.0),
    "weighted_probabilities": (-1.0, 1.0),
    "macro_f1": (0.0, 1.0),
}
"""Low and high score of each score that a task may prefer."""

NUMERIC_MATCH = "numeric_match_with_0_1_relative_error"
NUMERIC_MATCH_CORRECTED = f"{NUMERIC_MATCH}_corrected"
"""The same with the error relative to the target's size, so that negative targets count too."""


def choice_metrics_in(metrics: Sequence[str]) -> tuple[str, ...]:
    """The choice metrics that a task with these metrics reports; the grade brings calibration."""
    wanted = set(metrics)
    if "multiple_choice_grade" in wanted:
        wanted |= {"calibration_multiple_choice_brier_score", "expected_calibration_error"}
    return tuple(name for name in CHOICE_METRICS if name in wanted)


def scores_from(metrics: Sequence[str]) -> tuple[str, ...]:
    """The scores, out of those a task may prefer, that these metrics give."""
    given: list[str] = [*choice_metrics_in(metrics)]
    for name in metrics:
        given += ROUGE_TYPES if name == "rouge" else [name]
    return tuple(dict.fromkeys(given))
