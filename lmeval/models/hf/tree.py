# SPDX-License-Identifier: Apache-2.0
"""Token sequences as a prefix tree, so that what they share is computed once.

A node is a token together with everything before it. The nodes are numbered depth first, and a
forward pass takes the next so many of them, whatever they belong to. That works because all
ancestors of later nodes that came earlier are ancestors of the next node: a cache that holds the
path to the next node is all that has to be kept between two passes, and every node is computed
exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
Place = tuple[int, int]
"""A sequence (its position in the list) and a depth (the position of a token in it)."""


@attrs.frozen(eq=False)
class Row:
    """The nodes of one forward pass, n of them, behind a cache that holds the path to the first."""

    kept: IntArray
    """Which columns of the cache stay for this pass, in order of depth: the path, p of them."""
    tokens: list[int]
    """Token ids, n of them."""
    depths: list[int]
    """Positions in the text, n of them."""
    sees: BoolArray
    """[n, p + n]: which of the path and of the row each node follows on (and itself)."""
    wanted: list[tuple[int, list[Place]]]
    """Nodes (0 to n - 1) whose next-token distribution is asked for, and for what, in order."""

    def path_to(self, node: int) -> IntArray:
        """The columns, of p + n, that hold the text up to and including a node of the row."""
        return np.flatnonzero(self.sees[node])


@attrs.frozen(eq=False)
class PrefixTree:
    """The distinct prefixes of several token sequences, depth first.

    `tokens`, `depths` and `parents` have an entry for each node that is not in the cache already.
    A parent of -1 stands for the cached path, or for no parent at all.
    """

    cached: int
    """How many tokens of the given path are used."""
    size: int
    """Number of distinct prefixes, those on the cached path included."""
    tokens: list[int]
    depths: list[int]
    parents: list[int]
    wanted: dict[int, list[Place]]
    """Node -> what its next-token distribution is asked for."""

    def rows(self, limit: int) -> Iterator[Row]:
        """Cut the nodes into rows of `limit` (the last may be shorter)."""
        kept = np.arange(self.depths[0] if self.depths else 0)
        for start in range(0, len(self.tokens), limit):
            stop = min(start + limit, len(self.tokens))
            row = self._row(start, stop, kept)
            yield row
            if stop < len(self.tokens):
                parent = self.parents[stop]
                kept = (
                    row.path_to(parent - start) if parent >= start else np.arange(self.depths[stop])
                )

    def _row(self, start: int, stop: int, kept: IntArray) -> Row:
        path = len(kept)
        sees = np.zeros((stop - start, path + stop - start), dtype=np.bool_)
        for at, node in enumerate(range(start, stop)):
            parent = self.parents[node]
            if parent >= start:
                sees[at] = sees[parent - start]
            else:
                sees[at, : self.depths[node]] = True
            sees[at, path + at] = True
        wanted = [
            (node - start, self.wanted[node]) for node in range(start, stop) if node in self.wanted
        ]
        return Row(kept, self.tokens[start:stop], self.depths[start:stop], sees, wanted)


def shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginnings."""
    length = min(len(first), len(second))
    for at in range(length):
        if first[at] != second[at]:
            return at
    return length


def build_tree(
    sequences: Sequence[Sequence[int]],
    wanted_from: Sequence[int],
    path: Sequence[int] = (),
) -> PrefixTree:
    """The prefix tree of n token sequences.

    Args:
      sequences: n sequences; equal ones are one branch.
      wanted_from: for each, the depth of the first token whose next-token distribution is asked
        for; that of every later token is asked for as well.
      path: the tokens whose keys and values a cache holds from earlier.
    """
    path = path[: _usable(sequences, wanted_from, path)]
    in_cache = [shared_length(sequence, path) for sequence in sequences]
    # Branches off the deep end of the cached path come first: the cache is then only ever cut.
    order = sorted(range(len(sequences)), key=lambda i: (-in_cache[i], tuple(sequences[i])))
    tokens: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    wanted: dict[int, list[Place]] = {}
    nodes = [-1] * len(path)
    previous = path
    for index in order:
        sequence = sequences[index]
        del nodes[shared_length(sequence, previous) :]
        for depth in range(len(nodes), len(sequence)):
            parents.append(nodes[-1] if nodes else -1)
            nodes.append(len(tokens))
            tokens.append(sequence[depth])
            depths.append(depth)
        for depth in range(wanted_from[index], len(sequence)):
            wanted.setdefault(nodes[depth], []).append((index, depth))
        previous = sequence
    in_tree = max(in_cache, default=0)
    return PrefixTree(len(path), len(tokens) + in_tree, tokens, depths, parents, wanted)


def _usable(
    sequences: Sequence[Sequence[int]], wanted_from: Sequence[int], path: Sequence[int]
) -> int:
    """How much of `path` can be used: the cache does not hold the distributions asked for."""
    usable = len(path)
    for sequence, first in zip(sequences, wanted_from, strict=True):
        if first < min(len(sequence), usable) and shared_length(sequence, path) > first:
            usable = first
    return usable
