# SPDX-License-Identifier: Apache-2.0
"""ROUGE-L: how much of a reference's words a text holds in the same order.

Lin (2004), "ROUGE: A Package for Automatic Evaluation of Summaries", section 3, at sentence level.
On ASCII text the numbers are those of the package rouge-score without its stemmer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from lmeval.api.metrics import metric, targets_of

# The 128 ASCII characters as what they become in the table of `str.translate`.
_ASCII_PIECES = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}

# Scripts that set no blanks between words. Without a dictionary a whole sentence would be one word
# there, so each character counts as one, as is usual for Chinese.
_UNSPACED_SCRIPTS = (
    range(0x0E00, 0x0F00),  # Thai, Lao
    range(0x1000, 0x10A0),  # Burmese
    range(0x1780, 0x1800),  # Khmer
    range(0x3005, 0x3008),  # ideographic repetition mark, closing mark and zero
    range(0x3041, 0x3100),  # Hiragana, Katakana
    range(0x31F0, 0x3200),  # Katakana extensions
    range(0x3400, 0x4DC0),  # ideographs, extension A
    range(0x4E00, 0xA000),  # ideographs
    range(0xF900, 0xFB00),  # compatibility ideographs
    range(0xFF66, 0xFFA0),  # halfwidth Katakana
    range(0x20000, 0x40000),  # ideographs, further extensions
)
_ZERO_WIDTH_SPACE = "\u200b"


@attrs.frozen
class RougeScore:
    """What a ROUGE measure says of one prediction and one target.

    Attributes:
      precision: the share of the prediction's words that are matched, in [0, 1].
      recall: the share of the target's words that are matched, in [0, 1].
      f1: the harmonic mean of the two, in [0, 1].
    """

    precision: float
    recall: float
    f1: float


@metric("rouge_l")
def rouge_l(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """ROUGE-L F1 over Unicode words against the best target; 0 where either side has no word."""
    words = word_tokens(prediction)
    return max(
        (_score_words(words, word_tokens(target)).f1 for target in targets_of(targets)), default=0.0
    )


def rouge_l_score(prediction: str, target: str) -> RougeScore:
    """ROUGE-L of a prediction against one target; all zero where either side has no word."""
    return _score_words(word_tokens(prediction), word_tokens(target))


def word_tokens(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, combining marks and digits of any script.

    Everything else separates words, the underscore included; so ASCII text splits into the runs of
    [a-z0-9]. In scripts without blanks between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese)
    each character is a word. Composed and decomposed forms of a letter stay different.
    """
    if text.isascii():
        return text.translate(_ASCII_PIECES).split()
    lowered = text.lower()
    # Only the distinct characters are looked up, so that long texts cost one pass in C.
    pieces = {ord(character): _piece(character) for character in set(lowered)}
    return lowered.translate(pieces).split()


def _piece(character: str) -> str:
    category = unicodedata.category(character)
    if category[0] in "LMN":
        code = ord(character)
        unspaced = any(code in script for script in _UNSPACED_SCRIPTS)
        return f" {character} " if unspaced else character
    # Joiners and soft hyphens stand inside words without being part of them.
    if category == "Cf" and character != _ZERO_WIDTH_SPACE:
        return ""
    return " "


def _score_words(prediction: list[str], target: list[str]) -> RougeScore:
    common = longest_common_subsequence(prediction, target)
    if common == 0:
        return RougeScore(0.0, 0.0, 0.0)
    precision = common / len(prediction)
    recall = common / len(target)
    return RougeScore(precision, recall, 2 * precision * recall / (precision + recall))


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence of two token sequences.

    Bit-parallel: one row of the classic table is one Python integer. Hyyrö (2004), "Bit-parallel
    LCS-length computation revisited". Takes time in the order of the product of the two lengths
    over 30, and memory in the order of distinct shared tokens times the shorter length over 8.
    """
    shared = set(first).intersection(second)
    # Tokens of one side only are in no common subsequence.
    shorter, longer = sorted(
        ([token for token in side if token in shared] for side in (first, second)), key=len
    )
    occurrences = dict.fromkeys(shared, 0)
    bit = 1
    for token in shorter:
        occurrences[token] |= bit
        bit <<= 1
    all_ones = row = bit - 1
    for token in longer:
        matches = row & occurrences[token]
        row = ((row + matches) | (row - matches)) & all_ones
    # Each zero in the last row is one step of the subsequence.
    return len(shorter) - row.bit_count()
