# SPDX-License-Identifier: Apache-2.0
"""Boolean expressions of growing length, drawn from a seed."""

from __future__ import annotations

import random

from lmeval.tasks import generated

_Expression = tuple[str, bool]


class BooleanExpressionsGenerated(generated.GeneratedTask[int]):
    """Working out bracketed expressions of True, False, and, or, not."""

    name = "boolean_expressions_generated"
    description = (
        "Work out whether a bracketed expression of True, False, and, or, not is true, after three "
        "solved ones; each number of operators is scored by itself by exact match. Chance is 0.5."
    )
    keywords = ("logical reasoning", "free response", "many-shot")
    number_of_shots = 3
    low_score = 0.5
    levels = {f"{operators} operators": operators for operators in (2, 4, 8, 16)}  # noqa: RUF012
    examples_per_level = 50
    longest_prompt = 320

    def draw(self, level: int, rng: random.Random) -> generated.GeneratedExample:
        """An expression with `level` operators, true as often as not, and three others as shots."""
        expressions: dict[str, bool] = {}
        while len(expressions) < 1 + self.number_of_shots:
            wanted = rng.random() < 0.5
            text, value = _draw_expression(level, rng)
            while value != wanted:
                text, value = _draw_expression(level, rng)
            expressions.setdefault(text, value)
        *shots, (question, answer) = expressions.items()
        prompt = generated.question_prompt(
            "Is the expression True or False? Answer with one word.",
            [(text, str(value)) for text, value in shots],
            question,
        )
        return generated.GeneratedExample(prompt, str(answer))

    def read_answer(self, text: str) -> str:
        """The last True or False of the first line that has one."""
        words = generated.matches_in_first_line(r"(?i)\b(true|false)\b", text)
        return words[-1].capitalize() if words else ""


def _draw_expression(operators: int, rng: random.Random) -> _Expression:
    if operators == 0:
        value = rng.random() < 0.5
        return str(value), value
    operator = rng.choice(("and", "or", "not"))
    if operator == "not":
        text, value = _draw_operand(operators - 1, rng)
        return f"not {text}", not value
    in_the_left = rng.randrange(operators)
    left_text, left = _draw_operand(in_the_left, rng)
    right_text, right = _draw_operand(operators - 1 - in_the_left, rng)
    value = (left and right) if operator == "and" else (left or right)
    return f"{left_text} {operator} {right_text}", value


def _draw_operand(operators: int, rng: random.Random) -> _Expression:
    text, value = _draw_expression(operators, rng)
    return (f"( {text} )" if operators else text), value
