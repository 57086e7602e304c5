# SPDX-License-Identifier: Apache-2.0
"""A task.json with examples, as a task."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import attrs

from lmeval.api.answers import ANSWER_EXTRACTIONS
from lmeval.api.model import Completion, LogProbs, Model
from lmeval.api.options import TaskOptions
from lmeval.api.task import OnScored, ScoreData, Task, TaskMetadata
from lmeval.bigbench.aggregates import add_aggregate_scores
from lmeval.bigbench.example_store import ExampleFacts, ExampleStore
from lmeval.bigbench.leaf_scoring import Answers, score_answers
from lmeval.bigbench.leaf_settings import DEFAULT_OUTPUT_REGEX, LeafSettings
from lmeval.bigbench.prompt_style import CHOICE_SEED
from lmeval.bigbench.questions import Question, QuestionMaker

DEFAULT_SEED = 42
"""The seed of every draw unless the run has one."""

_WORD = re.compile(r"\w+")


class LeafTask(Task):
    """A task.json with examples, or a sub-task that has them.

    Attributes:
      settings: what the file says, with the run's wishes put in.
      facts: what is known of all its examples.
      options: what the run asks for.
    """

    def __init__(
        self,
        settings: LeafSettings,
        store: ExampleStore,
        facts: ExampleFacts,
        options: TaskOptions,
        *,
        choice_seed: int = CHOICE_SEED,
        rouge_seed: int | None = None,
    ) -> None:
        """Make a task from what was read.

        Args:
          settings: what the file says beside the examples.
          store: the distinct examples.
          facts: what is known of them; they are enough for the number of shots.
          options: the run's wishes; they go before the file's settings.
          choice_seed: the seed of the order in which choices are shown.
          rouge_seed: report rouge as BIG-bench does, as the median of bootstrap means drawn with
            this seed, in place of the mean.
        """
        self.settings = _with_options(settings, options)
        self.facts = facts
        self.options = options
        self._store = store
        self._rouge_seed = rouge_seed
        self._maker = QuestionMaker(
            task=self.name, store=store, facts=facts, style=settings.style, choice_seed=choice_seed
        )

    @property
    def name(self) -> str:
        """The name that the file gives; behind that of its parent and a colon if it has one."""
        return self.settings.identity.name

    @property
    def n_questions(self) -> int:
        """How many examples are asked for each number of shots."""
        n, limit = self.facts.n_distinct, self.options.max_examples
        return n if limit is None else min(limit, n)

    @functools.cached_property
    def longest_question(self) -> int:
        r"""The most words (`\w+`) that a question has without shots; reads all examples."""
        with self._store.opened() as read:
            return max(
                len(_WORD.findall(self._maker.shown(read(number))))
                for number in range(self.facts.n_distinct)
            )

    def get_task_details(self) -> TaskMetadata:
        """See `Task.get_task_details`.

        `max_input_length_per_query` is what BIG-bench states: the words of the longest question
        times the number of shots, so 0 without shots. See `longest_question`.
        """
        identity, shots = self.settings.identity, max(self.options.shots)
        return TaskMetadata(
            name=identity.name,
            description=identity.description,
            keywords=list(identity.keywords),
            max_input_length_per_query=self.longest_question * shots if shots else 0,
            max_queries=self.facts.n_distinct * self.settings.n_requests_per_example,
        )

    def evaluate_model(
        self, model: Model, on_scored: OnScored | None = None
    ) -> ScoreData | list[ScoreData]:
        """See `Task.evaluate_model`; gives one score for each number of shots.

        Args:
          model: the model under test.
          on_scored: is given the answers of each number of shots when they are scored.
        """
        return self.evaluate_all(model, on_scored)

    def evaluate_all(self, model: Model, on_scored: OnScored | None = None) -> list[ScoreData]:
        """The scores for all numbers of shots, always as a list."""
        scores = []
        for shots in self.options.shots:
            questions = self.questions(shots)
            answers = self.ask(model, questions)
            score = score_answers(self.settings, shots, questions, answers, self._rouge_seed)
            scores.append(score)
            if on_scored is not None:
                on_scored(score.per_example, shots, score.subtask_description)
        return add_aggregate_scores(self.name, scores)

    def questions(self, n_shots: int) -> list[Question]:
        """The questions that are asked with so many shots, in order."""
        seed = DEFAULT_SEED if self.options.seed is None else self.options.seed
        return self._maker.make(n_shots, self.options.max_examples, seed)

    def ask(
        self, model: Model, questions: Sequence[Question], with_likelihood: bool = True
    ) -> Answers:
        """Put questions to a model, in one call for each family of metrics.

        Args:
          model: the model under test.
          questions: what to ask.
          with_likelihood: whether to ask how probable targets are, if the task has a metric for it.
        """
        settings = self.settings
        prompts = [question.prompt for question in questions]
        choices: Sequence[Sequence[float]] = ()
        texts: Sequence[str] = ()
        likelihoods: Sequence[Sequence[float]] = ()
        if settings.choice_metrics:
            wanted = [list(question.choices) for question in questions]
            choices = model.cond_log_prob(prompts, wanted, absolute_normalization=True)
        if settings.text_metrics:
            texts = model.generate_text(
                prompts, self.options.max_length, settings.stop_string, settings.output_regex
            )
        if settings.likelihood_metrics and with_likelihood:
            wanted = [list(question.targets) for question in questions]
            likelihoods = model.cond_log_prob(prompts, wanted, absolute_normalization=True)
        completions = [text if isinstance(text, Completion) else Completion(text) for text in texts]
        return Answers(
            choice_log_probs=[LogProbs.of(values) for values in choices],
            completions=completions,
            target_log_probs=[LogProbs.of(values) for values in likelihoods],
            readings=[self._read(completion) for completion in completions],
        )

    def _read(self, completion: Completion) -> str | None:
        name = self.options.answer_extraction
        if name is None or completion.error:
            return str(completion)
        return ANSWER_EXTRACTIONS[name](completion)


def _with_options(settings: LeafSettings, options: TaskOptions) -> LeafSettings:
    if options.output_regex is None and options.stop_string is None:
        if options.answer_extraction is None:
            return settings
        # Extraction reads the whole answer; the file's cuts are made for models without chat.
        return attrs.evolve(settings, output_regex=None, stop_string=None)
    output_regex = options.output_regex or settings.output_regex
    if options.output_regex is None and output_regex == DEFAULT_OUTPUT_REGEX:
        output_regex = None
    return attrs.evolve(
        settings,
        output_regex=output_regex,
        stop_string=options.stop_string or settings.stop_string,
    )
