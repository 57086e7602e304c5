# SPDX-License-Identifier: Apache-2.0
"""How an example and its shots become what a model is sent."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from lmeval.api.example import Example
from lmeval.api.model import Message, Prompt


@attrs.frozen(kw_only=True)
class PromptFormat:
    """The texts around examples; see `TaskSettings` for what each means."""

    task_prefix: str = ""
    example_input_prefix: str = ""
    example_output_prefix: str = ""
    few_shot_example_separator: str = "\n\n"

    def question(self, example: Example) -> str:
        """An example's question with the texts around it."""
        return f"{self.example_input_prefix}{example.prompt}{self.example_output_prefix}"

    def solved(self, example: Example) -> str:
        """A shot: the question and its first target.

        Where the question does not end in white space, the answer goes on a line of its own, or
        behind one blank if an output prefix such as "A:" introduces it.
        """
        question = self.question(example)
        return f"{question}{self.answer_gap(question)}{example.targets[0]}"

    def answer_gap(self, question: str) -> str:
        """What stands between a question and its answer."""
        if not question or question[-1].isspace():
            return ""
        return " " if self.example_output_prefix else "\n"

    def prompt(self, example: Example, shots: Sequence[Example] = (), task: str = "") -> Prompt:
        """What the model is sent for `example`, as text and as chat messages.

        Without shots and prefixes it is the example's prompt as it is.
        """
        question = self.question(example)
        if not shots:
            return Prompt(self.task_prefix + question, (), task, example.id)
        parts = [*map(self.solved, shots), question]
        text = self.task_prefix + self.few_shot_example_separator.join(parts)
        return Prompt(text, self._messages(question, shots), task, example.id)

    def _messages(self, question: str, shots: Sequence[Example]) -> tuple[Message, ...]:
        turns: list[Message] = []
        for shot in shots:
            turns += [("user", self.question(shot)), ("assistant", shot.targets[0])]
        turns.append(("user", question))
        turns[0] = ("user", self.task_prefix + turns[0][1])
        return tuple(turns)
