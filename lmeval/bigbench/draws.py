# SPDX-License-Identifier: Apache-2.0
"""Which examples are asked and which are shown as shots, drawn exactly as BIG-bench draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
import numpy as np


@attrs.frozen
class Draw:
    """One question of a run."""

    query: int
    """The example that is asked."""
    shots: tuple[tuple[int, int], ...] = ()
    """The examples that are shown, each with the number of the target that is given with it."""


def draw_questions(
    n_examples: int,
    n_shots: int,
    limit: int | None,
    seed: int,
    twins: Mapping[int, tuple[int, ...]],
    count_targets: Callable[[int], int],
    *,
    keep_order: bool = False,
) -> Iterator[Draw]:
    """Draw the questions of a run, in the order in which they are asked.

    Without shots and without an effective limit that is the order of the examples; in all other
    cases it is random. One generator is used throughout, so that each draw depends on those before.

    Args:
      n_examples: how many distinct examples there are.
      n_shots: how many of the others are shown with each.
      limit: how many to ask at most; None for all.
      seed: of numpy's RandomState.
      twins: for an example that equals others: all of these, itself included. They are never shown
        with it.
      count_targets: gives the number of targets of an example.
      keep_order: with shots, ask all examples in their order; for the shim alone.
    """
    rng = np.random.RandomState(seed)
    n_queries = n_examples if limit is None else min(limit, n_examples)
    if n_shots == 0 and n_queries == n_examples:
        yield from map(Draw, range(n_examples))
        return
    if keep_order:
        queries = list(range(n_examples))
    else:
        queries = rng.choice(n_examples, n_queries, replace=False).tolist()
    if n_shots == 0:
        yield from map(Draw, queries)
        return
    for query in queries:
        hidden = twins.get(query, (query,))
        drawn = rng.choice(n_examples - len(hidden), n_shots, replace=False).tolist()
        shown = [_skip(hidden, place) for place in drawn]
        yield Draw(query, tuple((shot, int(rng.choice(count_targets(shot)))) for shot in shown))


def _skip(hidden: tuple[int, ...], place: int) -> int:
    """The example at `place` when those that are hidden (in ascending order) are left out."""
    for example in hidden:
        if example <= place:
            place += 1
    return place
