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


def extract_source(
    answer: str, *, choice: Choice = "first", defines: str = "f", keep_indent: bool = False
) -> str:
    r"""The code in a model's answer.

    A fence is a line of three or more backticks or tildes, with or without a language; marks inside
    a line are none. It ends at a like line without a language, indented by at most three columns
    more than it, or where the text ends. Of several blocks, those marked as Python or unmarked come
    first; of these the first that defines the wanted name at top level; else the first. A block's
    own indentation is taken off.

    Text before all blocks is the code if there is no block, if it alone defines the name, or if it
    begins indented where that is kept: there the prompt had opened the fence that ends it.

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
        text = _choose(text, choice, defines, keep_indent)
    return text if keep_indent else _dedent(text)


def _choose(text: str, choice: Choice, defines: str, keep_indent: bool) -> str:
    lines = text.split("\n")
    before = _before_fences(lines)
    blocks = [block for block in _blocks(lines) if block.text.strip()]
    if not blocks or (keep_indent and _indent(before)):
        return before
    candidates = [block.text for block in blocks if block.tag in _PYTHON_TAGS]
    candidates = candidates or [block.text for block in blocks]
    defining = [candidate for candidate in candidates if _defines(candidate, defines)]
    if not defining and _defines(before, defines):
        return before
    return (defining or candidates)[0 if choice == "first" else -1]


def _before_fences(lines: Sequence[str]) -> str:
    """The text up to the first fence that stands outside the code that the text begins with."""
    depth = len(_indent("\n".join(lines)))
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and (not fence["indent"] or len(fence["indent"]) < depth):
            return "\n".join(lines[:number])
    return "\n".join(lines)


def _blocks(lines: Sequence[str]) -> list[_Block]:
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    start = 0
    for number, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opening is None:
            opening, start = fence, number + 1
        elif _closes(fence, opening):
            blocks.append(_block(opening, [*lines[start:number], ""]))
            opening = None
    if opening is not None:
        blocks.append(_block(opening, lines[start:]))
    return blocks


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    return (
        not fence["info"].strip()
        and fence["mark"].startswith(opening["mark"])
        and len(fence["indent"]) <= len(opening["indent"]) + _CLOSING_INDENT
    )


def _block(opening: re.Match[str], lines: Sequence[str]) -> _Block:
    words = opening["info"].split()
    text = "\n".join(line.removeprefix(opening["indent"]) for line in lines)
    return _Block(text, words[0].lower() if words else "")


def _defines(code: str, name: str) -> bool:
    if name:
        pattern = (
            rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{re.escape(name)}\b|^{re.escape(name)}[ \t]*[:=]"
        )
    else:
        pattern = r"^(?:(?:async[ \t]+)?def|class)[ \t]"
    return re.search(pattern, _dedent(code), re.MULTILINE) is not None


def _indent(code: str) -> str:
    """The indentation of the first line that is not blank."""
    first = next((line for line in code.split("\n") if line.strip()), "")
    return first[: len(first) - len(first.lstrip(" \t"))]


def _dedent(code: str) -> str:
    """Takes the first line's indentation off all lines, if all of them have it.

    Blank lines don't count, and no line is changed otherwise: it may stand in a string.
    """
    lines = code.split("\n")
    indent = _indent(code)
    if not indent or not all(line.startswith(indent) for line in lines if line.strip()):
        return code
    return "\n".join(line.removeprefix(indent) for line in lines)
