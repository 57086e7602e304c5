# SPDX-License-Identifier: Apache-2.0
"""Writing many texts at once: a finished one leaves the batch and the next one enters."""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import torch

from lmeval.models.hf import keys_values
from lmeval.models.hf.forward import Forward
from lmeval.models.hf.packed import PackedRunner
from lmeval.models.hf.requests import NOT_A_NUMBER, WriteRequest, Written
from lmeval.models.hf.sampling import Sampler


class Batch(abc.ABC):
    """Texts that are being continued, in order."""

    @abc.abstractmethod
    def join(self, prompts: Sequence[Sequence[int]]) -> Any:
        """Add k texts; their next-token logits [k, vocabulary]."""

    @abc.abstractmethod
    def step(self, tokens: Sequence[int]) -> Any:
        """Add one token to each of all b texts; their next-token logits [b, vocabulary]."""

    @abc.abstractmethod
    def keep(self, rows: Sequence[int]) -> None:
        """Drop all texts but these."""


class PackedBatch(Batch):
    """All texts in one cache, filled up on the left; prompts run as a prefix tree."""

    def __init__(self, forward: Forward, runner: PackedRunner) -> None:
        self._forward = forward
        self._runner = runner
        self._lengths: list[int] = []
        self._cache: Any = None

    def join(self, prompts: Sequence[Sequence[int]]) -> Any:
        """See `Batch.join`."""
        logits: list[Any] = [None] * len(prompts)
        caches: list[Any] = [None] * len(prompts)
        for done in self._runner.run(prompts, [len(prompt) - 1 for prompt in prompts]):
            for at, (node, places) in enumerate(done.row.wanted):
                for index, _ in places:
                    logits[index] = done.logits[at]
                    caches[index] = keys_values.copy_columns(done.cache, done.row.path_to(node))
        if self._lengths:
            caches.insert(0, self._cache)
        self._lengths += map(len, prompts)
        self._cache = keys_values.stack(caches, max(self._lengths))
        return torch.stack(logits)

    def step(self, tokens: Sequence[int]) -> Any:
        """See `Batch.step`."""
        lengths = torch.tensor(self._lengths, device=self._forward.device)[:, None]
        n_columns = max(self._lengths) + 1
        columns = torch.arange(n_columns, device=self._forward.device)[None]
        logits, _ = self._forward(
            [[token] for token in tokens],
            [0],
            cache=self._cache,
            mask=(columns >= n_columns - 1 - lengths).long(),
            positions=lengths,
        )
        self._lengths = [length + 1 for length in self._lengths]
        return logits[:, 0]

    def keep(self, rows: Sequence[int]) -> None:
        """See `Batch.keep`."""
        self._lengths = [self._lengths[row] for row in rows]
        if self._lengths:
            keys_values.keep_rows(self._cache, rows, max(self._lengths))
        else:
            self._cache = None


class SerialBatch(Batch):
    """Each text by itself, on the cache that the model makes, or on none."""

    def __init__(self, forward: Forward, cached: bool) -> None:
        self._forward = forward
        self._cached = cached
        self._texts: list[list[int]] = []
        self._caches: list[Any] = []

    def join(self, prompts: Sequence[Sequence[int]]) -> Any:
        """See `Batch.join`."""
        rows = []
        for prompt in prompts:
            logits, cache = self._forward([prompt], [-1], use_cache=self._cached)
            self._texts.append(list(prompt))
            self._caches.append(cache)
            rows.append(logits[0, 0])
        return torch.stack(rows)

    def step(self, tokens: Sequence[int]) -> Any:
        """See `Batch.step`."""
        rows = []
        for at, token in enumerate(tokens):
            self._texts[at].append(token)
            cache = self._caches[at] if self._cached else None
            ids = [token] if self._cached else self._texts[at]
            logits, _ = self._forward([ids], [-1], cache=cache)
            rows.append(logits[0, 0])
        return torch.stack(rows)

    def keep(self, rows: Sequence[int]) -> None:
        """See `Batch.keep`."""
        self._texts = [self._texts[row] for row in rows]
        self._caches = [self._caches[row] for row in rows]


