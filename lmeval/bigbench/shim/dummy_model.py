# SPDX-License-Identifier: Apache-2.0
"""`bigbench.models.dummy_model`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lmeval.api.model import Model, ModelData, postprocess_output


class DummyModel(Model):
    """A model that says the same to everything and thinks the first target impossible.

    Attributes:
      n_gen_text: how many texts it has written.
      n_mult_choice: for how many inputs it has weighed targets.
    """

    def __init__(self) -> None:
        self.n_gen_text = 0
        self.n_mult_choice = 0

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return ModelData("Dummy", "Dummy", description="says the same to everything")

    def generate_text(self, inputs: Any, *limits: Any, **named_limits: Any) -> Any:
        """See `Model.generate_text`."""
        if isinstance(inputs, str):
            self.n_gen_text += 1
            return postprocess_output("dummy answer 42", *limits, **named_limits)
        return [self.generate_text(text, *limits, **named_limits) for text in inputs]

    def cond_log_prob(
        self, inputs: Any, targets: Any, absolute_normalization: bool | None = False
    ) -> Any:
        """See `Model.cond_log_prob`."""
        if isinstance(inputs, str):
            self.n_mult_choice += 1
            return _log_probs(targets, bool(absolute_normalization))
        pairs = zip(inputs, targets, strict=True)
        return [self.cond_log_prob(*pair, absolute_normalization) for pair in pairs]


def _log_probs(targets: Sequence[str], absolute: bool) -> list[float]:
    n_possible = len(targets) - 1
    each = -math.log(2 * n_possible if absolute else n_possible) if n_possible else -math.inf
    return [-math.inf] + [each] * n_possible
