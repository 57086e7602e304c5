# SPDX-License-Identifier: Apache-2.0
"""A task.json without examples: a task made of the sub-tasks in its folder."""

from __future__ import annotations

from collections.abc import Sequence

from lmeval.api.model import Model
from lmeval.api.task import OnScored, ScoreData, Task, TaskMetadata
from lmeval.bigbench.aggregates import add_aggregate_scores
from lmeval.bigbench.leaf_settings import Identity
from lmeval.bigbench.leaf_task import LeafTask


class ContainerTask(Task):
    """A task whose sub-tasks are evaluated one after the other and summed up.

    Attributes:
      subtasks: the tasks it is made of, in BIG-bench's order.
    """

    def __init__(self, identity: Identity, subtasks: Sequence[LeafTask]) -> None:
        """Make a task of at least one sub-task."""
        self._identity = identity
        self.subtasks = tuple(subtasks)

    @property
    def name(self) -> str:
        """The name that the file gives."""
        return self._identity.name

    @property
    def n_questions(self) -> int:
        """How many examples are asked for each number of shots."""
        return sum(task.n_questions for task in self.subtasks)

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`."""
        details = [task.get_task_details() for task in self.subtasks]
        return TaskMetadata(
            name=self.name,
            description=self._identity.description,
            keywords=list(self._identity.keywords),
            max_input_length_per_query=max(d.max_input_length_per_query for d in details),
            max_queries=sum(d.max_queries for d in details),
        )

    def evaluate_model(
        self, model: Model, on_scored: OnScored | None = None
    ) -> ScoreData | list[ScoreData]:
        """See `Task.evaluate_model`.

        Args:
          model: the model under test.
          on_scored: is given the answers of each sub-task when they are scored.

        Returns:
          The scores of the first sub-task for each number of shots, then those of the next, at last
          the AggregateScore for each number of shots.
        """
        return self.evaluate_all(model, on_scored)

    def evaluate_all(self, model: Model, on_scored: OnScored | None = None) -> list[ScoreData]:
        """The same, always as a list."""
        scores = [score for task in self.subtasks for score in task.evaluate_all(model, on_scored)]
        return add_aggregate_scores(self.name, scores)
