# SPDX-License-Identifier: Apache-2.0
"""A model that is asked one chat request a prompt, in the form that OpenAI made common.

What is asked, and what the reply means, is here; how a request travels is the subclass's.
"""

from __future__ import annotations

import abc
import collections
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from lmeval.api.errors import ModelError, TransientModelError
from lmeval.api.model import (
    BatchModel,
    Completion,
    ModelData,
    chat_messages,
    occurrence_numbers,
)
from lmeval.models.faults import RefusedRequest
from lmeval.models.openai_replies import choices_by_index, completion_of, stopped_before_answer

_MOST_STOPS = 4  # what the OpenAI API takes; the others are cut locally, as all are
_SETTINGS = {"model", "temperature", "seed", "max_tokens"}
_RESERVED = _SETTINGS | {"messages", "prompt", "stop", "n", "stream", "echo", "logprobs"}

DEFAULT_KEY_NAME = "OPENAI_API_KEY"
"""Where the key is looked for unless api_key_env names another variable."""

NO_EFFECT = {"changes_answers": False}
"""Metadata of a setting that no answer depends on: it is left out of the fingerprint."""


class UnfinishedBatch(TransientModelError):
    """A passing fault in the midst of a batch.

    Attributes:
      answers: the answers to the batch's first prompts, which were there before the fault.
    """

    def __init__(self, fault: TransientModelError, answers: Sequence[Completion]) -> None:
        super().__init__(str(fault), fault.retry_after)
        self.answers = tuple(answers)

    def __reduce__(self) -> tuple[Any, ...]:
        fault = TransientModelError(str(self), self.retry_after)
        return type(self), (fault, self.answers)


