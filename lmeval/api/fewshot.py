# SPDX-License-Identifier: Apache-2.0
"""Which solved examples are shown with an example.

The draw depends on the seed, the example's id and what is in the pool: not on the pool's order, on
the batch size, on how many rows are evaluated or on how many shots are asked for (fewer shots are
the first of more).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

from lmeval.api.errors import TaskError
from lmeval.api.example import Example


def ordered_pool(examples: Iterable[Example]) -> list[Example]:
    """The examples in the order from which shots are drawn, whatever order they came in."""
    return sorted(examples, key=lambda example: example.id)


def draw_shots(pool: Sequence[Example], example: Example, count: int, seed: int) -> list[Example]:
    """Draw `count` shots for `example` from `pool`, never the example itself.

    An example is itself by its id and by its prompt, so that a copy of it under another id is
    never shown with its answer; nor are two shots with the same prompt.

    Args:
      pool: the examples to choose from, as `ordered_pool` gives them.
      example: the example under test.
      count: how many to draw, without replacement.
      seed: any integer.

    Returns:
      The shots, in the order in which they are to be shown.

    Raises:
      TaskError: the pool has too few examples.
    """
    if count == 0:
        return []
    shots: list[Example] = []
    shown = {example.prompt}
    for position in _shuffled_positions(len(pool), random.Random(f"{seed}:{example.id}")):
        shot = pool[position]
        if shot.id != example.id and shot.prompt not in shown:
            shots.append(shot)
            shown.add(shot.prompt)
            if len(shots) == count:
                return shots
    raise TaskError(
        f"{count} shots asked for, but only {len(shots)} examples can be shown with the example "
        f"{example.id!r}; ask for fewer or add a shots.jsonl."
    )


def _shuffled_positions(size: int, rng: random.Random) -> Iterator[int]:
    """A random order of range(size), one at a time: Fisher-Yates over the swapped places alone.

    A pool of a million rows costs no more than the few positions that are taken.
    """
    swapped: dict[int, int] = {}
    for place in range(size):
        chosen = rng.randrange(place, size)
        yield swapped.get(chosen, chosen)
        swapped[chosen] = swapped.pop(place, place)
