# SPDX-License-Identifier: Apache-2.0
"""`datasets.load_metric`, which newer versions of the package have no more, for BLEURT alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lmeval.api.errors import TaskError
from lmeval.bigbench.text_scores import find_bleurt


class _Metric(Protocol):
    def compute(
        self, *, references: Sequence[str], predictions: Sequence[str]
    ) -> dict[str, list[float]]: ...


class _Bleurt:
    def __init__(self) -> None:
        self._score = find_bleurt()

    def compute(
        self, *, references: Sequence[str], predictions: Sequence[str]
    ) -> dict[str, list[float]]:
        pairs = zip(references, predictions, strict=True)
        return {"scores": [float(self._score(given, [wanted], {})) for wanted, given in pairs]}


def load_metric(name: str, *_: str) -> _Metric:
    """The metric BLEURT, as far as the user has registered one.

    Raises:
      TaskError: another metric is asked for.
      MetricError: no metric "bleurt" is registered.
    """
    if name != "bleurt":
        raise TaskError(f"A task asked datasets.load_metric for {name!r}; lmeval has only bleurt.")
    return _Bleurt()
