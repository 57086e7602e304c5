# SPDX-License-Identifier: Apache-2.0
"""Takes the Python source out of a model's answer.

A scan over lines, linear in the text's length; nothing is parsed, since parsers can be crashed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Choice = Literal["first", "last", "none"]

_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_PYTHON_TAGS = ("", "python", "python3", "py", "py3")
_CLOSING_INDENT = 3


@dataclass(frozen=True)
class _Block:
    text: str
    tag: str
    closed: bool


def extract_source(
    answer: str, *, choice: Choice = "first", defines: str = "f", keep_indent: bool = False
) -> str:
    r"""The code in a model's answer.

    A fence is a line of three or more backticks or tildes, with or without a language; marks inside
    a line are none. It ends at a like line without a language, indented by at most three columns
    more than it, or where the text ends. Of several blocks, those marked as Python or unmarked come
    first; of these the first that defines the wanted name at top level; else the first. An answer
    that defines the name outside all blocks, or has no block, is all code. A block's own
    indentation is taken off.

    Args:
      answer: the model's text.
      choice: `first` or `last`, of the blocks that qualify; `none` takes the text as it stands.
      defines: the name that the code must define at top level; "" for any function or class.
      keep_indent: leave the first line's indentation, as a completion of a function's body needs.

    Returns:
      Python source, with `\n` line ends and without a byte order mark.
    """
    text = answer.removeprefix("\ufeff").replace("\r\n", "\n")
    if choice != "none":
        text = _choose(text, choice, defines)
    return text if keep_indent else _dedent(text)


def _choose(text: str, choice: Choice, defines: str) -> str:
    lines = text.split("\n")
    blocks, before = _blocks(lines)
    if not blocks:
        return text
    if len(blocks) == 1 and _only_ends_code(blocks[0], before, defines):
        return before
    candidates = [block.text for block in blocks if block.tag in _PYTHON_TAGS]
    candidates = candidates or [block.text for block in blocks]
    defining = [candidate for candidate in candidates if _defines(candidate, defines)]
    if not defining and _defines(text, defines):
        return text
    return (defining or candidates)[0 if choice == "first" else -1]


def _only_ends_code(block: _Block, before: str, defines: str) -> bool:
    """Whether what looks like an opening fence ends code whose opening stood in the prompt."""
    if block.closed or block.tag:
        return False
    return not block.text.strip() or (
        _defines(before, defines) and not _defines(block.text, defines)
    )


def _blocks(lines: Sequence[str]) -> tuple[list[_Block], str]:
    """The fenced blocks, and the text before the first of them."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    start = first = 0
    for number, line in enumerate(lines):
        # Cheap first: most lines are no fence.
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence is None:
            continue
        if opening is None:
            opening, start = fence, number + 1
            first = first if blocks else number
        elif _closes(fence, opening):
            blocks.append(_block(opening, lines[start:number], closed=True))
            opening = None
    if opening is not None:
        blocks.append(_block(opening, lines[start:], closed=False))
    return blocks, "\n".join(lines[:first])


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    return (
        not fence["info"].strip()
        and fence["mark"].startswith(opening["mark"])
        and len(fence["indent"]) <= len(opening["indent"]) + _CLOSING_INDENT
    )


def _block(opening: re.Match[str], lines: Sequence[str], *, closed: bool) -> _Block:
    indent = opening["indent"]
    words = opening["info"].split()
    text = "\n".join(line.removeprefix(indent) for line in lines)
    return _Block(text + "\n" if lines else "", words[0].lower() if words else "", closed)


def _defines(code: str, name: str) -> bool:
    if name:
        pattern = (
            rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(name)}\b|^{re.escape(name)}[ \t]*[:=]"
        )
    else:
        pattern = r"^(?:(?:async[ \t]+)?def|class)[ \t]"
    return re.search(pattern, _dedent(code), re.MULTILINE) is not None


def _dedent(code: str) -> str:
    """Takes the first line's indentation off all lines, if all of them have it.

    Blank lines don't count, and no line is changed otherwise: it may stand in a string.
    """
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip(" \t"))]
    if not indent or not all(line.startswith(indent) for line in lines if line.strip()):
        return code
    return "\n".join(line.removeprefix(indent) for line in lines)
