# SPDX-License-Identifier: Apache-2.0
"""`bigbench.api.task_metrics`: the metrics, called as BIG-bench calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lmeval.bigbench import choice_scores, text_scores
from lmeval.bigbench.likelihood_scores import log_likelihood
from lmeval.bigbench.score_names import NUMERIC_MATCH, NUMERIC_MATCH_CORRECTED

Sample = Mapping[str, Any]
"""An example with `choice`, `target_scores`, `log_prob`, `absolute_log_prob` and so on."""

_TextFunction = Callable[[Sequence[Any], Sequence[str]], dict[str, float]]
_ChoiceFunction = Callable[[Sequence[Sample]], float]


def _text_function(name: str) -> _TextFunction:
    def score(targets: Sequence[Any], responses: Sequence[str]) -> dict[str, float]:
        rows = [[texts] if isinstance(texts, str) else texts for texts in targets]
        scores = text_scores.TEXT_SCORES[name](rows, responses)
        # BIG-bench knows no corrected variants.
        return {key: s.value for key, s in scores.items() if key != NUMERIC_MATCH_CORRECTED}

    score.__doc__ = text_scores.TEXT_SCORES[name].__doc__
    return score


def _choice_function(name: str) -> _ChoiceFunction:
    def score(samples: Sequence[Sample]) -> float:
        rows = [
            choice_scores.ChoiceRow(
                sample["choice"],
                sample["target_scores"],
                np.array(sample["log_prob"], dtype=np.float64),
                np.array(sample.get("absolute_log_prob", sample["log_prob"]), dtype=np.float64),
            )
            for sample in samples
        ]
        return choice_scores.CHOICE_SCORES[name](rows).value

    score.__doc__ = choice_scores.CHOICE_SCORES[name].__doc__
    return score


MULTIPLE_CHOICE_FN = {name: _choice_function(name) for name in choice_scores.CHOICE_SCORES}
GENERATIVE_FN = {name: _text_function(name) for name in text_scores.TEXT_SCORES}

measure_multiple_choice_grade = MULTIPLE_CHOICE_FN["multiple_choice_grade"]
macro_f1_fn = MULTIPLE_CHOICE_FN["macro_f1"]
exact_str_match_fn = GENERATIVE_FN["exact_str_match"]
case_insensitive_str_match_fn = GENERATIVE_FN["case_insensitive_str_match"]
numeric_match_with_0_1_relative_error_fn = GENERATIVE_FN[NUMERIC_MATCH]
sequence_f1_fn = GENERATIVE_FN["sequence_f1"]
bleu_fn = GENERATIVE_FN["bleu"]
rouge_fn = GENERATIVE_FN["rouge"]
bleurt_fn = GENERATIVE_FN["bleurt"]


def measure_multiple_choice_metrics(
    samples: Sequence[Sample], multiple_choice_metrics: Sequence[str]
) -> dict[str, float]:
    """The scores of choice metrics by name."""
    return {name: MULTIPLE_CHOICE_FN[name](samples) for name in multiple_choice_metrics}


def measure_generative_metrics(
    samples: Sequence[Sample], generative_metrics: Sequence[str]
) -> dict[str, float]:
    """The scores of text metrics by name, for samples with `target` and `generative_response`."""
    targets = [sample["target"] for sample in samples]
    responses = [sample["generative_response"] for sample in samples]
    scores: dict[str, float] = {}
    for name in generative_metrics:
        scores |= GENERATIVE_FN[name](targets, responses)
    return scores


def measure_scoring_metrics(
    samples: Sequence[Sample], scoring_metrics: Sequence[str]
) -> dict[str, float]:
    """The scores of log_likelihood by name, for samples with `target` and `log_prob_gen`."""
    if "log_likelihood" not in scoring_metrics:
        return {}
    targets = [sample["target"] for sample in samples]
    scores = log_likelihood(targets, [sample["log_prob_gen"] for sample in samples])
    return {name: score.value for name, score in scores.items()}
