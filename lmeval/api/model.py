# SPDX-License-Identifier: Apache-2.0
"""What a model is, what it is asked and what it answers.

`Model` has BIG-bench's three methods with BIG-bench's argument order, so that tasks may pass them
by position. `BatchModel` does the chores (one or many, post-processing, counting answers) for
models that work on batches.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any, overload

import attrs

from lmeval.api.completion import Completion as Completion
from lmeval.api.completion import LogProbs as LogProbs
from lmeval.api.completion import Message as Message
from lmeval.api.completion import Prompt as Prompt
from lmeval.api.completion import chat_messages as chat_messages
from lmeval.api.completion import occurrence_numbers as occurrence_numbers
from lmeval.api.errors import AnswerCountError, InvalidValueError, UnsupportedByModel
from lmeval.api.postprocess import StopStrings as StopStrings
from lmeval.api.postprocess import compile_output_regex as compile_output_regex
from lmeval.api.postprocess import cut_after_stop as cut_after_stop
from lmeval.api.postprocess import finish_completion as finish_completion
from lmeval.api.postprocess import first_match as first_match
from lmeval.api.postprocess import postprocess_output as postprocess_output
from lmeval.api.postprocess import stop_strings as stop_strings


@attrs.frozen
class ModelData:
    """What is known of a model; BIG-bench's fields in BIG-bench's order. 0 means not known."""

    model_family: str
    model_name: str
    total_params: int = 0
    non_embedding_params: int = 0
    flop_matched_non_embedding_params: int = 0
    training_batch_size: int = 0
    training_steps: int = 0
    description: str = ""
    decoding_params: Mapping[str, Any] = attrs.field(factory=dict)
    """Everything that decides how text is made from the model: temperature, seed, prompts, ..."""


class Model(abc.ABC):
    """The base of every model.

    Attributes:
      max_concurrency: how many calls may run at once on this object, from as many threads.
      deterministic: whether the same request always gets the same answer.
      is_costly: whether an answer is worth storing; False for recorded answers, say.
      keeps_order: whether requests must come in the tasks' order; else the longest come first.
    """

    max_concurrency: int = 1
    deterministic: bool = False
    is_costly: bool = True
    keeps_order: bool = False

    @property
    def name(self) -> str:
        """The name that stands in tables and messages."""
        return self.model_data().model_name

    @property
    def preferred_batch_size(self) -> int:
        """How many requests the model likes in one call."""
        return 32

    @abc.abstractmethod
    def model_data(self) -> ModelData:
        """Describe the model, its decoding settings included."""
        raise NotImplementedError

    @overload
    def generate_text(  # type: ignore[overload-overlap]
        self,
        inputs: str,
        max_length: int | None = None,
        stop_string: StopStrings = None,
        output_regex: str | None = None,
    ) -> str: ...
    @overload
    def generate_text(
        self,
        inputs: Sequence[str],
        max_length: int | None = None,
        stop_string: StopStrings = None,
        output_regex: str | None = None,
    ) -> list[str]: ...
    @abc.abstractmethod
    def generate_text(
        self,
        inputs: str | Sequence[str],
        max_length: int | None = None,
        stop_string: StopStrings = None,
        output_regex: str | None = None,
    ) -> str | list[str]:
        """Continue each input.

        Args:
          inputs: one context, or a sequence of n contexts.
          max_length: the longest answer, in characters; None for the model's own limit.
          stop_string: text after which the answer ends.
          output_regex: the answer is the first match of it in the text, "" without a match.

        Returns:
          A string for a string, a list of n strings in the same order for a sequence; best as
          `Completion`. The n-th of several equal inputs in a call is a sample of its own.

        Raises:
          UnsupportedByModel: the model writes no text.
          TransientModelError: asking again later may help.
          FatalModelError: every further request would fail too.
          ModelError: any other fault of the model.
        """
        raise NotImplementedError

    @overload
    def cond_log_prob(  # type: ignore[overload-overlap]
        self, inputs: str, targets: Sequence[str], absolute_normalization: bool | None = False
    ) -> list[float]: ...
    @overload
    def cond_log_prob(
        self,
        inputs: Sequence[str],
        targets: Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> list[list[float]]: ...
    @abc.abstractmethod
    def cond_log_prob(
        self,
        inputs: str | Sequence[str],
        targets: Sequence[str] | Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> list[float] | list[list[float]]:
        """Log-probabilities (natural logarithm) of targets as continuations of inputs.

        Args:
          inputs: one context, or a sequence of n contexts; "" is allowed.
          targets: the targets of the one context, or n sequences of targets.
          absolute_normalization: True for the log-probabilities as they are; False to normalize
            them within each context, so that the exponentials of its targets sum to 1.

        Returns:
          One number a target, in the given order; best as `LogProbs`.

        Raises:
          UnsupportedByModel: the model cannot score given text.
          TransientModelError: asking again later may help.
          ModelError: any other fault of the model.
        """
        raise NotImplementedError

    def generate_text_as_completed(
        self, inputs: Sequence[str], max_length: int | None = None, stop_string: StopStrings = None
    ) -> Generator[Sequence[tuple[int, Completion]]]:
        """What `generate_text` gives, in parts, so that answers can be scored while others come.

        Here it is one part with everything; the engine gives the answers as they arrive. Whoever
        stops before the end closes the generator, so that nothing is asked for nobody.

        Args:
          inputs: a sequence of n contexts.
          max_length: as for `generate_text`.
          stop_string: as for `generate_text`.

        Yields:
          Places in `inputs` from 0, each with its answer; each place is in one part.

        Raises:
          LmevalError: as `generate_text`, when the first part is asked for, or after the parts that
            could be given.
        """
        prompts = list(inputs)
        answers = self.generate_text(prompts, max_length, stop_string)
        check_answer_count(self.name, len(prompts), len(answers))
        if prompts:
            yield [
                (place, answer if isinstance(answer, Completion) else Completion(answer))
                for place, answer in enumerate(answers)
            ]

    def cond_log_prob_as_completed(
        self,
        inputs: Sequence[str],
        targets: Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> Generator[Sequence[tuple[int, LogProbs]]]:
        """What `cond_log_prob` gives, in parts; see `generate_text_as_completed`.

        Args:
          inputs: a sequence of n contexts.
          targets: n sequences of targets.
          absolute_normalization: as for `cond_log_prob`.

        Yields:
          Places in `inputs` from 0, each with its log-probabilities; each place is in one part.

        Raises:
          LmevalError: as `cond_log_prob`, when the first part is asked for, or after the parts that
            could be given.
        """
        contexts = list(inputs)
        rows = self.cond_log_prob(contexts, targets, absolute_normalization)
        check_answer_count(self.name, len(contexts), len(rows))
        if contexts:
            yield [(place, LogProbs.of(row)) for place, row in enumerate(rows)]

    def rolling_log_prob(self, texts: Sequence[str]) -> list[float]:
        """The log-probability of each whole text, for perplexity.

        Args:
          texts: n texts.

        Returns:
          n log-probabilities (natural logarithm, summed over the tokens).

        Raises:
          UnsupportedByModel: the model cannot score whole texts.
        """
        raise UnsupportedByModel(f"The model {self.name} cannot score whole texts.")

    def fingerprint(self) -> str | None:
        """Everything that can change an answer, in one string; None when it cannot be stated.

        Answers of a model without a fingerprint are never stored for later runs.
        """
        return None

    def usage(self) -> dict[str, float]:
        """What the model counted so far (tokens processed, say), for the leaderboard's timing."""
        return {}

    def close(self) -> None:  # noqa: B027 - most models hold nothing
        """Let go of connections, processes and memory; the model is not used afterwards."""


