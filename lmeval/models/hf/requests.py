# SPDX-License-Identifier: Apache-2.0
"""What the model is asked once texts are tokens, and what it answers."""

from __future__ import annotations

import attrs

NOT_A_NUMBER = "error: the model's output is not a number; try dtype=float32"
"""What stands for an answer of a model whose arithmetic overflowed."""


@attrs.frozen
class ScoreRequest:
    """Tokens, of which those from `scored_from` (at least 1) on are to be scored."""

    tokens: tuple[int, ...]
    scored_from: int

    @property
    def n_scored(self) -> int:
        """How many tokens are to be scored."""
        return len(self.tokens) - self.scored_from


@attrs.frozen(eq=False)
class WriteRequest:
    """A text to continue."""

    prompt: tuple[int, ...]
    """Token ids, at least one."""
    max_new_tokens: int
    sample: int
    """Which sample of this prompt it is, from 0."""


@attrs.frozen
class Written:
    """A text that was written."""

    tokens: tuple[int, ...]
    """Token ids, without one that only says that the text is over."""
    finish_reason: str | None
    """"stop" or "length"; None where the model failed."""
    error: str | None = None
