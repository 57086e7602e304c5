# SPDX-License-Identifier: Apache-2.0
"""Flags that several verbs define alike."""

from __future__ import annotations

from absl import flags


def define_integer(
    values: flags.FlagValues,
    name: str,
    default: int | None,
    help_text: str,
    lower_bound: int | None = None,
) -> None:
    """Define a flag for a whole number of at least `lower_bound`."""
    flags.DEFINE_integer(name, default, help_text, lower_bound=lower_bound, flag_values=values)
