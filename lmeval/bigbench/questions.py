# SPDX-License-Identifier: Apache-2.0
"""The questions of a run: which examples are asked, with which shots, in which words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from lmeval.api.model import Prompt
from lmeval.bigbench.draws import Draw, draw_questions
from lmeval.bigbench.example_store import ExampleFacts, ExampleStore, RawExample, ReadExample
from lmeval.bigbench.prompt_style import CHOICE_SEED, PromptStyle, targets_of


@attrs.frozen(kw_only=True)
class Question:
    """One question of a run."""

    id: str
    """The place of the example in the task's `examples`, from 0."""
    prompt: Prompt
    targets: tuple[str, ...]
    choices: tuple[str, ...]
    """In the file's order, which is not that in which they are shown; () without choices."""
    target_scores: Mapping[str, float]


@attrs.frozen(kw_only=True)
class QuestionMaker:
    """Makes questions out of the examples of one task."""

    task: str
    """The task's name."""
    store: ExampleStore
    facts: ExampleFacts
    style: PromptStyle
    choice_seed: int = CHOICE_SEED
    """The seed of the order in which choices are shown."""

    def make(self, n_shots: int, limit: int | None, seed: int) -> list[Question]:
        """The questions with `n_shots` shots, `limit` at most, in the order of asking."""
        with self.store.opened() as read:
            draws = draw_questions(
                self.facts.n_distinct,
                n_shots,
                limit,
                seed,
                self.facts.twins,
                lambda number: len(targets_of(read(number))),
            )
            return [self._question(draw, read) for draw in draws]

    def shown(self, example: RawExample) -> str:
        """An example's text without its answer."""
        return self.style.question(example, self.choice_seed)

    def _question(self, draw: Draw, read: ReadExample) -> Question:
        example = read(draw.query)
        shots = [(read(shot), target) for shot, target in draw.shots]
        solved = [(self.shown(shot), targets_of(shot)[target]) for shot, target in shots]
        target_scores = example.get("target_scores", {})
        id = str(self.store.positions[draw.query])
        return Question(
            id=id,
            prompt=self._prompt(self.shown(example), solved, id),
            targets=tuple(targets_of(example)),
            choices=tuple(target_scores),
            target_scores=target_scores,
        )

    def _prompt(self, question: str, solved: Sequence[tuple[str, str]], id: str) -> Prompt:
        prefix = self.style.task_prefix
        texts = [*(shown + target for shown, target in solved), question]
        turns: list[tuple[str, str]] = []
        for shown, target in solved:
            turns += [("user", shown if turns else prefix + shown), ("assistant", target)]
        if turns:
            turns.append(("user", question))
        return Prompt(prefix + self.style.separator.join(texts), turns, self.task, id)
