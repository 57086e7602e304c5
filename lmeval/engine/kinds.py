# SPDX-License-Identifier: Apache-2.0
"""The three kinds of request: how each is asked, checked, named in a key and kept.

An instance holds the settings of a request, so that requests with equal kinds may share a call.
What is asked for (the payload) is a prompt, a context with its targets, or a whole text.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from lmeval.api.model import Completion, LogProbs, Model, Prompt
from lmeval.engine.answers import checked_completion, checked_log_probs

Answer = Completion | LogProbs
"""What a request gives."""

Packed = tuple[str, str | None, float | None, str | None]
"""An answer as the store keeps it: text, raw text if different, latency, further facts as JSON."""

_COMPLETION_FACTS = ("finish_reason", "prompt_tokens", "completion_tokens", "reasoning")


class Kind(abc.ABC):
    """One kind of request with its settings."""

    name: ClassVar[str]

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings that can change an answer, in a form that equal settings share."""

    @abc.abstractmethod
    def size(self, payload: Any) -> int:
        """Characters that the model has to read."""

    @abc.abstractmethod
    def texts(self, payload: Any) -> Sequence[str]:
        """Everything in the payload that can change an answer, as a sequence of texts."""

    @abc.abstractmethod
    def record(self, payload: Any) -> tuple[str, dict[str, Any]]:
        """The payload for people who look into the store: the text, and what else there is."""

    def identity(self, payload: Any) -> Sequence[str]:
        """What a repetition of the payload has in common with it, for models that know of ids."""
        return self.texts(payload)

    def numbered(self, payload: Any, sample: int) -> Any:
        """The payload as the occurrence number `sample`, where that can change the answer."""
        return payload

    @abc.abstractmethod
    def ask(self, model: Model, payloads: list[Any]) -> Any:
        """Call the model once with all payloads."""

    @abc.abstractmethod
    def checked(self, payload: Any, answer: Any, latency_ms: float) -> Answer:
        """The model's answer as Completion or LogProbs.

        Raises:
          ModelError: it is none; the text says what the model gave instead.
        """

    @abc.abstractmethod
    def failed(self, payload: Any, error: str, latency_ms: float | None) -> Answer:
        """What stands for an answer that there is not."""

    @abc.abstractmethod
    def pack(self, answer: Any) -> Packed:
        """The answer as the store keeps it."""

    @abc.abstractmethod
    def unpack(
        self, text: str, raw: str | None, latency_ms: float | None, facts: str | None
    ) -> Answer:
        """The answer that was packed, marked as cached."""


def _messages_of(prompt: str) -> dict[str, Any]:
    messages = getattr(prompt, "messages", ())
    return {"messages": messages} if messages else {}


def _facts_json(facts: dict[str, Any]) -> str | None:
    # A model may count with numpy's numbers and give reasons that are members of an enum.
    plain = lambda value: value.item() if hasattr(value, "item") else str(value)
    return json.dumps(facts, default=plain) if facts else None


def _packed_log_probs(answer: LogProbs) -> Packed:
    facts: dict[str, Any] = {}
    if answer.truncated_tokens:
        facts["truncated_tokens"] = answer.truncated_tokens
    if answer.token_counts:
        facts["token_counts"] = answer.token_counts
    return json.dumps(answer), None, answer.latency_ms, _facts_json(facts)


def _unpacked_log_probs(text: str, latency_ms: float | None, facts: str | None) -> LogProbs:
    further = json.loads(facts) if facts else {}
    return LogProbs(json.loads(text), latency_ms=latency_ms, cached=True, **further)


@attrs.frozen(cache_hash=True)
class TextRequest(Kind):
    """A request for text. The payload is the prompt."""

    name: ClassVar[str] = "generate_text"
    max_length: int | None
    stops: tuple[str, ...]

    def settings(self) -> dict[str, Any]:
        """See `Kind.settings`. The order of stop strings makes no difference to an answer."""
        return {"max_length": self.max_length, "stop_strings": sorted(set(self.stops))}

    def size(self, payload: str) -> int:
        """See `Kind.size`."""
        return len(payload)

    def texts(self, payload: str) -> Sequence[str]:
        """See `Kind.texts`: the prompt and its messages, without the ids of task and example."""
        messages = getattr(payload, "messages", ())
        if not messages:
            return (payload,)
        return (payload, *(part for message in messages for part in message))

    def record(self, payload: str) -> tuple[str, dict[str, Any]]:
        """See `Kind.record`."""
        return payload, _messages_of(payload)

    def identity(self, payload: str) -> Sequence[str]:
        """See `Kind.identity`."""
        if not isinstance(payload, Prompt):
            return self.texts(payload)
        return (*self.texts(payload), payload.task, payload.id)

    def numbered(self, payload: str, sample: int) -> str:
        """See `Kind.numbered`."""
        return Prompt.numbered(payload, sample) if sample else payload

    def ask(self, model: Model, payloads: list[Any]) -> Any:
        """See `Kind.ask`."""
        stops = self.stops if len(self.stops) > 1 else self.stops[0] if self.stops else None
        return model.generate_text(payloads, self.max_length, stops)

    def checked(self, payload: str, answer: Any, latency_ms: float) -> Completion:
        """See `Kind.checked`."""
        return checked_completion(answer, latency_ms)

    def failed(self, payload: str, error: str, latency_ms: float | None) -> Completion:
        """See `Kind.failed`."""
        return Completion("", error=error, latency_ms=latency_ms)

    def pack(self, answer: Completion) -> Packed:
        """See `Kind.pack`."""
        facts: dict[str, Any] = {}
        for name in _COMPLETION_FACTS:
            value = getattr(answer, name)
            if value is not None and value != "":
                facts[name] = value
        raw = None if answer.raw == answer else answer.raw
        return str(answer), raw, answer.latency_ms, _facts_json(facts)

    def unpack(
        self, text: str, raw: str | None, latency_ms: float | None, facts: str | None
    ) -> Completion:
        """See `Kind.unpack`."""
        further = json.loads(facts) if facts else {}
        return Completion(text, raw=raw, latency_ms=latency_ms, cached=True, **further)


