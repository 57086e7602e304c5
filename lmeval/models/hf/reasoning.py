# SPDX-License-Identifier: Apache-2.0
"""Taking what a reasoning model thinks apart from what it answers."""

from __future__ import annotations

import attrs

OPENING, CLOSING = "<think>", "</think>"


@attrs.frozen
class Thought:
    """A text in two parts."""

    reasoning: str
    """What stands between the markers; "" where the model did not think aloud."""
    answer: str
    """What follows; "" while the reasoning is not closed."""


def split_reasoning(text: str, begun: bool = False) -> Thought:
    """Split `<think>…</think>answer`; blanks around both parts are dropped.

    A text with only the closing marker was begun by the chat template. Without any marker all of
    it is the answer, as it stands.

    Args:
      text: what the model wrote.
      begun: whether the prompt itself ended in the opening marker.
    """
    opened = text.lstrip().startswith(OPENING)
    thinking, closed, answer = text.partition(CLOSING)
    if closed:
        return Thought(thinking.lstrip().removeprefix(OPENING).strip(), answer.lstrip())
    if begun or opened:
        return Thought(thinking.lstrip().removeprefix(OPENING).strip(), "")
    return Thought("", text)
