# SPDX-License-Identifier: Apache-2.0
"""The toy model: deterministic, instant, and able to solve the shipped fixtures by rule.

What it writes follows from the rules of `lmeval.models.toy_rules`; it never sees the targets.

Log-probabilities follow from one distribution over all texts. The text that the toy would write
has probability 0.45, the same text after one blank 0.45, and the remaining 0.1 is spread over all
texts: each character is followed by another with probability 1/2, and all of Unicode is equally
likely. So the probabilities of all texts sum to exactly 1, and of two wrong texts the shorter is
likelier.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from lmeval.api.model import BatchModel, ModelData
from lmeval.models.toy_rules import RULES_VERSION, answer_by_rule

_LOG_ANSWER_SHARE = math.log(0.45)
_LOG_REST_SHARE = math.log(0.1)
_LOG_END = math.log(0.5)
_LOG_CHARACTER = math.log(0.5) - math.log(sys.maxunicode + 1)


class ToyModel(BatchModel):
    """A model for trying things out: it needs nothing and solves the fixtures by rule."""

    deterministic = True

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return ModelData(
            model_family="toy",
            model_name="toy",
            description="Follows the commands of lmeval's fixtures by rule; no language model.",
            decoding_params={"rules_version": RULES_VERSION},
        )

    def fingerprint(self) -> str:
        """See `Model.fingerprint`; the rules are all there is."""
        return f"toy, rules version {RULES_VERSION}"

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[str]:
        """See `BatchModel.complete`."""
        return [answer_by_rule(prompt) for prompt in prompts]

    def score(self, contexts: Sequence[str], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `BatchModel.score`; the distribution is described at the top of this module."""
        scored = []
        for context, wanted in zip(contexts, targets, strict=True):
            answer = answer_by_rule(context)
            scored.append([_log_prob(target, (answer, " " + answer)) for target in wanted])
        return scored

    def rolling_log_prob(self, texts: Sequence[str]) -> list[float]:
        """See `Model.rolling_log_prob`; the log-probability of each text after no context."""
        return [row[0] for row in self.score([""] * len(texts), [[text] for text in texts])]


def _log_prob(text: str, answers: Sequence[str]) -> float:
    rest = _LOG_REST_SHARE + _LOG_END + len(text) * _LOG_CHARACTER
    if text not in answers:
        return rest
    return _LOG_ANSWER_SHARE + math.log1p(math.exp(rest - _LOG_ANSWER_SHARE))
