# SPDX-License-Identifier: Apache-2.0
"""Flags that several verbs define alike."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from absl import flags


def define_integer(
    values: flags.FlagValues,
    name: str,
    default: int | None,
    help_text: str,
    lower_bound: int | None = None,
    upper_bound: int = sys.maxsize,
) -> None:
    """Define a flag for a whole number within bounds, by default those of counts."""
    flags.DEFINE_integer(name, default, help_text, lower_bound, upper_bound, values)


class JoinedList(flags.Flag):  # type: ignore[misc]
    """A comma list that may be given several times; the lists are joined."""

    value: list[str]

    def parse(self, argument: str | list[str]) -> None:
        """Take one more occurrence of the flag."""
        more = self._parse(argument)
        self.value = [*self.value, *more] if self.present else more
        self.present += 1


def define_joined_list(
    values: flags.FlagValues, name: str, default: Sequence[str], help_text: str
) -> None:
    """Define a flag for a comma list that may be given several times."""
    serializer = flags.ListSerializer(",")
    flag = JoinedList(flags.ListParser(), serializer, name, list(default), help_text)
    flags.DEFINE_flag(flag, values)


def refuse_repetition(values: flags.FlagValues) -> None:
    """Make each flag that holds one value an error when it is given twice."""
    for name in values:
        if not may_repeat(values[name]):
            values[name].allow_overwrite = False


def may_repeat(flag: flags.Flag) -> bool:
    """Whether a flag may be given several times."""
    return isinstance(flag, (flags.MultiFlag, JoinedList))