class TextStream:
    """The text of a growing list of tokens, without decoding all of them at every step."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self.tokens: list[int] = []
        self.text = ""
        self._decode = decode
        self._start = 0
        self._done = 0

    def add(self, token: int) -> None:
        """Append a token; `text` follows as soon as it ends in a whole character."""
        self.tokens.append(token)
        # Decoded together with the tokens before them, because a first word loses its blank.
        known = self._decode(self.tokens[self._start : self._done])
        longer = self._decode(self.tokens[self._start :])
        if len(longer) > len(known) and not longer.endswith("\N{REPLACEMENT CHARACTER}"):
            self.text += longer[len(known) :]
            self._start, self._done = self._done, len(self.tokens)


@attrs.define(eq=False)
class _Draft:
    index: int
    request: WriteRequest
    stream: TextStream
    generator: np.random.Generator


@attrs.frozen
class Writer:
    """Writes texts, `batch_size` of them at a time."""

    sampler: Sampler
    decode: Callable[[Sequence[int]], str]
    """From token ids to text."""
    end_tokens: frozenset[int]
    """Tokens after which nothing follows."""
    batch_size: int

    def write(
        self,
        batch: Batch,
        requests: Sequence[WriteRequest],
        is_over: Callable[[int, str], str | None],
    ) -> list[Written]:
        """Continue each of n prompts, in order.

        Args:
          batch: an empty batch.
          requests: what to continue.
          is_over: from the number of a request and its text to the reason why it needs no
            further token, None if it does.
        """
        results: list[Written] = [Written((), None)] * len(requests)
        # Neighbours in this order share most, so their common beginnings are in the cache.
        waiting = deque(sorted(range(len(requests)), key=lambda index: requests[index].prompt))
        drafts: list[_Draft] = []
        while waiting or drafts:
            free = self.batch_size - len(drafts)
            if waiting and free >= min(len(waiting), max(1, self.batch_size // 8)):
                fresh = [waiting.popleft() for _ in range(min(free, len(waiting)))]
                current = [self._draft(index, requests[index]) for index in fresh]
                logits = batch.join([draft.request.prompt for draft in current])
                drafts += current
            else:
                current = drafts
                logits = batch.step([draft.stream.tokens[-1] for draft in drafts])
            finished = self._extend(current, logits, is_over)
            if finished:
                for index, written in finished.items():
                    results[index] = written
                rows = [row for row, draft in enumerate(drafts) if draft.index not in finished]
                batch.keep(rows)
                drafts = [drafts[row] for row in rows]
        return results

    def _draft(self, index: int, request: WriteRequest) -> _Draft:
        generator = self.sampler.generator(request.prompt, request.sample)
        return _Draft(index, request, TextStream(self.decode), generator)

    def _extend(
        self, drafts: Sequence[_Draft], logits: Any, is_over: Callable[[int, str], str | None]
    ) -> dict[int, Written]:
        """Add the next token to each draft; the drafts that end with it, by their index."""
        broken = torch.isnan(logits).any(dim=-1).tolist()
        tokens = self.sampler.choose(logits, [draft.generator for draft in drafts])
        finished = {}
        for draft, token, is_broken in zip(drafts, tokens, broken, strict=True):
            reason, error = None, None
            if is_broken:
                error = NOT_A_NUMBER
            elif token in self.end_tokens:
                reason = "stop"
            else:
                draft.stream.add(token)
                reason = is_over(draft.index, draft.stream.text)
                if reason is None and len(draft.stream.tokens) >= draft.request.max_new_tokens:
                    reason = "length"
            if reason or error:
                finished[draft.index] = Written(tuple(draft.stream.tokens), reason, error)
        return finished
