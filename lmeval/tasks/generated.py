# SPDX-License-Identifier: Apache-2.0
"""What tasks share that draw their examples from a seed, so that no training data can hold them."""

from __future__ import annotations

import abc
import random
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import attrs

from lmeval.api.errors import InvalidValueError, TaskError
from lmeval.api.model import Completion, Model, Prompt
from lmeval.api.task import ExampleScore, ScoreData, Task, TaskMetadata

DEFAULT_SEED = 0
"""The seed of a run that states none: the same examples every time."""

NEXT_QUESTION = "\nQ:"
"""Where `question_prompt`'s next question would begin; a model that writes it has answered."""

_MOST_DRAWS = 1000

Level = TypeVar("Level")


@attrs.frozen
class GeneratedExample:
    """A question made up on the spot, with its one right answer."""

    prompt: str
    target: str


class GeneratedTask(Task, Generic[Level]):
    """A task with levels of difficulty, each scored by itself, that makes up its own examples.

    A subclass says how an example of a level is drawn and how an answer is read. Examples depend on
    the seed only: a run with fewer examples asks the first of those that a longer run asks.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    keywords: ClassVar[tuple[str, ...]]
    number_of_shots: ClassVar[int] = 0
    low_score: ClassVar[float] = 0.0
    max_length: ClassVar[int] = 200
    """The longest answer, in characters."""
    stop_string: ClassVar[str] = NEXT_QUESTION
    """Where the model has begun to make up a question of its own."""
    levels: Mapping[str, Level]
    """The sub-tasks: description to what `draw` needs to know of the level."""
    examples_per_level: int
    longest_prompt: int
    """An upper bound for the words in a prompt."""

    @abc.abstractmethod
    def draw(self, level: Level, rng: random.Random) -> GeneratedExample:
        """Make up an example; all randomness comes from `rng`."""
        raise NotImplementedError

    @abc.abstractmethod
    def read_answer(self, text: str) -> str:
        """The answer in a model's text, written as targets are; "" if there is none."""
        raise NotImplementedError

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`."""
        return TaskMetadata(
            name=self.name,
            description=self.description,
            keywords=self.keywords,
            max_input_length_per_query=self.longest_prompt,
            max_queries=self.examples_per_level * len(self.levels),
        )

    def examples(self, level_name: str, count: int, seed: int) -> list[GeneratedExample]:
        """The first `count` examples of a level, all different.

        Raises:
          TaskError: the level does not have that many different examples.
        """
        rng = random.Random(f"{seed}/{self.name}/{level_name}")
        drawn: dict[str, GeneratedExample] = {}
        while len(drawn) < count:
            before = len(drawn)
            for _ in range(_MOST_DRAWS):
                example = self.draw(self.levels[level_name], rng)
                drawn.setdefault(example.prompt, example)
                if len(drawn) > before:
                    break
            else:
                raise TaskError(f"The task {self.name} has no {count} examples of {level_name}.")
        return list(drawn.values())

    def evaluate_model(
        self, model: Model, max_examples: int | None = None, random_seed: int | None = None
    ) -> list[ScoreData]:
        """See `Task.evaluate_model`; all requests go to the model in one call.

        Args:
          model: the model under test.
          max_examples: the most examples, shared out evenly among the levels; levels that get none
            are left out.
          random_seed: what decides the examples; `DEFAULT_SEED` unless given.

        Returns:
          One ScoreData a level.
        """
        seed = DEFAULT_SEED if random_seed is None else random_seed
        counts = share_out(max_examples, len(self.levels), self.examples_per_level)
        asked = [
            (level, Prompt(example.prompt, task=self.name, id=f"{level}/{number:03}"), example)
            for level, count in zip(self.levels, counts, strict=True)
            for number, example in enumerate(self.examples(level, count, seed), 1)
        ]
        texts = model.generate_text(
            [prompt for _, prompt, _ in asked], self.max_length, self.stop_string
        )
        scored: dict[str, list[ExampleScore]] = {}
        for (level, prompt, example), text in zip(asked, texts, strict=True):
            answer = self.read_answer(text.partition(self.stop_string)[0])
            scored.setdefault(level, []).append(example_score(prompt, text, answer, example.target))
        return [self._score_data(level, scores) for level, scores in scored.items()]

    def _score_data(self, level: str, scores: Sequence[ExampleScore]) -> ScoreData:
        return ScoreData(
            score_dict={"exact_match": statistics.fmean(each.score == 1.0 for each in scores)},
            preferred_score="exact_match",
            number_of_shots=self.number_of_shots,
            low_score=self.low_score,
            high_score=1.0,
            subtask_description=level,
            per_example=tuple(scores),
        )


def share_out(max_examples: int | None, n_levels: int, per_level: int) -> list[int]:
    """How many examples each level gets, as evenly as possible, the first ones one more.

    Raises:
      InvalidValueError: `max_examples` is no positive number.
    """
    if max_examples is None:
        return [per_level] * n_levels
    if max_examples < 1:
        raise InvalidValueError(f"max_examples must be at least 1 (got {max_examples}).")
    each, left_over = divmod(max_examples, n_levels)
    return [min(per_level, each + (level < left_over)) for level in range(n_levels)]


def example_score(prompt: Prompt, text: str, answer: str, target: str) -> ExampleScore:
    """Score one answer: 1 if it equals the target, 0 if not or if the request failed.

    Args:
      prompt: what was sent.
      text: what came back.
      answer: the answer that was read in `text`; "" if there is none.
      target: the right answer.
    """
    completion = text if isinstance(text, Completion) else Completion(text)
    return ExampleScore(
        id=prompt.id,
        score=float(completion.error is None and answer == target),
        prompt=prompt,
        prediction=answer,
        targets=(target,),
        raw_prediction=completion.raw,
        error=completion.error,
        no_answer=completion.error is None and not answer,
        finish_reason=completion.finish_reason,
        latency_ms=completion.latency_ms,
    )


def question_prompt(instruction: str, solved: Sequence[tuple[str, str]], question: str) -> str:
    """An instruction, solved questions and the question to answer, in the form `Q: …`, `A: …`."""
    shots = [f"Q: {asked}\nA: {answer}" for asked, answer in solved]
    return "\n\n".join([instruction, *shots, f"Q: {question}\nA:"])


def matches_in_first_line(pattern: str, text: str) -> list[str]:
    """All matches in the first line of `text` that has one.

    Models repeat the question before the answer ("2 + 3 = 5") and explain it in further lines, so
    the last match of that line is the likeliest answer.
    """
    for line in text.split("\n"):
        found = re.findall(pattern, line)
        if found:
            return found
    return []
