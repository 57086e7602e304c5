# SPDX-License-Identifier: Apache-2.0
"""`bigbench.api.json_task`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from lmeval.api.errors import LmevalError
from lmeval.api.model import Model
from lmeval.api.options import TaskOptions
from lmeval.api.task import ScoreData, Task, TaskMetadata
from lmeval.bigbench import leaf_settings, score_names
from lmeval.bigbench.aggregates import add_aggregate_scores
from lmeval.bigbench.draws import draw_questions
from lmeval.bigbench.example_store import fault_in
from lmeval.bigbench.leaf_scoring import score_answers
from lmeval.bigbench.leaf_task import DEFAULT_SEED, LeafTask
from lmeval.bigbench.loading import LoadSettings, load_task_dict, load_task_folder
from lmeval.bigbench.prompt_style import CHOICE_SEED, PromptStyle, targets_of

MULTIPLE_CHOICE_METRICS = list(score_names.CHOICE_METRICS)
GENERATIVE_METRICS = list(score_names.TEXT_METRICS)
SCORING_METRICS = list(score_names.LIKELIHOOD_METRICS)
SCORE_RANGES = {name: list(limits) for name, limits in score_names.SCORE_RANGES.items()}
_DEFAULT_REGEX = leaf_settings.DEFAULT_OUTPUT_REGEX

Sample = dict[str, Any]


def default_format_fn(
    sample: Sample,
    input_prefix: str,
    output_prefix: str,
    choice_prefix: str,
    random_seed: int,
    append_choices_to_input: bool = True,
) -> Sample:
    """Put an example into words; the example itself is changed, and given back.

    Raises:
      ValueError: it lacks what every example must have, or no choice of it is right.
    """
    style = PromptStyle(
        input_prefix=input_prefix,
        output_prefix=output_prefix,
        choice_prefix=choice_prefix,
        append_choices=append_choices_to_input,
    )
    fault = fault_in(sample)
    if fault is not None:
        raise ValueError(f"{sample}: {fault}")
    sample["input"] = style.question(sample, random_seed)
    sample["target"] = targets_of(sample)
    if "target_scores" in sample:
        sample["choice"] = list(sample["target_scores"])
    return sample


def make_nshot_dataset(
    samples: Sequence[Sample],
    shots: int,
    random_seed: int,
    repeat_samples: int = 1,
    separator: str = " ",
    max_examples: int | None = None,
) -> list[Sample]:
    """Examples that are in words already, with shots in front of each.

    Args:
      samples: what `default_format_fn` gave.
      shots: how many to show with each.
      random_seed: of all draws.
      repeat_samples: how often each is asked, with other shots each time.
      separator: between shots.
      max_examples: how many to ask, drawn at random; None for all, in order.

    Raises:
      ValueError: there are too few examples.
    """
    if shots and len(samples) < shots + 1:
        raise ValueError("Do not have enough examples for the number of shots")
    pool = list(samples) * (repeat_samples if shots else 1)
    twins = {
        number: tuple(other for other, sample in enumerate(pool) if sample == pool[number])
        for number in range(len(pool))
    }
    draws = draw_questions(
        len(pool),
        shots,
        max_examples,
        random_seed,
        twins,
        lambda number: len(pool[number]["target"]),
        keep_order=max_examples is None,
    )
    dataset = []
    for draw in draws:
        sample = copy.deepcopy(pool[draw.query])
        shown = [pool[shot]["input"] + pool[shot]["target"][target] for shot, target in draw.shots]
        sample["input"] = separator.join([*shown, sample["input"]])
        dataset.append(sample)
    return dataset


class JsonTask(Task):
    """A task.json, or the same as a dictionary, with BIG-bench's constructor and methods.

    Attributes:
      subtasks: the tasks it is made of; empty unless it is a container.
    """

    def __init__(
        self,
        task_data: str | Mapping[str, Any],
        shot_list: Sequence[int] | None = None,
        *,
        max_examples: int | None = None,
        random_seed: int = CHOICE_SEED,
    ) -> None:
        """Load a task.

        Args:
          task_data: the path of a task.json, or what one holds, sub-tasks in a list `subtasks`.
          shot_list: the numbers of shots; [0] unless given.
          max_examples: how many examples to ask at most, shared among sub-tasks.
          random_seed: of the order of choices.

        Raises:
          ValueError: the task is not as it must be, or `max_examples` is too small.
        """
        self._task_data = task_data
        self._choice_seed = random_seed
        self._load(TaskOptions(shots=tuple(shot_list or (0,)), max_examples=max_examples or None))

    def _load(self, options: TaskOptions) -> None:
        settings = LoadSettings(options=options, choice_seed=self._choice_seed)
        try:
            if isinstance(self._task_data, str):
                folder = Path(self._task_data).parent
                task = load_task_folder(folder, folder.name, None, settings)
            else:
                task = load_task_dict(_plain(self._task_data), settings)
        except LmevalError as error:
            raise ValueError(str(error)) from error
        self._options = options
        self._task = task

    @property
    def subtasks(self) -> list[LeafTask]:
        """The tasks that this one is made of."""
        return [] if isinstance(self._task, LeafTask) else list(self._task.subtasks)

    @property
    def name(self) -> str:
        """The name that the task gives itself."""
        return self._task.name

    @property
    def num_examples(self) -> int:
        """How many examples are asked for each number of shots."""
        return self._task.n_questions

    @property
    def output_regex(self) -> str | None:
        """What is taken of an answer; None for a container and for all of it."""
        return self._task.settings.output_regex if isinstance(self._task, LeafTask) else None

    @property
    def stop_string(self) -> str | None:
        """Text that ends an answer; None for a container and for none."""
        return self._task.settings.stop_string if isinstance(self._task, LeafTask) else None

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`."""
        return self._task.get_task_details()

    def evaluate_model(
        self,
        model: Model,
        score: bool = True,
        random_seed: int = DEFAULT_SEED,
        max_examples: int | None = None,
        generate_probs_for_targets: bool = True,
    ) -> list[ScoreData]:
        """Evaluate a model.

        Args:
          model: the model under test.
          score: False to only ask; then no scores are given.
          random_seed: of the draws of examples and shots.
          max_examples: as in the constructor, whose value it replaces for good.
          generate_probs_for_targets: False to leave out log_likelihood.

        Raises:
          ValueError: `max_examples` is too small.
        """
        options = attrs.evolve(self._options, seed=random_seed)
        if max_examples:
            options = attrs.evolve(options, max_examples=max_examples)
        if options != self._options:
            self._load(options)
        if score and generate_probs_for_targets:
            return self._task.evaluate_all(model)
        scores = []
        for leaf in self._leaves():
            settings = leaf.settings
            if not generate_probs_for_targets:
                settings = attrs.evolve(settings, likelihood_metrics=())
            for shots in self._options.shots:
                questions = leaf.questions(shots)
                answers = leaf.ask(model, questions, generate_probs_for_targets)
                if score:
                    scores.append(score_answers(settings, shots, questions, answers))
        return add_aggregate_scores(self.name, scores) if score else []

    def _leaves(self) -> list[LeafTask]:
        return [self._task] if isinstance(self._task, LeafTask) else list(self._task.subtasks)


def _plain(data: Any) -> Any:
    """The data with numpy's whole numbers and bytes as what JSON has."""
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if isinstance(data, np.integer):
        return int(data)
    return data.decode() if isinstance(data, bytes) else data