@attrs.frozen(cache_hash=True)
class ScoreRequest(Kind):
    """A request for log-probabilities. The payload is (context, targets)."""

    name: ClassVar[str] = "cond_log_prob"
    absolute: bool

    def settings(self) -> dict[str, Any]:
        """See `Kind.settings`."""
        return {"absolute_normalization": self.absolute}

    def size(self, payload: tuple[str, list[str]]) -> int:
        """See `Kind.size`."""
        return len(payload[0]) + max(map(len, payload[1]), default=0)

    def texts(self, payload: tuple[str, list[str]]) -> Sequence[str]:
        """See `Kind.texts`; the number of targets sets them apart from messages."""
        context, targets = payload
        messages = getattr(context, "messages", ())
        parts = (part for message in messages for part in message)
        return (str(len(targets)), context, *targets, *parts)

    def record(self, payload: tuple[str, list[str]]) -> tuple[str, dict[str, Any]]:
        """See `Kind.record`."""
        context, targets = payload
        return context, {"targets": targets, **_messages_of(context)}

    def ask(self, model: Model, payloads: list[Any]) -> Any:
        """See `Kind.ask`."""
        contexts = [context for context, _ in payloads]
        return model.cond_log_prob(contexts, [targets for _, targets in payloads], self.absolute)

    def checked(self, payload: tuple[str, list[str]], answer: Any, latency_ms: float) -> LogProbs:
        """See `Kind.checked`."""
        return checked_log_probs(answer, len(payload[1]), latency_ms)

    def failed(
        self, payload: tuple[str, list[str]], error: str, latency_ms: float | None
    ) -> LogProbs:
        """See `Kind.failed`."""
        return LogProbs.failed(len(payload[1]), error, latency_ms)

    def pack(self, answer: LogProbs) -> Packed:
        """See `Kind.pack`."""
        return _packed_log_probs(answer)

    def unpack(
        self, text: str, raw: str | None, latency_ms: float | None, facts: str | None
    ) -> LogProbs:
        """See `Kind.unpack`."""
        return _unpacked_log_probs(text, latency_ms, facts)


@attrs.frozen(cache_hash=True)
class WholeTextRequest(Kind):
    """A request for the log-probability of a whole text. The payload is the text."""

    name: ClassVar[str] = "rolling_log_prob"

    def settings(self) -> dict[str, Any]:
        """See `Kind.settings`."""
        return {}

    def size(self, payload: str) -> int:
        """See `Kind.size`."""
        return len(payload)

    def texts(self, payload: str) -> Sequence[str]:
        """See `Kind.texts`."""
        return (payload,)

    def record(self, payload: str) -> tuple[str, dict[str, Any]]:
        """See `Kind.record`."""
        return payload, {}

    def ask(self, model: Model, payloads: list[Any]) -> Any:
        """See `Kind.ask`."""
        return model.rolling_log_prob(payloads)

    def checked(self, payload: str, answer: Any, latency_ms: float) -> LogProbs:
        """See `Kind.checked`."""
        return checked_log_probs((answer,), 1, latency_ms)

    def failed(self, payload: str, error: str, latency_ms: float | None) -> LogProbs:
        """See `Kind.failed`."""
        return LogProbs.failed(1, error, latency_ms)

    def pack(self, answer: LogProbs) -> Packed:
        """See `Kind.pack`."""
        return _packed_log_probs(answer)

    def unpack(
        self, text: str, raw: str | None, latency_ms: float | None, facts: str | None
    ) -> LogProbs:
        """See `Kind.unpack`."""
        return _unpacked_log_probs(text, latency_ms, facts)
