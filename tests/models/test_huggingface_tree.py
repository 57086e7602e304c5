# SPDX-License-Identifier: Apache-2.0
"""The prefix tree: every distinct prefix once, and each node sees just what it follows on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.models.hf.tree import build_tree, shared_length

_TOKENS = st.integers(0, 2)
_SEQUENCES = st.lists(st.lists(_TOKENS, min_size=1, max_size=9), min_size=1, max_size=8)
_PATH = st.lists(_TOKENS, max_size=9)


def prefixes(sequences):
    return {tuple(s[: n + 1]) for s in sequences for n in range(len(s))}


def run(tree, path, limit):
    """What a model would see: for each node the tokens visible to it, in order of columns."""
    columns = list(path)
    seen = []
    answers = {}
    for row in tree.rows(limit):
        columns = [columns[at] for at in row.kept] + row.tokens
        visible = [tuple(columns[at] for at in np.flatnonzero(mask)) for mask in row.sees]
        assert [len(text) - 1 for text in visible] == row.depths
        seen += visible
        for node, places in row.wanted:
            for place in places:
                answers[place] = visible[node]
            assert tuple(columns[at] for at in row.path_to(node)) == visible[node]
    return seen, answers


@given(sequences=_SEQUENCES, path=_PATH, limit=st.integers(1, 12), data=st.data())
def test_rows_compute_each_prefix_once_and_answer_every_place(sequences, path, limit, data):
    wanted_from = [data.draw(st.integers(0, len(s) - 1)) for s in sequences]
    tree = build_tree(sequences, wanted_from, path)
    seen, answers = run(tree, path[: tree.cached], limit)
    cached = {tuple(path[: n + 1]) for n in range(tree.cached)}
    assert len(seen) == len(set(seen))
    assert set(seen) | (cached & prefixes(sequences)) == prefixes(sequences)
    assert not set(seen) & cached
    assert tree.size == len(prefixes(sequences))
    assert answers == {
        (index, depth): tuple(sequence[: depth + 1])
        for index, sequence in enumerate(sequences)
        for depth in range(wanted_from[index], len(sequence))
    }


@given(sequences=_SEQUENCES, limit=st.integers(1, 12))
def test_rows_are_full_but_for_the_last(sequences, limit):
    tree = build_tree(sequences, [0] * len(sequences))
    sizes = [len(row.tokens) for row in tree.rows(limit)]
    assert all(size == limit for size in sizes[:-1])
    assert sum(sizes) == tree.size


def test_what_is_asked_for_is_not_taken_from_the_cache():
    tree = build_tree([[5, 6, 7, 8]], [2], path=[5, 6, 7, 8])
    assert (tree.cached, tree.tokens, tree.size) == (2, [7, 8], 4)


def test_branches_of_the_cached_path_come_first():
    tree = build_tree([[1, 9], [5, 6, 7]], [1, 2], path=[5, 6])
    assert tree.tokens == [7, 1, 9]
    assert tree.parents == [-1, -1, 1]


def test_no_sequence_gives_no_row():
    tree = build_tree([], [], path=[1, 2])
    assert list(tree.rows(4)) == []
    assert tree.size == 0


def test_a_chain_of_thousands_needs_no_recursion():
    sequences = [list(range(n)) for n in range(1, 3000, 7)]
    tree = build_tree(sequences, [len(s) - 1 for s in sequences])
    assert tree.size == len(sequences[-1])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [([], [1], 0), ([1, 2, 3], [1, 2, 4], 2), ([1, 2], [1, 2, 3], 2), ([1], [2], 0)],
)
def test_shared_length(first, second, expected):
    assert shared_length(first, second) == expected
