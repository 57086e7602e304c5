# SPDX-License-Identifier: Apache-2.0
"""A person at the terminal, asked what a model would be asked."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TextIO

from lmeval.api.errors import UnsupportedByModel
from lmeval.api.model import BatchModel, ModelData

_RULE = "-" * 72


class HumanModel(BatchModel):
    """Asks a person: one line of text for each prompt, or the number of a choice.

    As in BIG-bench, the choice that was picked has log-probability 0 and the others have -inf.
    """

    keeps_order = True

    def __init__(
        self, *, input_stream: TextIO | None = None, output_stream: TextIO | None = None
    ) -> None:
        """Make a model that asks.

        Args:
          input_stream: where answers are read from; standard input unless given.
          output_stream: where questions are shown; standard output unless given.
        """
        self._input = sys.stdin if input_stream is None else input_stream
        self._output = sys.stdout if output_stream is None else output_stream

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return ModelData(
            model_family="human",
            model_name="human",
            description="A person who answers at the terminal.",
        )

    @property
    def preferred_batch_size(self) -> int:
        """See `Model.preferred_batch_size`; one, so that each answer is taken when it is given."""
        return 1

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[str]:
        """See `BatchModel.complete`.

        Raises:
          UnsupportedByModel: the input ended before all prompts were answered.
        """
        return [self._ask(f"{_RULE}\n{prompt}\n{_RULE}\nYour answer: ") for prompt in prompts]

    def score(self, contexts: Sequence[str], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `BatchModel.score`.

        Raises:
          UnsupportedByModel: a context has a single target, so that there is nothing to choose, or
            the input ended before all questions were answered.
        """
        if any(len(choices) == 1 for choices in targets):
            raise UnsupportedByModel(
                "The model human can choose between texts but cannot give the log-probability of "
                "a single one; choose tasks with choices or with free text."
            )
        return [
            self._choose(context, choices)
            for context, choices in zip(contexts, targets, strict=True)
        ]

    def _choose(self, context: str, choices: Sequence[str]) -> list[float]:
        if not choices:
            return []
        listing = "\n".join(f"  {number}. {choice}" for number, choice in enumerate(choices, 1))
        question = f"{_RULE}\n{context}\n{listing}\n{_RULE}\nNumber of your choice: "
        picks = {str(at + 1): at for at in range(len(choices))}
        while (picked := picks.get(self._ask(question).strip())) is None:
            question = f"Please enter a number from 1 to {len(choices)}: "
        return [0.0 if at == picked else -math.inf for at in range(len(choices))]

    def _ask(self, question: str) -> str:
        # A terminal that cannot show a character must not end the run.
        encoding = getattr(self._output, "encoding", None) or "utf-8"
        self._output.write(question.encode(encoding, "backslashreplace").decode(encoding))
        self._output.flush()
        # Both errors are of the kind that ends the task; others would make the engine ask again.
        try:
            line = self._input.readline()
        except UnicodeDecodeError as error:
            raise UnsupportedByModel(
                f"An answer to the model human cannot be decoded: {error}."
            ) from error
        if not line:
            raise UnsupportedByModel(
                "The input ended before all questions to the model human were answered; "
                "somebody must be at the terminal."
            )
        return line.removesuffix("\n").removesuffix("\r")
