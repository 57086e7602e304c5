# SPDX-License-Identifier: Apache-2.0
"""Additions of whole numbers with one to five digits, drawn from a seed."""

from __future__ import annotations

import random

from lmeval.tasks import generated


class SimpleArithmetic(generated.GeneratedTask[int]):
    """Adding two numbers; one sub-task for each number of digits."""

    name = "simple_arithmetic"
    description = (
        "Add two whole numbers of one to five digits each, after three solved additions; "
        "each number of digits is scored by itself by exact match of the sum."
    )
    keywords = ("arithmetic", "mathematics", "numerical response", "free response", "many-shot")
    number_of_shots = 3
    levels = {f"{digits}-digit numbers": digits for digits in range(1, 6)}  # noqa: RUF012
    examples_per_level = 50
    longest_prompt = 40

    def draw(self, level: int, rng: random.Random) -> generated.GeneratedExample:
        """Two numbers of `level` digits, and three other pairs as shots."""
        numbers = range(10 ** (level - 1) if level > 1 else 0, 10**level)
        pairs: dict[tuple[int, int], None] = {}
        while len(pairs) < 1 + self.number_of_shots:
            pairs[rng.choice(numbers), rng.choice(numbers)] = None
        *shots, (first, second) = pairs
        prompt = generated.question_prompt(
            "Add the two numbers. Answer with the sum only.",
            [(f"{a} + {b}", str(a + b)) for a, b in shots],
            f"{first} + {second}",
        )
        return generated.GeneratedExample(prompt, str(first + second))

    def read_answer(self, text: str) -> str:
        """The last number of the first line that has one, without thousands separators."""
        numbers = generated.matches_in_first_line(r"-?[0-9][0-9,]*(?:\.[0-9]+)?", text)
        return numbers[-1].replace(",", "") if numbers else ""