class BatchModel(Model):
    """A model that answers batches; subclasses implement `complete`, and `score` if they can."""

    @abc.abstractmethod
    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> Sequence[str]:
        """Continue each of n prompts, in order; stop strings and lengths are cut afterwards too."""
        raise NotImplementedError

    def score(
        self, contexts: Sequence[str], targets: Sequence[Sequence[str]]
    ) -> Sequence[Sequence[float]]:
        """Unnormalized log-probabilities of each context's targets, in order."""
        raise UnsupportedByModel(
            f"The model {self.name} cannot give log-probabilities; choose tasks that only generate "
            "text, or a model that can score given text."
        )

    def generate_text(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        max_length: int | None = None,
        stop_string: StopStrings = None,
        output_regex: str | None = None,
    ) -> str | list[str]:
        """See `Model.generate_text`."""
        pattern = compile_output_regex(output_regex)
        stops = stop_strings(stop_string)
        prompts = [inputs] if isinstance(inputs, str) else list(inputs)
        texts = self.complete(prompts, max_length, stops) if prompts else []
        check_answer_count(self.name, len(prompts), len(texts))
        answers = [finish_completion(text, max_length, stops, pattern) for text in texts]
        return answers[0] if isinstance(inputs, str) else list(answers)

    def cond_log_prob(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        targets: Sequence[str] | Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> list[float] | list[list[float]]:
        """See `Model.cond_log_prob`."""
        contexts, target_lists = paired_targets(inputs, targets)
        rows = self.score(contexts, target_lists) if contexts else []
        check_answer_count(self.name, len(contexts), len(rows))
        scored: list[list[float]] = []
        for row, wanted in zip(rows, target_lists, strict=True):
            check_answer_count(self.name, len(wanted), len(row))
            scored.append(list_of_log_probs(row, bool(absolute_normalization)))
        return scored[0] if isinstance(inputs, str) else scored


def check_answer_count(model_name: str, expected: int, received: int) -> None:
    """Raise AnswerCountError when a model gave another number of answers than it was asked for."""
    if expected != received:
        raise AnswerCountError(
            f"The model {model_name} gave {received} answers to {expected} requests; "
            "it must give one for each, in order."
        )


def paired_targets(
    inputs: str | Sequence[str], targets: Sequence[str] | Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """The arguments of `cond_log_prob` as two lists of equal length.

    Raises:
      InvalidValueError: the numbers of contexts and of target lists differ, or a target list is a
        bare string.
    """
    if isinstance(inputs, str):
        contexts, target_lists = [inputs], [targets]
    else:
        contexts, target_lists = list(inputs), list(targets)
    if len(contexts) != len(target_lists):
        raise InvalidValueError(
            f"cond_log_prob got {len(contexts)} inputs and {len(target_lists)} lists of targets; "
            "there must be one list for each input."
        )
    for wanted in target_lists:
        if isinstance(wanted, str):
            raise InvalidValueError(f"cond_log_prob got {wanted!r} where a list of targets is due.")
    return contexts, [[str(target) for target in wanted] for wanted in target_lists]


def list_of_log_probs(row: Sequence[float], absolute_normalization: bool) -> LogProbs:
    """`row` as LogProbs: as it is, or normalized so that the probabilities sum to 1."""
    if absolute_normalization:
        return LogProbs.of(row)
    return LogProbs(normalize_log_probs(row), **LogProbs.of(row).facts())


def normalize_log_probs(log_probs: Sequence[float]) -> list[float]:
    """Subtract log(sum(exp(x))), so that the exponentials sum to 1; all -inf stays as it is."""
    highest = max(log_probs, default=-math.inf)
    if highest == -math.inf:
        return list(log_probs)
    total = highest + math.log(sum(math.exp(value - highest) for value in log_probs))
    return [value - total for value in log_probs]
