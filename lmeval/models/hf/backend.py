# SPDX-License-Identifier: Apache-2.0
"""A loaded model that scores and writes tokens, each request along the fastest way it allows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from lmeval.api.errors import ModelError
from lmeval.models.hf.abilities import ALONE, EXPANDED, PACKED, find_abilities
from lmeval.models.hf.fallback import score_alone, score_expanded
from lmeval.models.hf.forward import Counts, Forward
from lmeval.models.hf.packed import PackedRunner, score_packed
from lmeval.models.hf.requests import ScoreRequest, WriteRequest, Written
from lmeval.models.hf.writing import Batch, PackedBatch, SerialBatch, Writer

_ROW_ON_CPU, _ROW_ELSEWHERE = 256, 2048


class Backend:
    """Runs requests that are tokens.

    Attributes:
      abilities: what was found out about the model.
      counts: what was done so far.
    """

    def __init__(
        self, model: Any, writer: Writer, context_length: int, batch_tokens: int | None
    ) -> None:
        """Find out what a model can do.

        Args:
          model: a transformers model in evaluation mode.
          writer: how texts are written.
          context_length: the most tokens the model sees at once.
          batch_tokens: tokens in one forward pass, None for what suits the device.
        """
        default = _ROW_ON_CPU if model.device.type == "cpu" else _ROW_ELSEWHERE
        self.counts = Counts()
        self._forward = Forward(model, self.counts)
        self._limit = batch_tokens or default
        self._runner = PackedRunner(self._forward, self._limit)
        self._writer = writer
        with _running():
            self.abilities = find_abilities(model, context_length)

    def score(self, requests: Sequence[ScoreRequest]) -> list[float]:
        """The log-probability of the scored tokens of each of n requests.

        Raises:
          ModelError: the device is out of memory.
        """
        asked = [index for index, request in enumerate(requests) if request.n_scored]
        near = [index for index in asked if self._is_exact(len(requests[index].tokens) - 1)]
        with _running():
            values = dict(zip(near, self._score_together(requests, near), strict=True))
            if any(map(math.isnan, values.values())):
                self._runner.forget()
            # What is not a number spreads to what runs beside it; alone each is what it is.
            far = [index for index in asked if math.isnan(values.get(index, math.nan))]
            values.update(zip(far, self._score_alone(requests, far), strict=True))
        self.counts.scored_tokens += sum(request.n_scored for request in requests)
        return [values.get(index, 0.0) for index in range(len(requests))]

    def write(
        self, requests: Sequence[WriteRequest], is_over: Callable[[int, str], str | None]
    ) -> list[Written]:
        """Continue each of n prompts; see `Writer.write`.

        Raises:
          ModelError: the device is out of memory.
        """

        def written(batch: Batch, indices: Sequence[int]) -> list[Written]:
            chosen = [requests[index] for index in indices]
            return self._writer.write(batch, chosen, lambda at, text: is_over(indices[at], text))

        lengths = [len(request.prompt) + request.max_new_tokens for request in requests]
        near = [index for index, length in enumerate(lengths) if self._is_exact(length)]
        with _running():
            results = dict(zip(near, written(self._shared_batch(), near), strict=True))
            broken = {index for index, result in results.items() if result.error}
            if broken:
                self._runner.forget()
            far = [index for index in range(len(requests)) if index in broken or index not in near]
            results.update(zip(far, written(self._serial_batch(), far), strict=True))
        self.counts.generated_tokens += sum(len(result.tokens) for result in results.values())
        return [results[index] for index in range(len(requests))]

    def _is_exact(self, length: int) -> bool:
        """Whether the numbers of so long a sequence do not depend on what runs beside it."""
        limit = self.abilities.exact_up_to
        return limit is None or length <= limit

    def _score_together(
        self, requests: Sequence[ScoreRequest], indices: Sequence[int]
    ) -> list[float]:
        chosen = [requests[index] for index in indices]
        if self.abilities.scoring == PACKED:
            return score_packed(self._runner, chosen)
        if self.abilities.scoring == EXPANDED:
            return score_expanded(self._forward, chosen, self._limit)
        return score_alone(self._forward, chosen)

    def _score_alone(self, requests: Sequence[ScoreRequest], indices: Sequence[int]) -> list[float]:
        return score_alone(self._forward, [requests[index] for index in indices])

    def _shared_batch(self) -> Batch:
        if self.abilities.writing == PACKED:
            return PackedBatch(self._forward, self._runner)
        return self._serial_batch()

    def _serial_batch(self) -> Batch:
        return SerialBatch(self._forward, cached=self.abilities.writing != ALONE)


@contextlib.contextmanager
def _running() -> Iterator[None]:
    try:
        with torch.inference_mode():
            yield
    except torch.OutOfMemoryError as error:
        raise ModelError(
            "The model does not fit into the device's memory; lower batch_tokens or batch_size, or "
            "choose a smaller dtype."
        ) from error
