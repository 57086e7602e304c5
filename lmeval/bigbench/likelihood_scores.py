# SPDX-License-Identifier: Apache-2.0
"""BIG-bench's log_likelihood: how probable the targets are to the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lmeval.bigbench.choice_scores import Score, log_sum_exp
from lmeval.bigbench.score_names import SCORE_RANGES

LOG_LIKELIHOOD = "log_likelihood"


def log_likelihood(
    targets: Sequence[Sequence[str]], log_probs: Sequence[Sequence[float]]
) -> dict[str, Score]:
    """The mean log-probability of the targets.

    Where any row has several targets it is the mean of the log of their probabilities' sum. Else it
    is also given per word and per character of the target.

    Args:
      targets: the texts of each row; single ones have at least one word.
      log_probs: their log-probabilities, natural logarithm.

    Returns:
      Scores by name. A row whose score is not finite counts as -10, the metric's low score.
    """
    per_row = [np.asarray(values, dtype=np.float64) for values in log_probs]
    if any(len(texts) > 1 for texts in targets):
        return {LOG_LIKELIHOOD: _mean([log_sum_exp(values) for values in per_row])}
    singles = [(texts[0], values[0]) for texts, values in zip(targets, per_row, strict=True)]
    return {
        LOG_LIKELIHOOD: _mean([value for _, value in singles]),
        f"{LOG_LIKELIHOOD}_per_word": _mean([v / len(text.split()) for text, v in singles]),
        f"{LOG_LIKELIHOOD}_per_char": _mean([v / len(text) for text, v in singles]),
    }


def _mean(values: Sequence[float]) -> Score:
    low = SCORE_RANGES[LOG_LIKELIHOOD][0]
    rows, warnings = [], {}
    for number, value in enumerate(map(float, values)):
        usable = bool(np.isfinite(value))
        rows.append(value if usable else low)
        if not usable:
            warnings[number] = f"the log-likelihood is {value}; counted as {low:g}"
    return Score.mean_of(rows, warnings)
