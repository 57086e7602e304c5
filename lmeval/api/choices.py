# SPDX-License-Identifier: Apache-2.0
"""Multiple choice by likelihood: which of the given choices a model holds most likely.

Works on natural-logarithm probabilities of whole choices, as `Model.cond_log_prob` gives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from lmeval.api.errors import FailedMetricError
from lmeval.api.metrics import register_metric, targets_of

Normalization = Literal["raw", "per_char", "per_byte", "per_token"]


def best_choices(scores: Sequence[float]) -> list[int]:
    """The positions of the highest score; more than one when it is reached exactly more than once.

    Raises:
      FailedMetricError: there is no score, or one is NaN or plus infinity.
    """
    if not scores:
        raise FailedMetricError(
            "no log-probability was given, so that no choice can be the likeliest."
        )
    for position, score in enumerate(scores):
        if math.isnan(score) or score == math.inf:
            raise FailedMetricError(
                f"the log-probability of choice {position} is {score}, which cannot be compared; "
                "the model gave something that is no probability."
            )
    highest = max(scores)
    return [position for position, score in enumerate(scores) if score == highest]


def length_normalized(
    log_probs: Sequence[float],
    choices: Sequence[str],
    normalization: Normalization,
    token_counts: Sequence[int] | None = None,
) -> list[float]:
    """The log-probabilities divided by the lengths of their choices.

    Args:
      log_probs: natural logarithms, one a choice.
      choices: the texts; a blank that joins them to the prompt is not part of them.
      normalization: "raw" (undivided), "per_char" (Unicode code points), "per_byte" (UTF-8) or
        "per_token".
      token_counts: for "per_token": how many tokens each choice has, padding not counted.

    Raises:
      FailedMetricError: the counts of log-probabilities, choices and token counts differ, or a
        choice has no length to divide by.
    """
    if len(log_probs) != len(choices):
        raise FailedMetricError(
            f"{len(log_probs)} log-probabilities for {len(choices)} choices; "
            "there must be one for each."
        )
    lengths = _lengths(choices, normalization, token_counts)
    if 0 in lengths:
        raise FailedMetricError(
            f"choice {list(lengths).index(0)} is empty, so that its log-probability cannot be "
            f"divided by its length ({normalization})."
        )
    return [log_prob / length for log_prob, length in zip(log_probs, lengths, strict=True)]


def _lengths(
    choices: Sequence[str], normalization: Normalization, token_counts: Sequence[int] | None
) -> Sequence[int]:
    if normalization == "raw":
        return [1] * len(choices)
    if normalization == "per_char":
        return [len(choice) for choice in choices]
    if normalization == "per_byte":
        # A lone surrogate is no valid text, but must not end a run either.
        return [len(choice.encode("utf-8", "surrogatepass")) for choice in choices]
    if normalization != "per_token":
        raise FailedMetricError(
            f"there is no normalization {normalization!r}; "
            "the known ones are raw, per_char, per_byte and per_token."
        )
    if token_counts is None or len(token_counts) != len(choices):
        given = "none" if token_counts is None else len(token_counts)
        raise FailedMetricError(
            f"per_token needs one token count for each of the {len(choices)} choices (got {given})."
        )
    return token_counts


def choice_credit(scores: Sequence[float], choices: Sequence[str], targets: Sequence[str]) -> float:
    """1 if the likeliest choice is a target, else 0; choices that tie share the 1 evenly.

    So the order of the choices never matters, and a model that holds all of n choices equally
    likely scores 1/n on average.

    Raises:
      FailedMetricError: as `best_choices`.
    """
    right = set(targets_of(targets))
    best = best_choices(scores)
    return sum(choices[position] in right for position in best) / len(best)


def _refuse_unusable_choices(targets: Sequence[str], extras: Mapping[str, Any]) -> str | None:
    choices = extras.get("choices")
    if not isinstance(choices, list | tuple) or len(choices) < 2:
        return 'choice_likelihood needs extras["choices"], a list of two or more strings'
    for choice in choices:
        if not isinstance(choice, str) or not choice.strip():
            return f"a choice must be a string with something to read in it (got {choice!r})"
    if len(set(choices)) < len(choices):
        twice = next(choice for choice in choices if choices.count(choice) > 1)
        return f"the choice {twice!r} is given twice"
    for target in targets_of(targets):
        if target not in choices:
            return f"the target {target!r} is not among the choices {list(choices)!r}"
    return None


@register_metric("choice_likelihood", kind="choices", check_row=_refuse_unusable_choices)
def choice_likelihood(
    log_probs: Sequence[float], choices: Sequence[str], targets: Sequence[str]
) -> dict[str, float]:
    """1 if the choice with the highest log-probability is a target, else 0; ties share the credit.

    Gives the score by the plain log-probability, and by that per character and per UTF-8 byte.

    Raises:
      FailedMetricError: as `length_normalized` and `best_choices`.
    """
    return {
        name: choice_credit(length_normalized(log_probs, choices, normalization), choices, targets)
        for name, normalization in _SCORE_NORMALIZATIONS.items()
    }


_SCORE_NORMALIZATIONS: dict[str, Normalization] = {
    "choice_likelihood": "raw",
    "choice_likelihood_per_char": "per_char",
    "choice_likelihood_per_byte": "per_byte",
}
