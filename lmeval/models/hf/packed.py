# SPDX-License-Identifier: Apache-2.0
"""Running a prefix tree: each distinct prefix through the model once, many in one pass.

A pass is one row of tokens with a mask that shows each of them only what it follows on, and with
its position in the text stated explicitly. The cache behind it holds the path that the row
continues; it outlives the call, so that what all prompts of a task begin with runs once for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import torch

from lmeval.models.hf import keys_values
from lmeval.models.hf.forward import Forward, picked_log_probs
from lmeval.models.hf.requests import ScoreRequest
from lmeval.models.hf.tree import Row, build_tree


@attrs.frozen(eq=False)
class Pass:
    """A row that was run. The cache holds the path and the row until the next one is asked for."""

    row: Row
    logits: Any
    """[k, vocabulary], one for each entry of `row.wanted`."""
    cache: Any


class MaskMaker:
    """Attention masks for rows of a prefix tree, in the form that a model's layers need."""

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        self._dtype = model.dtype
        self._device = model.device
        self._window = sliding_window(config)
        self._is_mixed = len(set(getattr(config, "layer_types", None) or ())) > 1

    def __call__(self, row: Row) -> Any:
        """[1, 1, n, p + n] added to the attention scores: 0 where a node sees, else very low.

        With sliding windows in some layers only, a dict with one mask for each kind of layer.
        """
        if self._window is None:
            return self._additive(row.sees)
        depths = np.array([*range(len(row.kept)), *row.depths])
        near = np.array(row.depths)[:, None] - depths[None] < self._window
        windowed = self._additive(row.sees & near)
        if not self._is_mixed:
            return windowed
        return {"full_attention": self._additive(row.sees), "sliding_attention": windowed}

    def _additive(self, sees: Any) -> Any:
        # Added numbers mean the same to every attention implementation; booleans do not.
        visible = torch.from_numpy(sees).to(self._device)
        mask = torch.zeros(visible.shape, dtype=self._dtype, device=self._device)
        return mask.masked_fill_(~visible, torch.finfo(self._dtype).min)[None, None]


def sliding_window(config: Any) -> int | None:
    """The number of tokens that layers with a sliding window see, None without such layers."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    if not getattr(config, "use_sliding_window", True):
        return None
    window: int | None = getattr(config, "sliding_window", None)
    return window


class PackedRunner:
    """Runs prefix trees in rows of `limit` tokens."""

    def __init__(self, forward: Forward, limit: int) -> None:
        self._forward = forward
        self._limit = limit
        self._mask_of = MaskMaker(forward.model)
        # One attribute, so that a call which its caller gave up on cannot leave one half behind.
        self._state: tuple[list[int], Any] = ([], None)

    def run(self, sequences: Sequence[Sequence[int]], wanted_from: Sequence[int]) -> Iterator[Pass]:
        """Run n token sequences; see `tree.build_tree` for the arguments."""
        # Until all is done nothing is known to be in the cache: the caller may stop midway.
        path, cache = self._state
        self.forget()
        tree = build_tree(sequences, wanted_from, path)
        counts = self._forward.counts
        counts.prefix_tree_tokens += tree.size
        counts.tokens_without_sharing += sum(map(len, sequences))
        cache = keys_values.new_cache() if cache is None else cache
        last = None
        for row in tree.rows(self._limit):
            path = [path[column] for column in row.kept] + row.tokens
            keys_values.keep_columns(cache, row.kept)
            yield self._pass(row, cache)
            last = row
        if last is not None:
            columns = last.path_to(len(last.tokens) - 1)
            path = [path[column] for column in columns]
            keys_values.keep_columns(cache, columns)
        self._state = (path, cache)

    def forget(self) -> None:
        """Let go of the cache."""
        self._state = ([], None)

    def _pass(self, row: Row, cache: Any) -> Pass:
        logits, _ = self._forward(
            [row.tokens],
            [node for node, _ in row.wanted],
            cache=cache,
            mask=self._mask_of(row),
            positions=torch.tensor([row.depths], device=self._forward.device),
        )
        if cache.get_seq_length() != len(row.kept) + len(row.tokens):
            raise RuntimeError("the model does not fill the cache that it is given")
        return Pass(row, logits[0], cache)


def score_packed(runner: PackedRunner, requests: Sequence[ScoreRequest]) -> list[float]:
    """The log-probability of each request's scored tokens, given those before them."""
    sums = [0.0] * len(requests)
    sequences = [request.tokens[:-1] for request in requests]
    for done in runner.run(sequences, [request.scored_from - 1 for request in requests]):
        rows, tokens, owners = [], [], []
        for at, (_, places) in enumerate(done.row.wanted):
            for index, depth in places:
                rows.append(at)
                tokens.append(requests[index].tokens[depth + 1])
                owners.append(index)
        for owner, value in zip(owners, picked_log_probs(done.logits, rows, tokens), strict=True):
            sums[owner] += value
    return sums
