#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ROUGE-L side by side with rouge-score and rapidfuzz: CPU time and largest difference.

Needs the packages rouge-score and rapidfuzz. Run it with: python benchmarks/rouge_l.py
"""

import argparse
import random
import time
from collections.abc import Callable

from rapidfuzz.distance import LCSseq
from rouge_score.rouge_scorer import RougeScorer

from lmeval.api.rouge import rouge_l_score, word_tokens


def make_text(rng: random.Random, length: int) -> str:
    """A text of `length` words, frequent and rare ones in about the proportions of real text."""
    ranks = (min(int(rng.paretovariate(0.7)), 5_000) for _ in range(length))
    return " ".join(f"word{rank}" for rank in ranks)


def measure(
    score: Callable[[str, str], float], pairs: list[tuple[str, str]]
) -> tuple[float, list[float]]:
    """The CPU seconds that scoring all pairs takes, and the scores."""
    start = time.process_time()
    scores = [score(prediction, target) for prediction, target in pairs]
    return time.process_time() - start, scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=1_000, help="words in each text")
    arguments = parser.parse_args()
    rng = random.Random(0)
    pairs = [
        (make_text(rng, arguments.tokens), make_text(rng, arguments.tokens))
        for _ in range(arguments.pairs)
    ]
    scorer = RougeScorer(["rougeL"])

    def with_rapidfuzz(prediction: str, target: str) -> float:
        answer, reference = word_tokens(prediction), word_tokens(target)
        common = LCSseq.similarity(answer, reference)
        return 2 * common / (len(answer) + len(reference))

    contenders: dict[str, Callable[[str, str], float]] = {
        "lmeval": lambda prediction, target: rouge_l_score(prediction, target).f1,
        "rapidfuzz LCSseq (C++)": with_rapidfuzz,
        "rouge-score": lambda prediction, target: (
            scorer.score(target, prediction)["rougeL"].fmeasure
        ),
    }
    measured = {name: measure(score, pairs) for name, score in contenders.items()}
    own_seconds, own_scores = measured["lmeval"]
    print(f"ROUGE-L F1 of {len(pairs)} pairs of {arguments.tokens} words, CPU time")
    print(f"{'':24}{'ms a pair':>12}{'of lmeval':>12}{'difference':>12}")
    for name, (seconds, scores) in measured.items():
        difference = max(abs(a - b) for a, b in zip(scores, own_scores, strict=True))
        milliseconds = 1_000 * seconds / len(pairs)
        print(f"{name:24}{milliseconds:12.3f}{seconds / own_seconds:11.1f}x{difference:12.1e}")


if __name__ == "__main__":
    main()
