# SPDX-License-Identifier: Apache-2.0
"""Tables and numbers as people read them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TextIO


def print_table(
    out: TextIO, headers: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1
) -> None:
    """Print aligned columns; the first `left` ones are flush left, the others flush right."""
    table = [list(headers), *[list(map(printable, row)) for row in rows]]
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    for position, row in enumerate(table):
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - display_width(cell))
            cells.append(cell + gap if column < left else gap + cell)
        print("  ".join(cells).rstrip(), file=out)
        if position == 0:
            print("  ".join("-" * width for width in widths), file=out)


def printable(text: str) -> str:
    """`text` with control characters escaped, so that it cannot move the cursor or hide others."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def display_width(text: str) -> int:
    """How many columns of a terminal `text` takes: wide letters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def shown_score(value: float | None) -> str:
    """A score to four digits; "-" where there is none."""
    return "-" if value is None else f"{value:.4f}"


def shown_interval(interval: tuple[float, float] | None) -> str:
    """An interval to three digits; "-" where there is none."""
    return "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def shown_count(value: int | None) -> str:
    """A count with thousands separated; "-" where there is none."""
    return "-" if value is None else f"{value:,}"


def counted(count: int, noun: str) -> str:
    """A count with its noun in singular or plural."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def shown_seconds(seconds: float | None) -> str:
    """A time in the unit that suits it; "-" where there is none."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
