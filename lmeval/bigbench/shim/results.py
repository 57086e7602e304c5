# SPDX-License-Identifier: Apache-2.0
"""`bigbench.api.results`."""

from __future__ import annotations

from collections.abc import Sequence

from lmeval.api.task import ScoreData
from lmeval.bigbench import aggregates


def add_aggregate_scores(*, task_name: str, scores: Sequence[ScoreData]) -> list[ScoreData]:
    """See `aggregates.add_aggregate_scores`; the added scores are plain ScoreData."""
    return [
        ScoreData(
            score.score_dict,
            score.preferred_score,
            score.number_of_shots,
            score.low_score,
            score.high_score,
            score.subtask_description,
            score.per_example,
        )
        for score in aggregates.add_aggregate_scores(task_name, scores)
    ]
