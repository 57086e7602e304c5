# SPDX-License-Identifier: Apache-2.0
"""A fact hidden at a chosen depth in a long text of no interest, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs

from lmeval.tasks import generated

_PLACES = (
    *("Harlow", "Marlin", "Tolberg", "Estrada", "Quillon", "Ravenna", "Sundby", "Okanto"),
    *("Pellworm", "Lindholm", "Varga", "Castello", "Brixen", "Nakuru", "Holloway", "Zamora"),
)
_PEOPLE = ("The gardener", "My neighbour", "The baker", "An old friend", "The teacher", "A sailor")
_ACTIONS = (
    *("walked along the river", "repaired a wooden chair", "read a long letter"),
    *("waited for the evening train", "painted the kitchen door", "counted the passing birds"),
    *("cooked a pot of soup", "looked for a lost umbrella", "talked about the weather"),
)
_TIMES = (
    *("early in the morning", "after lunch", "on a quiet Sunday", "while it was raining"),
    *("before the shops opened", "late in the summer", "for the better part of an hour"),
)
_OTHER_FACTS = 3
# Stands in the first line, so that repeating the prompt is never an answer.
_CODE_IN_INSTRUCTION = 12345


@attrs.frozen
class Haystack:
    """How long the text is and where the fact lies in it."""

    words: int
    """The least number of words in the text around the fact."""
    depth: float
    """The share of the text that comes before the fact, from 0 (beginning) to 1 (end)."""


class NeedleRetrieval(generated.GeneratedTask[Haystack]):
    """Finding the one code that is asked for in a long text; one sub-task a length and depth."""

    name = "needle_retrieval"
    description = (
        "One sentence with an access code is hidden in a long text, with codes of other places as "
        "decoys; name the code. Each length and depth is scored by itself: 1 if the answer holds "
        "the right code and no other."
    )
    keywords = ("context length", "reading comprehension", "numerical response", "free response")
    stop_string = "\nQuestion:"

    def __init__(
        self,
        lengths: Sequence[int] = (200, 800, 3200),
        depths: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
        examples_per_level: int = 5,
    ) -> None:
        """Make the task.

        Args:
          lengths: words in the text.
          depths: shares of the text before the fact, from 0 to 1.
          examples_per_level: examples for each pair of a length and a depth.
        """
        self.levels = {
            f"{length} words, depth {depth:.0%}": Haystack(length, depth)
            for length in lengths
            for depth in depths
        }
        self.examples_per_level = examples_per_level
        self.longest_prompt = max(lengths) + 100

    def draw(self, level: Haystack, rng: random.Random) -> generated.GeneratedExample:
        """A text of the level's length with the fact at the level's depth."""
        sentences = _draw_filler(level.words, rng)
        place, *other_places = rng.sample(_PLACES, 1 + _OTHER_FACTS)
        code, *other_codes = rng.sample(range(20_000, 100_000), 1 + _OTHER_FACTS)
        for other_place, other_code in zip(other_places, other_codes, strict=True):
            sentences.insert(rng.randint(0, len(sentences)), _fact(other_place, other_code))
        sentences.insert(round(level.depth * len(sentences)), _fact(place, code))
        prompt = (
            "Read the text and answer the question below it with one access code, "
            f"a number such as {_CODE_IN_INSTRUCTION}.\n\n"
            f"{' '.join(sentences)}\n\n"
            f"Question: What is the access code of the {place} archive? "
            "Answer with the code only.\nAnswer:"
        )
        return generated.GeneratedExample(prompt, str(code))

    def read_answer(self, text: str) -> str:
        """All codes of the first line that has one; several are no answer to the question."""
        codes = generated.matches_in_first_line(r"(?<![0-9])[0-9]{5}(?![0-9])", text)
        return " ".join(dict.fromkeys(codes))


def _fact(place: str, code: int) -> str:
    return f"The access code of the {place} archive is {code}."


def _draw_filler(least_words: int, rng: random.Random) -> list[str]:
    sentences: list[str] = []
    words = 0
    while words < least_words:
        sentence = f"{rng.choice(_PEOPLE)} {rng.choice(_ACTIONS)} {rng.choice(_TIMES)}."
        sentences.append(sentence)
        words += len(sentence.split())
    return sentences
