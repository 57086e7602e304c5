# SPDX-License-Identifier: Apache-2.0
"""How often a key occurred before: what a dictionary would say, in a few bytes a key."""

import hashlib
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.engine.occurrences import Occurrences


class Clashing(bytes):
    """A key whose hash is its first byte far from the lowest bits, so that keys share a slot."""

    def __hash__(self):
        return self[0] << 40

    __eq__ = bytes.__eq__


def counted(batches):
    """The numbers that a dictionary gives."""
    seen = {}
    numbers = []
    for batch in batches:
        numbers.append([])
        for key in map(bytes, batch):
            numbers[-1].append(seen.get(key, 0))
            seen[key] = numbers[-1][-1] + 1
    return numbers


def digest(number):
    return hashlib.blake2b(b"%d" % number, digest_size=16).digest()


few_keys = st.lists(st.lists(st.integers(0, 40).map(digest), max_size=30), max_size=8)
clashing_keys = st.lists(
    st.lists(st.integers(0, 255).map(lambda byte: Clashing([byte])), max_size=60), max_size=6
)


@given(few_keys | clashing_keys)
def test_the_numbers_are_those_of_a_dictionary(batches):
    occurrences = Occurrences()
    assert [occurrences.count(batch) for batch in batches] == counted(batches)


def test_a_key_whose_hash_is_zero_is_counted():
    zero = Clashing([0])
    assert Occurrences().count([zero, zero, zero]) == [0, 1, 2]


@pytest.mark.parametrize("n", [5, 6, 7, 1000, 50_000])
def test_the_table_grows_and_forgets_nothing(n):
    keys = [digest(number) for number in range(n)]
    occurrences = Occurrences()
    assert occurrences.count(keys) == [0] * n
    assert occurrences.count(keys) == [1] * n


def test_a_key_takes_at_most_21_bytes_until_it_occurs_again():
    occurrences = Occurrences()
    for n in range(1000, 20_001, 1000):
        occurrences.count([digest(number) for number in range(n - 1000, n)])
        assert sum(map(sys.getsizeof, vars(occurrences).values())) <= 21 * n + 500
