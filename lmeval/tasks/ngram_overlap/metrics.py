# SPDX-License-Identifier: Apache-2.0
"""A metric of this task's own, registered by its decorator when the task is loaded."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lmeval.api.metrics import metric


@metric("ngram_overlap")
def ngram_overlap(prediction: str, targets: Sequence[str], extras: Mapping[str, Any]) -> float:
    """BLEU-like overlap of words and word pairs with the best target."""
    return max(overlap(prediction.split(), target.split()) for target in targets)


def overlap(words: Sequence[str], reference: Sequence[str]) -> float:
    """BLEU (Papineni et al. 2002) of one sentence with words and word pairs only, unsmoothed.

    Args:
      words: the sentence under test.
      reference: what it is compared with.

    Returns:
      The geometric mean of both clipped precisions, times exp(1 - reference length / length) where
      the sentence is the shorter one. In [0, 1]; 1 for equal sentences of two words or more.
    """
    precisions = [_clipped_precision(words, reference, length) for length in (1, 2)]
    if not words or 0.0 in precisions:
        return 0.0
    brevity = min(1.0, math.exp(1 - len(reference) / len(words)))
    return brevity * math.sqrt(math.prod(precisions))


def _clipped_precision(words: Sequence[str], reference: Sequence[str], length: int) -> float:
    found, wanted = _ngrams(words, length), _ngrams(reference, length)
    return (found & wanted).total() / max(found.total(), 1)


def _ngrams(words: Sequence[str], length: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(length)), strict=False))
