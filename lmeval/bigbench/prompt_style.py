# SPDX-License-Identifier: Apache-2.0
"""How BIG-bench turns an example into the text of a question, and what counts as its answer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import attrs

CHOICE_SEED = 42
"""The seed of the order of choices; BIG-bench never uses another."""

_RawExample = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class PromptStyle:
    """The texts around examples, with BIG-bench's defaults."""

    task_prefix: str = ""
    """Put once, before everything."""
    input_prefix: str = "\nQ: "
    """Put before each example's input."""
    output_prefix: str = "\nA: "
    """Put after each example's input and choices."""
    choice_prefix: str = "\n  choice: "
    """Put before each choice."""
    append_choices: bool = True
    """Whether the choices are shown."""
    separator: str = "\n"
    """Put between shots, and between the last shot and the question."""

    def question(self, example: _RawExample, choice_seed: int = CHOICE_SEED) -> str:
        """The example's question with the texts around it, `task_prefix` apart."""
        text: str = self.input_prefix + example["input"]
        if self.append_choices and "target_scores" in example:
            choices = sorted(example["target_scores"])
            order = _choice_order(len(choices), choice_seed)
            text += "".join(self.choice_prefix + choices[place] for place in order)
        return text + self.output_prefix


@functools.lru_cache(maxsize=1024)
def _choice_order(count: int, seed: int) -> tuple[int, ...]:
    """The order of `count` sorted choices: the same in every example, as each draws afresh."""
    import numpy as np

    return tuple(np.random.RandomState(seed).permutation(count).tolist())


def targets_of(example: _RawExample) -> list[str]:
    """The answers that count as right: `target`, or else the first of the best choices."""
    target = example.get("target")
    if target is None:
        scores = example["target_scores"]
        return [max(scores, key=scores.__getitem__)]
    return target if isinstance(target, list) else [target]
