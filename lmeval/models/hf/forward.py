# SPDX-License-Identifier: Apache-2.0
"""One forward pass: the LM head only where it is asked for, and everything counted."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import attrs
import torch

_LOGIT_ROWS = 256


@attrs.define
class Counts:
    """What the model has done so far."""

    tokens_processed: int = 0
    """Tokens through the decoder, padding included."""
    prefix_tree_tokens: int = 0
    """Distinct prefixes in each call, summed over calls: what a call cannot do without."""
    tokens_without_sharing: int = 0
    """Tokens that would have been processed with every request on its own."""
    lm_head_rows: int = 0
    """Positions through the LM head."""
    scored_tokens: int = 0
    """Tokens whose log-probability was asked for."""
    generated_tokens: int = 0
    """Tokens written."""
    truncated_requests: int = 0
    """Requests whose context lost tokens at its beginning to fit."""
    truncated_tokens: int = 0
    """Tokens that they lost."""
    tokens_across_the_join: int = 0
    """Targets whose first token began in the context; it is scored with the target."""


class Forward:
    """Calls a causal language model, under whichever argument names it knows."""

    def __init__(self, model: Any, counts: Counts | None = None) -> None:
        """Wrap a transformers model that is in evaluation mode."""
        parameters = inspect.signature(model.forward).parameters
        self.model = model
        self.device = model.device
        self.counts = counts or Counts()
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._head_is_selective = "logits_to_keep" in parameters

    def __call__(
        self,
        ids: Sequence[Sequence[int]],
        keep: Sequence[int],
        *,
        cache: Any = None,
        use_cache: bool = False,
        mask: Any = None,
        positions: Any = None,
    ) -> tuple[Any, Any]:
        """Run the model.

        Args:
          ids: b rows of n token ids.
          keep: the k columns whose next-token distribution is wanted, the same for all rows.
          cache: keys and values of what precedes the rows; it is extended.
          use_cache: whether keys and values are wanted even without a cache to extend.
          mask: attention mask, in any form the model takes.
          positions: [b, n] positions in the text.

        Returns:
          Logits [b, k, vocabulary] and the cache, None where the model gave none.
        """
        batch = torch.tensor(ids, device=self.device)
        columns = torch.tensor(keep, dtype=torch.long, device=self.device)
        arguments: dict[str, Any] = {"use_cache": use_cache or cache is not None}
        if cache is not None:
            arguments[self._cache_name] = cache
        if mask is not None:
            arguments["attention_mask"] = mask
        if positions is not None:
            arguments["position_ids"] = positions
        if self._head_is_selective:
            arguments["logits_to_keep"] = columns
        output = self.model(input_ids=batch, **arguments)
        logits = output.logits
        self.counts.tokens_processed += batch.numel()
        self.counts.lm_head_rows += logits.shape[0] * logits.shape[1]
        if not self._head_is_selective:
            logits = logits[:, columns]
        return logits, output.get(self._cache_name)


def picked_log_probs(logits: Any, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """Log-probabilities (natural logarithm, computed in float32) of single tokens.

    Args:
      logits: [k, vocabulary].
      rows: for each of m tokens, the row of `logits` that predicts it.
      tokens: m token ids.
    """
    if not tokens:
        return []
    row_index = torch.tensor(rows, dtype=torch.long, device=logits.device)
    token_index = torch.tensor(tokens, dtype=torch.long, device=logits.device)
    # In parts, because a copy of all logits in float32 may be larger than the model.
    totals = torch.cat([part.float().logsumexp(dim=-1) for part in logits.split(_LOGIT_ROWS)])
    scores = logits[row_index, token_index].float() - totals[row_index]
    picked: list[float] = scores.tolist()
    return picked
