# SPDX-License-Identifier: Apache-2.0
"""What goes to a model and what comes back: prompts, completions, log-probabilities.

Each is an ordinary string or list that also carries facts, so that tasks and models which know
nothing of these classes work with them all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

Message = tuple[str, str]
"""A chat message: role ("system", "user" or "assistant") and content."""


class Prompt(str):
    """A prompt: the plain text, and what some models want to know beyond it.

    It is a string in every respect; models that know nothing of this class see the text.

    Attributes:
      messages: the same prompt as chat messages, shots as turns; () where it is only a text.
      task: the task that asks; "" where unknown.
      id: the example's id within the task; "" where unknown.
      sample: which of several equal requests this is, from 0; None where nobody has counted.
    """

    __slots__ = ("id", "messages", "sample", "task")
    messages: tuple[Message, ...]
    task: str
    id: str
    sample: int | None

    def __new__(
        cls,
        text: str,
        messages: Sequence[Message] = (),
        task: str = "",
        id: str = "",
        sample: int | None = None,
    ) -> Prompt:
        """Make a prompt; the arguments are described under the class."""
        prompt = super().__new__(cls, text)
        prompt.messages = tuple(messages)
        prompt.task = task
        prompt.id = id
        prompt.sample = sample
        return prompt

    @classmethod
    def numbered(cls, prompt: str, sample: int) -> Prompt:
        """`prompt` with all that it carries, as the occurrence number `sample` of its request."""
        carried = prompt if isinstance(prompt, Prompt) else cls(prompt)
        return cls(str(prompt), carried.messages, carried.task, carried.id, sample)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return str(self), self.messages, self.task, self.id, self.sample


def chat_messages(prompt: str) -> tuple[Message, ...]:
    """The chat form of a prompt: its own messages, or the text as one user message."""
    return getattr(prompt, "messages", ()) or (("user", str(prompt)),)


def occurrence_numbers(prompts: Sequence[str]) -> list[int]:
    """Which occurrence of its request each prompt of a call is, from 0.

    A prompt that the engine has numbered keeps its number: it counts over several calls. The
    others are counted here. Equal texts of different examples are different requests.
    """
    seen: Counter[Hashable] = Counter()
    numbers = []
    for prompt in prompts:
        number = getattr(prompt, "sample", None)
        if number is None:
            request = (
                str(prompt),
                getattr(prompt, "messages", ()),
                getattr(prompt, "task", ""),
                getattr(prompt, "id", ""),
            )
            number = seen[request]
            seen[request] += 1
        numbers.append(number)
    return numbers


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
