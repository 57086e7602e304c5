# SPDX-License-Identifier: Apache-2.0
"""Counting how often each key was asked for, in a few bytes a key."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_FIRST_SIZE = 8


class Occurrences:
    """How often each key occurred so far; a dictionary of all keys would take 120 bytes a key.

    Of a key only its hash of 64 bits is kept, in a table with linear probing that is never more
    than four fifths full: 10 to 20 bytes a key. Only keys that came more than once have an entry in
    a dictionary. Two keys with one hash would be counted as one: with a million keys the chance
    that any two of them do is 1 in 37 million.
    """

    def __init__(self) -> None:
        self._slots = array("q", bytes(8 * _FIRST_SIZE))  # 0 where nothing is
        self._room = _FIRST_SIZE * 4 // 5
        self._repeated: dict[int, int] = {}

    def count(self, keys: Sequence[bytes]) -> list[int]:
        """Count `keys`; gives how often each occurred before, earlier ones of `keys` included."""
        numbers = []
        slots, room = self._slots, self._room
        mask = len(slots) - 1
        for mark in map(hash, keys):
            mark = mark or 1
            slot = mark & mask
            while (found := slots[slot]) and found != mark:
                slot = (slot + 1) & mask
            if found:
                number = self._repeated.get(mark, 1)
                self._repeated[mark] = number + 1
                numbers.append(number)
                continue
            numbers.append(0)
            slots[slot] = mark
            room -= 1
            if not room:
                room = len(slots) * 4 // 5  # as much again in a table of twice the size
                slots = _doubled(slots)
                mask = len(slots) - 1
        self._slots, self._room = slots, room
        return numbers


def _doubled(old: array[int]) -> array[int]:
    slots = array("q", bytes(2 * old.itemsize * len(old)))
    mask = len(slots) - 1
    for mark in filter(None, old):
        slot = mark & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = mark
    return slots
