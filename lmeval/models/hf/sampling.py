# SPDX-License-Identifier: Apache-2.0
"""Choosing the next token."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


class Sampler:
    """The likeliest token, or a drawn one.

    Every text draws from a generator of its own, so that it does not matter what else is written
    at the same time.
    """

    def __init__(self, temperature: float, top_p: float, seed: int) -> None:
        """Take the decoding settings; they are described in `settings.Settings`."""
        self._temperature = temperature
        self._top_p = top_p
        self._seed = seed

    def generator(self, prompt: Sequence[int], sample: int) -> np.random.Generator:
        """The generator of the sample with this number (from 0) for these prompt tokens."""
        text = f"{self._seed} {sample} {' '.join(map(str, prompt))}"
        digest = hashlib.sha256(text.encode()).digest()
        return np.random.default_rng(int.from_bytes(digest, "big"))

    def choose(self, logits: Any, generators: Sequence[np.random.Generator]) -> list[int]:
        """One token id for each of k texts.

        Args:
          logits: [k, vocabulary].
          generators: k generators; each is advanced by one draw unless decoding is greedy.
        """
        if self._temperature == 0:
            tokens: list[int] = logits.argmax(dim=-1).tolist()
            return tokens
        probabilities = torch.softmax(logits.double() / self._temperature, dim=-1).cpu().numpy()
        return [
            self._draw(row, generator)
            for row, generator in zip(probabilities, generators, strict=True)
        ]

    def _draw(self, probabilities: Any, generator: np.random.Generator) -> int:
        if self._top_p < 1:
            order = np.argsort(-probabilities, kind="stable")
            before = np.cumsum(probabilities[order]) - probabilities[order]
            probabilities[order[before >= self._top_p]] = 0
        # In order of ids, not of probability: near ties that swap places then change nothing.
        cumulative = np.cumsum(probabilities)
        drawn = generator.random() * cumulative[-1]
        return int(np.searchsorted(cumulative, drawn, side="right"))
