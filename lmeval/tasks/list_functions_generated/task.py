# SPDX-License-Identifier: Apache-2.0
"""Hidden rules that change a list, to be found from examples; drawn from a seed."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence

from lmeval.tasks import generated

_Numbers = list[int]
_Operation = Callable[[_Numbers], _Numbers]

OPERATIONS: tuple[_Operation, ...] = (
    lambda numbers: numbers[::-1],
    lambda numbers: sorted(numbers),
    lambda numbers: sorted(numbers, reverse=True),
    lambda numbers: numbers[1:],
    lambda numbers: numbers[:-1],
    lambda numbers: numbers[:3],
    lambda numbers: numbers[-2:],
    lambda numbers: numbers[::2],
    lambda numbers: [number + 1 for number in numbers],
    lambda numbers: [number * 2 for number in numbers],
    lambda numbers: [number for number in numbers if number % 2 == 0],
    lambda numbers: [number for number in numbers if number % 2 == 1],
    lambda numbers: [number for number in numbers if number > 4],
    lambda numbers: list(dict.fromkeys(numbers)),
    lambda numbers: list(itertools.accumulate(numbers)),
    lambda numbers: [*numbers, len(numbers)],
    lambda numbers: [*numbers, *numbers[:1]],
)
"""What rules are made of."""


class ListFunctionsGenerated(generated.GeneratedTask[int]):
    """Finding the rule that changes a list, and applying it to another list."""

    name = "list_functions_generated"
    description = (
        "Five lists of digits and what a hidden rule makes of each are shown; apply the rule to a "
        "sixth. Rules of one operation and of two are scored by themselves by exact match."
    )
    keywords = ("algebra", "analogical reasoning", "out of distribution", "free response")
    number_of_shots = 5
    levels = {"one operation": 1, "two operations": 2}  # noqa: RUF012
    examples_per_level = 50
    longest_prompt = 150

    def draw(self, level: int, rng: random.Random) -> generated.GeneratedExample:
        """A rule of `level` operations with five solved lists that leave one answer."""
        while True:
            rule = rng.sample(OPERATIONS, level)
            *shown, asked = (_draw_list(rng) for _ in range(1 + self.number_of_shots))
            if _changes_a_list(rule, shown) and _leaves_one_answer(rule, shown, asked):
                break
        prompt = generated.question_prompt(
            "One hidden rule turns each list into the one below it. Find the rule and apply it to "
            "the last list. Answer with the new list only.",
            [(str(numbers), str(_apply(rule, numbers))) for numbers in shown],
            str(asked),
        )
        return generated.GeneratedExample(prompt, str(_apply(rule, asked)))

    def read_answer(self, text: str) -> str:
        """The last list of the first line that has one."""
        lists = generated.matches_in_first_line(r"\[[-0-9, ]*\]", text)
        return str([int(number) for number in re.findall(r"-?[0-9]+", lists[-1])]) if lists else ""


def _draw_list(rng: random.Random) -> _Numbers:
    return [rng.randrange(10) for _ in range(rng.randint(4, 7))]


def _apply(rule: Sequence[_Operation], numbers: _Numbers) -> _Numbers:
    for operation in rule:
        numbers = operation(numbers)
    return numbers


def _changes_a_list(rule: Sequence[_Operation], shown: Sequence[_Numbers]) -> bool:
    return any(_apply(rule, numbers) != numbers for numbers in shown)


def _leaves_one_answer(
    rule: Sequence[_Operation], shown: Sequence[_Numbers], asked: _Numbers
) -> bool:
    """Whether all rules of up to two operations that fit the shown lists agree on the last one."""
    results = [_apply(rule, numbers) for numbers in shown]
    answer = _apply(rule, asked)
    return all(
        _apply(other, asked) == answer
        for length in (1, 2)
        for other in itertools.permutations(OPERATIONS, length)
        if all(
            _apply(other, numbers) == result for numbers, result in zip(shown, results, strict=True)
        )
    )
