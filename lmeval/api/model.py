# SPDX-License-Identifier: Apache-2.0
"""What a model is, what it is asked and what it answers.

`Model` has BIG-bench's three methods with BIG-bench's argument order, so that tasks may pass them
by position. `BatchModel` does the chores (one or many, post-processing, counting answers) for
models that work on batches.
"""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, overload

import attrs

from lmeval.api.errors import InvalidValueError, ModelError, UnsupportedByModel

StopStrings = str | Sequence[str] | None
"""One stop string, several (the earliest in the text counts), or None."""

Message = tuple[str, str]
"""A chat message: role ("system", "user" or "assistant") and content."""


class Prompt(str):
    """A prompt: the plain text, and what some models want to know beyond it.

    It is a string in every respect; models that know nothing of this class see the text.

    Attributes:
      messages: the same prompt as chat messages, shots as turns; () where it is only a text.
      task: the task that asks; "" where unknown.
      id: the example's id within the task; "" where unknown.
    """

    __slots__ = ("id", "messages", "task")
    messages: tuple[Message, ...]
    task: str
    id: str

    def __new__(
        cls, text: str, messages: Sequence[Message] = (), task: str = "", id: str = ""
    ) -> Prompt:
        """Make a prompt; the arguments are described under the class."""
        prompt = super().__new__(cls, text)
        prompt.messages = tuple(messages)
        prompt.task = task
        prompt.id = id
        return prompt

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.messages, self.task, self.id


def chat_messages(prompt: str) -> tuple[Message, ...]:
    """The chat form of a prompt: its own messages, or the text as one user message."""
    return getattr(prompt, "messages", ()) or (("user", str(prompt)),)


class Completion(str):
    """A model's answer: the text, and what happened on the way to it.

    It is a string in every respect; a task that knows nothing of this class sees the text.

    Attributes:
      latency_ms: wall time of the request in milliseconds, or None.
      finish_reason: why the model stopped ("stop", "length", ...), or None.
      cached: whether the answer came from the store instead of the model.
      error: None, "timeout", or "error: " and a reason; the text is then "".
      prompt_tokens: tokens read, or None.
      completion_tokens: tokens written, or None.
      raw: the text before post-processing; equal to the text where nothing was cut.
      reasoning: text of a reasoning model that is not part of its answer; "" where there is none.
    """

    __slots__ = (
        "cached",
        "completion_tokens",
        "error",
        "finish_reason",
        "latency_ms",
        "prompt_tokens",
        "raw",
        "reasoning",
    )
    latency_ms: float | None
    finish_reason: str | None
    cached: bool
    error: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    raw: str
    reasoning: str

    def __new__(
        cls,
        text: str = "",
        *,
        latency_ms: float | None = None,
        finish_reason: str | None = None,
        cached: bool = False,
        error: str | None = None,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        raw: str | None = None,
        reasoning: str = "",
    ) -> Completion:
        """Make a completion; the arguments are described under the class."""
        completion = super().__new__(cls, text)
        completion.latency_ms = latency_ms
        completion.finish_reason = finish_reason
        completion.cached = cached
        completion.error = error
        completion.prompt_tokens = prompt_tokens
        completion.completion_tokens = completion_tokens
        completion.raw = text if raw is None else raw
        completion.reasoning = reasoning
        return completion

    def facts(self) -> dict[str, Any]:
        """Everything but the text, as keyword arguments for a new Completion."""
        return {name: getattr(self, name) for name in Completion.__slots__}

    def with_text(self, text: str) -> Completion:
        """The same answer with another text (after cutting, say); `raw` is kept."""
        return Completion(text, **self.facts())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_completion, (str(self), self.facts())


def _restore_completion(text: str, facts: dict[str, Any]) -> Completion:
    return Completion(text, **facts)


