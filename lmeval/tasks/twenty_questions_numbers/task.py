# SPDX-License-Identifier: Apache-2.0
"""A guessing game: many model calls, each depending on the answer before."""

from __future__ import annotations

import random
import statistics

import attrs

from lmeval.api.model import Message, Model, Prompt
from lmeval.api.task import ExampleScore, ScoreData, Task, TaskMetadata
from lmeval.tasks import generated

HIGHEST = 1000
MOST_GUESSES = 20
GAMES = 20
_LONGEST_ANSWER = 100
_NEXT_REPLY = "\nReply:"
_INSTRUCTION = (
    f"I am thinking of a whole number from 1 to {HIGHEST}. Find it with at most {MOST_GUESSES} "
    "guesses. After each guess I say whether my number is higher or lower. "
    "Answer with your guess only, as a number."
)


class TwentyQuestionsNumbers(Task):
    """Finding a number from 1 to 1000 with twenty guesses; halving the range needs ten."""

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`."""
        return TaskMetadata(
            name="twenty_questions_numbers",
            description=(
                "Find a number from 1 to 1000 with at most 20 guesses, each answered by 'higher' "
                "or 'lower'. 'found' is the share of games that end with the number found; "
                "'mean_guesses' counts 20 for a lost game."
            ),
            keywords=("game play", "repeated interaction", "numerical response", "zero-shot"),
            max_input_length_per_query=60 + 10 * MOST_GUESSES,
            max_queries=GAMES * MOST_GUESSES,
        )

    def evaluate_model(
        self, model: Model, max_examples: int | None = None, random_seed: int | None = None
    ) -> ScoreData:
        """See `Task.evaluate_model`.

        Args:
          model: the model under test.
          max_examples: the most games.
          random_seed: what decides the numbers; `generated.DEFAULT_SEED` unless given.

        Returns:
          The share of games won.
        """
        seed = generated.DEFAULT_SEED if random_seed is None else random_seed
        (n_games,) = generated.share_out(max_examples, 1, GAMES)
        secrets = random.Random(seed).sample(range(1, HIGHEST + 1), n_games)
        games = [play(model, secret, f"game-{n:02}") for n, secret in enumerate(secrets, 1)]
        return ScoreData(
            score_dict={
                "found": statistics.fmean(game.score == 1.0 for game in games),
                "mean_guesses": statistics.fmean(
                    len(game.details["guesses"]) if game.score else MOST_GUESSES for game in games
                ),
            },
            preferred_score="found",
            number_of_shots=0,
            low_score=MOST_GUESSES / HIGHEST,
            high_score=1.0,
            per_example=tuple(games),
        )


def play(model: Model, secret: int, game_id: str) -> ExampleScore:
    """Play one game to its end: the number is found, no guess is left, or a request failed."""
    turns: list[_Turn] = []
    while True:
        prompt = _prompt(turns, game_id)
        text = model.generate_text(prompt, _LONGEST_ANSWER, _NEXT_REPLY)
        numbers = generated.matches_in_first_line(r"[0-9]+", text.partition(_NEXT_REPLY)[0])
        guess = (numbers[-1].lstrip("0") or "0") if numbers else ""
        score = generated.example_score(prompt, text, guess, str(secret))
        turns.append(_Turn(guess, _reply(guess, str(secret))))
        if score.error or score.score or len(turns) == MOST_GUESSES:
            return attrs.evolve(
                score, id=game_id, details={"guesses": [turn.guess for turn in turns]}
            )


@attrs.frozen
class _Turn:
    guess: str
    reply: str


def _reply(guess: str, secret: str) -> str:
    if not guess:
        return "Please guess a number."
    # Numbers without leading zeros compare like this; int() refuses thousands of digits.
    return "Higher." if (len(guess), guess) < (len(secret), secret) else "Lower."


def _prompt(turns: list[_Turn], game_id: str) -> Prompt:
    lines = [_INSTRUCTION, ""]
    messages: list[Message] = [("user", _INSTRUCTION)]
    for number, turn in enumerate(turns, 1):
        lines += [f"Guess {number}: {turn.guess}", f"Reply: {turn.reply}"]
        messages += [("assistant", turn.guess or "?"), ("user", turn.reply)]
    lines.append(f"Guess {len(turns) + 1}:")
    return Prompt(
        "\n".join(lines),
        messages,
        task="twenty_questions_numbers",
        id=f"{game_id}, guess {len(turns) + 1}",
    )
