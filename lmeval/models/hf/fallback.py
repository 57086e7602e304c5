# SPDX-License-Identifier: Apache-2.0
"""Scoring for models that cannot run a prefix tree in rows.

`score_expanded` needs no more than a cache that can be copied: the beginning that all contexts
share runs once, each context once behind it, and its continuations together as a batch on the
expanded cache. `score_alone` runs every request by itself; it is what all else must agree with.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from lmeval.models.hf.forward import Forward, picked_log_probs
from lmeval.models.hf.requests import ScoreRequest
from lmeval.models.hf.tree import build_tree, shared_length


def score_alone(forward: Forward, requests: Sequence[ScoreRequest]) -> list[float]:
    """See `packed.score_packed`."""
    _count(forward, requests)
    sums = []
    for request in requests:
        keep = range(request.scored_from - 1, len(request.tokens) - 1)
        logits, _ = forward([request.tokens[:-1]], keep)
        targets = request.tokens[request.scored_from :]
        sums.append(sum(picked_log_probs(logits[0], range(len(targets)), targets)))
    return sums


def score_expanded(forward: Forward, requests: Sequence[ScoreRequest], limit: int) -> list[float]:
    """See `packed.score_packed`; `limit` is the most tokens in one pass over continuations."""
    if not requests:
        return []
    _count(forward, requests)
    by_context: dict[tuple[int, ...], list[int]] = {}
    for index, request in enumerate(requests):
        by_context.setdefault(request.tokens[: request.scored_from], []).append(index)
    contexts = list(by_context)
    # Each context keeps at least its last token, whose distribution is needed.
    n_common = min(shared_length(min(contexts), max(contexts)), *(len(c) - 1 for c in contexts))
    common = None
    if n_common:
        _, common = forward([contexts[0][:n_common]], [], use_cache=True)
    sums = [0.0] * len(requests)
    for context, indices in by_context.items():
        # The cache is written to, and the next context begins where this one did.
        cache = copy.deepcopy(common)
        logits, cache = forward([context[n_common:]], [-1], cache=cache, use_cache=True)
        targets = [requests[index].tokens[len(context) :] for index in indices]
        first = picked_log_probs(logits[0], [0] * len(targets), [target[0] for target in targets])
        at_once = max(1, limit // max(map(len, targets)))
        for start in range(0, len(targets), at_once):
            part = targets[start : start + at_once]
            for at, value in enumerate(_score_rest(forward, cache, part), start):
                first[at] += value
        for index, value in zip(indices, first, strict=True):
            sums[index] = value
    return sums


def _score_rest(forward: Forward, cache: Any, targets: Sequence[Sequence[int]]) -> list[float]:
    """Log-probabilities of the targets from their second token on."""
    longest = max(map(len, targets))
    if longest == 1:
        return [0.0] * len(targets)
    expanded = copy.deepcopy(cache)
    expanded.reorder_cache(torch.zeros(len(targets), dtype=torch.long, device=forward.device))
    # Filling up on the right is harmless: a causal model's outputs do not depend on what follows.
    ids = [[*target[:-1], *[0] * (longest - len(target))] for target in targets]
    logits, _ = forward(ids, range(longest - 1), cache=expanded)
    return [
        sum(picked_log_probs(row, range(len(target) - 1), target[1:]))
        for row, target in zip(logits, targets, strict=True)
    ]


def _count(forward: Forward, requests: Sequence[ScoreRequest]) -> None:
    sequences = [request.tokens[:-1] for request in requests]
    wanted_from = [request.scored_from - 1 for request in requests]
    forward.counts.prefix_tree_tokens += build_tree(sequences, wanted_from).size
    forward.counts.tokens_without_sharing += sum(map(len, sequences))