class _Usage:
    """Sums over requests; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: collections.Counter[str] = collections.Counter()

    def add(self, reply: Any) -> None:
        stated = reply.get("usage") if isinstance(reply, Mapping) else None
        counts = stated if isinstance(stated, Mapping) else {}
        with self._lock:
            self._sums["requests"] += 1
            for name in ("prompt_tokens", "completion_tokens"):
                value = counts.get(name)
                self._sums[name] += value if isinstance(value, int) else 0

    def sums(self) -> dict[str, float]:
        with self._lock:
            return dict(self._sums)


@attrs.define(kw_only=True, eq=False, slots=False)
class ChatModel(BatchModel):
    """A model behind a chat interface; the fields without a default are its needed settings.

    Raises:
      ModelError: a setting has a value that it cannot have; the text names it.
    """

    family: ClassVar[str]
    """The name under which `--model` knows the class."""

    model: str
    """The model's name with its server or provider."""
    temperature: float | None = 0
    """0 for the likeliest text; None for the server's own setting."""
    seed: int | None = None
    """Seed for sampling; the n-th occurrence of a prompt is asked with seed + n. None: not sent."""
    max_tokens: int | None = None
    """The longest answer in tokens, hidden reasoning included; None for the server's own limit."""
    system_prompt: str | None = None
    """A system message before every prompt."""
    extra_body: Mapping[str, Any] = attrs.field(factory=dict)
    """Further fields of the request, such as top_p, as the server knows them."""
    send_stop: bool | None = None
    """Whether stop strings are sent too; None for not in a chat. They are cut here in any case. A
    server that gets them saves tokens, but may stop in the midst of its reasoning, and some models
    refuse such requests."""
    api_key_env: str | None = attrs.field(default=None, metadata=NO_EFFECT)
    """The environment variable that holds the key."""
    max_concurrency: int = attrs.field(default=64, metadata=NO_EFFECT)
    """The most requests at once."""
    timeout_s: float = attrs.field(default=600.0, metadata=NO_EFFECT)
    """Seconds that a reply may take."""
    deterministic: bool = attrs.field(init=False, repr=False, default=False)
    """Whether the likeliest text is asked for, which is the same for the same request."""
    _usage: _Usage = attrs.field(init=False, factory=_Usage, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the settings."""
        self._check(_CHECKS)
        self.send_stop = bool(self.send_stop)
        self.deterministic = self.temperature == 0
        clash = sorted(_RESERVED.intersection(self.extra_body))
        if clash:
            raise ModelError(
                f"The model {self.family}: extra_body must not hold {', '.join(clash)}; "
                "what of it can be chosen has a setting of its own."
            )

    def _check(self, checks: Iterable[tuple[str, Callable[[Any], object], str]]) -> None:
        """Raise ModelError for the first setting whose value does not pass its check."""
        for name, is_right, wanted in checks:
            value = getattr(self, name)
            if not is_right(value):
                raise ModelError(
                    f"The model {self.family}: {name} must be {wanted} (got {value!r})."
                )

    def __reduce__(self) -> tuple[Any, ...]:
        # Connections and locks cannot travel to another process, and the key must not.
        settings = {field.name: getattr(self, field.name) for field in _settings_of(self)}
        return functools.partial(type(self), **settings), ()

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self.model

    @property
    def preferred_batch_size(self) -> int:
        """How many prompts a call gains from: those that go into one request."""
        return 1

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        settings = self._answer_settings()
        model_name = settings.pop("model")
        known = {name: value for name, value in settings.items() if value not in (None, {}, "")}
        return ModelData(self.family, model_name, decoding_params=known)

    def fingerprint(self) -> str | None:
        """See `Model.fingerprint`: every setting that an answer depends on."""
        return f"{self.family} {json.dumps(self._answer_settings(), sort_keys=True)}"

    def usage(self) -> dict[str, float]:
        """See `Model.usage`: requests that were answered, and tokens as the server counts them."""
        return self._usage.sums()

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[Completion]:
        """See `BatchModel.complete`. A prompt that is refused gets a Completion with `error`.

        Raises:
          UnfinishedBatch: a fault that may pass, after some prompts were answered.
          TransientModelError: a fault that may pass, at the first prompt.
          ModelError: a fault that concerns every request.
        """
        sent_stops = stops[:_MOST_STOPS] if self.send_stop else ()
        answers: list[Completion] = []
        for part, seed in self._parts(prompts):
            try:
                answers += self._answers(part, seed, max_length, sent_stops)
            except TransientModelError as fault:
                if not answers:
                    raise
                raise UnfinishedBatch(fault, answers) from fault
        return answers

    @abc.abstractmethod
    def _send(self, body: dict[str, Any]) -> Any:
        """Send a request and return the reply, decoded, its faults raised as `faults` has them."""

    def _ask(self, body: dict[str, Any]) -> Any:
        reply = self._send(body)
        self._usage.add(reply)
        return reply

    def _body(
        self, prompts: Sequence[str], seed: int | None, max_length: int | None
    ) -> dict[str, Any]:
        """The request for `prompts`, stop strings left out."""
        messages = list(chat_messages(prompts[0]))
        if self.system_prompt:
            system = [self.system_prompt]
            if messages[0][0] == "system":  # many chat templates take only one
                system.append(messages.pop(0)[1])
            messages.insert(0, ("system", "\n\n".join(system)))
        return {
            "messages": [{"role": role, "content": content} for role, content in messages],
            **self._decoding(seed, self.max_tokens),
        }

    def _decoding(self, seed: int | None, max_tokens: int | None) -> dict[str, Any]:
        wishes = {"temperature": self.temperature, "seed": seed, "max_tokens": max_tokens}
        sent = {name: value for name, value in wishes.items() if value is not None}
        return {"model": self.model, **sent, **self.extra_body}

    def _parts(self, prompts: Sequence[str]) -> Iterator[tuple[list[str], int | None]]:
        """Neighbouring prompts that can share a request, with their seed."""
        part: list[str] = []
        part_seed: int | None = None
        for prompt, seed in zip(prompts, self._seeds(prompts), strict=True):
            if part and (len(part) == self.preferred_batch_size or seed != part_seed):
                yield part, part_seed
                part = []
            part.append(prompt)
            part_seed = seed
        if part:
            yield part, part_seed

    def _seeds(self, prompts: Sequence[str]) -> list[int | None]:
        """The seed of each prompt: another one for each occurrence, so that samples differ."""
        if self.seed is None or self.deterministic:
            return [self.seed] * len(prompts)
        return [self.seed + number for number in occurrence_numbers(prompts)]

    def _answers(
        self, prompts: list[str], seed: int | None, max_length: int | None, stops: Sequence[str]
    ) -> list[Completion]:
        """The answers to prompts that share a request."""
        body = self._body(prompts, seed, max_length)
        if stops:
            body["stop"] = list(stops)
        started = time.perf_counter()
        try:
            reply = self._ask(body)
            choices = choices_by_index(reply, len(prompts))
        except RefusedRequest as refusal:
            if len(prompts) == 1:
                return [Completion(error=f"error: {refusal.about(prompts[0])}")]
            # One of them may be at fault; the others must not suffer for it.
            return [self._answers([one], seed, max_length, stops)[0] for one in prompts]
        latency_ms = (time.perf_counter() - started) * 1000
        usage = reply.get("usage") if len(prompts) == 1 else None
        answers = []
        for prompt, choice in zip(prompts, choices, strict=True):
            try:
                answer = completion_of(choice, stops, usage, latency_ms)
            except RefusedRequest as refusal:
                answer = Completion(error=f"error: {refusal}")
            if stops and stopped_before_answer(answer):
                (answer,) = self._answers([prompt], seed, max_length, ())
            answers.append(answer)
        return answers

    def _answer_settings(self) -> dict[str, Any]:
        return {
            field.name: getattr(self, field.name)
            for field in _settings_of(self)
            if field.metadata != NO_EFFECT
        }


def key_from_environment(name: str, needed: bool) -> str:
    """The key in the environment variable `name`; "" where there is none.

    Raises:
      ModelError: it is needed and missing, or cannot be sent in a header. The text never holds it.
    """
    key = os.environ.get(name, "").strip()
    if needed and not key:
        raise ModelError(f"api_key_env={name}: there is no such environment variable.")
    if not (key.isascii() and key.isprintable()) and key:
        raise ModelError(f"The key in {name} holds characters that no key can have.")
    return key


def _settings_of(model: ChatModel) -> list[attrs.Attribute[Any]]:
    return [field for field in attrs.fields(type(model)) if field.init]


def is_count(value: Any) -> bool:
    """Whether `value` is a whole number of at least 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9


_CHECKS: tuple[tuple[str, Callable[[Any], object], str], ...] = (
    ("model", lambda value: isinstance(value, str) and value.strip(), "a name"),
    ("temperature", lambda value: value is None or _is_number(value), "a number from 0 on"),
    ("seed", lambda value: value is None or type(value) is int, "a whole number"),
    ("max_tokens", lambda value: value is None or is_count(value), "a count from 1 on"),
    ("system_prompt", lambda value: value is None or isinstance(value, str), "a text"),
    ("extra_body", lambda value: isinstance(value, Mapping), 'a JSON object, {"top_p": 0.9} say'),
    ("send_stop", lambda value: value is None or isinstance(value, bool), "true or false"),
    ("api_key_env", lambda value: value is None or isinstance(value, str), "a variable's name"),
    ("max_concurrency", is_count, "a count from 1 on"),
    ("timeout_s", lambda value: _is_number(value) and value > 0, "a number of seconds"),
)