class LogProbs(list[float]):
    """The log-probabilities of one context's targets, in their order, natural logarithm.

    A plain list in every respect; when the request failed it holds -inf for every target, so that
    no target has any probability, and `error` says why.

    Attributes:
      error: None, "timeout", or "error: " and a reason.
      latency_ms: wall time of the request in milliseconds, or None.
      cached: whether the numbers came from the store instead of the model.
      truncated_tokens: how many tokens of the context were left out at its beginning to fit.
      token_counts: tokens in each target where the model knows them, else ().
    """

    def __init__(
        self,
        values: Sequence[float] = (),
        *,
        error: str | None = None,
        latency_ms: float | None = None,
        cached: bool = False,
        truncated_tokens: int = 0,
        token_counts: Sequence[int] = (),
    ) -> None:
        super().__init__(values)
        self.error = error
        self.latency_ms = latency_ms
        self.cached = cached
        self.truncated_tokens = truncated_tokens
        self.token_counts = tuple(token_counts)

    @classmethod
    def of(cls, values: Sequence[float]) -> LogProbs:
        """`values` itself if it is a LogProbs, else one made of it."""
        return values if isinstance(values, LogProbs) else cls(values)

    @classmethod
    def failed(cls, n_targets: int, error: str, latency_ms: float | None = None) -> LogProbs:
        """What stands for `n_targets` log-probabilities that the model could not give."""
        return cls([-math.inf] * n_targets, error=error, latency_ms=latency_ms)

    def facts(self) -> dict[str, Any]:
        """Everything but the numbers, as keyword arguments for a new LogProbs."""
        return dict(vars(self))


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
    """

    max_concurrency: int = 1
    deterministic: bool = False

    @property
    def name(self) -> str:
        """The name that stands in tables and messages."""
        return self.model_data().model_name

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
    """Raise ModelError when a model gave another number of answers than it was asked for."""
    if expected != received:
        raise ModelError(
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


def stop_strings(stop_string: StopStrings) -> tuple[str, ...]:
    """The stop strings as a tuple.

    Raises:
      InvalidValueError: one of them is empty, which would stop before the first character.
    """
    if stop_string is None:
        return ()
    stops = (stop_string,) if isinstance(stop_string, str) else tuple(stop_string)
    if "" in stops:
        raise InvalidValueError("stop_string must not be empty; leave it out for none.")
    return stops


def compile_output_regex(output_regex: str | None) -> re.Pattern[str] | None:
    """The compiled regex.

    Raises:
      InvalidValueError: it is no regular expression, or has more than one group, so that it does
        not say which part is the answer.
    """
    if output_regex is None:
        return None
    try:
        pattern = re.compile(output_regex)
    except re.error as error:
        raise InvalidValueError(
            f"output_regex {output_regex!r} is no regular expression: {error}."
        ) from error
    if pattern.groups > 1:
        raise InvalidValueError(
            f"output_regex {output_regex!r} has {pattern.groups} groups; "
            "use at most one, and (?:...) for the others."
        )
    return pattern


def first_match(pattern: re.Pattern[str], text: str) -> str:
    """The first match of `pattern` (its group if it has one) in `text`, or ""."""
    found = pattern.search(text)
    if found is None:
        return ""
    return found.group(pattern.groups) or ""


def cut_after_stop(text: str, stops: Sequence[str]) -> str:
    """`text` up to and including the earliest stop string; one at position 0 does not count.

    Both are BIG-bench's rules.
    """
    found = [(position, len(stop)) for stop in stops if (position := text.find(stop)) > 0]
    if not found:
        return text
    position, length = min(found)
    return text[: position + length]


def postprocess_output(
    text: str,
    max_length: int | None = None,
    stop_string: StopStrings = None,
    output_regex: str | None = None,
) -> str:
    """Cut a model's text as BIG-bench does.

    In this order: to `max_length` characters; after the first stop string, which is kept (one at
    position 0 is ignored); to the first match of `output_regex` ("" without a match, the group if
    it has one).

    Args:
      text: what the model wrote.
      max_length: characters to keep, or None.
      stop_string: one stop string, several (the earliest counts), or None.
      output_regex: a regular expression with at most one group, or None.

    Returns:
      The text that is left.

    Raises:
      InvalidValueError: the regex has several groups or is none, or a stop string is empty.
    """
    pattern = compile_output_regex(output_regex)
    return str(finish_completion(str(text), max_length, stop_strings(stop_string), pattern))


def finish_completion(
    text: str, max_length: int | None, stops: Sequence[str], pattern: re.Pattern[str] | None
) -> Completion:
    """`text` cut by `postprocess_output`'s rules, as a Completion that remembers the whole."""
    answer = text if isinstance(text, Completion) else Completion(text)
    if max_length is None and not stops and pattern is None:
        return answer
    cut = str(answer)
    if max_length is not None:
        cut = cut[:max_length]
    cut = cut_after_stop(cut, stops)
    if pattern is not None:
        cut = first_match(pattern, cut)
    return answer if len(cut) == len(answer) else answer.with_text(cut)
