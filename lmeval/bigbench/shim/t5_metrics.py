# SPDX-License-Identifier: Apache-2.0
"""`t5.evaluation.metrics`, as far as BIG-bench's task.py files use it; scores go from 0 to 100."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lmeval.bigbench import text_scores

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def bleu(
    targets: Sequence[str] | Sequence[Sequence[str]], predictions: Sequence[str]
) -> dict[str, float]:
    """Corpus BLEU against one target a prediction, or against lists of such targets."""
    references = [targets] if isinstance(targets[0], str) else targets
    by_row = [list(texts) for texts in zip(*references, strict=True)]
    return {"bleu": text_scores.bleu(by_row, predictions)["bleu"].value}


def rouge(targets: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    """rouge1, rouge2 and rougeLsum: the mean, where t5 takes the median of bootstrap means."""
    scores = text_scores.rouge([[target] for target in targets], predictions)
    return {name: score.value for name, score in scores.items()}


def squad(targets: Sequence[Sequence[str]], predictions: Sequence[str]) -> dict[str, float]:
    """Exact match and F1 over words, each against the best target of a prediction.

    Rajpurkar et al. (2016): lower case, without punctuation and articles.
    """
    matches, f1_scores = [], []
    for texts, prediction in zip(targets, predictions, strict=True):
        answer = _squad_words(prediction)
        wanted = [_squad_words(text) for text in texts]
        matches.append(max(answer == words for words in wanted))
        f1_scores.append(max(_word_f1(words, answer) for words in wanted))
    return {"em": 100 * float(np.mean(matches)), "f1": 100 * float(np.mean(f1_scores))}


def _squad_words(text: str) -> list[str]:
    plain = text.lower().translate(_WITHOUT_PUNCTUATION)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _word_f1(wanted: list[str], given: list[str]) -> float:
    common = (Counter(wanted) & Counter(given)).total()
    return 2 * common / (len(wanted) + len(given)) if common else 0.0


def f1_score_with_invalid(
    targets: Sequence[int] | npt.NDArray[np.int64], predictions: Sequence[int]
) -> dict[str, float]:
    """F1 of the class 1; a prediction that is neither 0 nor 1 counts as the wrong class."""
    wanted = np.asarray(targets)
    given = np.asarray(predictions)
    given = np.where(np.isin(given, (0, 1)), given, 1 - wanted)
    hits = int(np.sum((wanted == 1) & (given == 1)))
    total = int(np.sum(wanted == 1) + np.sum(given == 1))
    return {"f1": 100 * (2 * hits / total if total else 0.0)}
