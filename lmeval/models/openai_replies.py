# SPDX-License-Identifier: Apache-2.0
"""Reading what OpenAI-compatible servers reply: answers and reasoning, from chat or completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmeval.api.errors import TransientModelError
from lmeval.api.model import Completion
from lmeval.models.faults import RefusedRequest, failure_in_body
from lmeval.models.hf.reasoning import Thought, split_reasoning


def choices_by_index(reply: Any, n_prompts: int) -> list[Mapping[str, Any] | None]:
    """The reply's choice for each prompt of a request, whatever their order in the reply.

    Args:
      reply: the decoded reply.
      n_prompts: how many prompts the request held.

    Returns:
      One choice a prompt; None where the reply holds none.

    Raises:
      TransientModelError: there is not a single choice, so that the reply as a whole is broken.
    """
    found = reply.get("choices") if isinstance(reply, Mapping) else None
    choices = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    if not choices:
        raise TransientModelError("the server's reply holds no choices")
    placed: list[Mapping[str, Any] | None] = [None] * n_prompts
    if n_prompts == 1:
        return [choices[0]]
    for choice in choices:
        index = choice.get("index")
        if isinstance(index, int) and 0 <= index < n_prompts and placed[index] is None:
            placed[index] = choice
    return placed


def completion_of(
    choice: Mapping[str, Any] | None,
    stops: Sequence[str] = (),
    usage: Any = None,
    latency_ms: float | None = None,
) -> Completion:
    """The answer in a choice of either API, its reasoning taken out.

    Args:
      choice: an element of the reply's `choices`, or None.
      stops: the stop strings of the request. One that the server names as its reason to stop is put
        back at the end, where the contract of `generate_text` wants it.
      usage: the reply's token counts, if they are those of this answer.
      latency_ms: how long the request took, in milliseconds.

    Raises:
      TransientModelError: the choice is an error that may pass.
      RefusedRequest: there is no text, and no reason that makes it an answer.
      ModelError: the choice is an error that concerns every request.
    """
    if choice is None:
        raise RefusedRequest("the server's reply leaves this prompt out")
    if choice.get("error"):
        raise failure_in_body(choice["error"])
    reason = choice.get("finish_reason")
    text, reasoning = _text_and_reasoning(choice)
    if reason == "content_filter":
        raise RefusedRequest("the server withheld the answer (content_filter)")
    if text is None and not reasoning and reason != "length":
        raise RefusedRequest(f"the server gave no text (finish_reason {reason!r})")
    raw = real_text(text or "")
    stop = choice.get("stop_reason", choice.get("matched_stop"))
    if raw and isinstance(stop, str) and stop in stops and not raw.endswith(stop):
        raw += stop
    stated = Thought(real_text(reasoning), raw.lstrip()) if reasoning else None
    thought = stated or split_reasoning(raw)
    counts = usage if isinstance(usage, Mapping) else {}
    return Completion(
        thought.answer,
        raw=raw,
        reasoning=thought.reasoning,
        finish_reason=reason if isinstance(reason, str) else None,
        latency_ms=latency_ms,
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
    )


def stopped_before_answer(answer: Completion) -> bool:
    """Whether a stop string may have struck before the answer began, in the reasoning say."""
    return not answer and answer.finish_reason == "stop"


def real_text(text: str) -> str:
    """`text` without lone surrogates, which JSON can hold and no file can; U+FFFD for each."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text_and_reasoning(choice: Mapping[str, Any]) -> tuple[str | None, str]:
    """A choice's text (None for none), and the reasoning that the server set apart."""
    message = choice.get("message")
    if not isinstance(message, Mapping):
        return _text_of(choice.get("text")), ""
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    thoughts = [reasoning] if isinstance(reasoning, str) else []
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        thoughts += [_parts_text(part["thinking"]) for part in parts if "thinking" in part]
        content = _parts_text([part for part in parts if "thinking" not in part])
    if content is None:
        content = message.get("refusal")  # the model's answer, under another name
    return _text_of(content), "\n".join(thoughts)


def _parts_text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    found = parts if isinstance(parts, list) else []
    texts = [part.get("text") for part in found if isinstance(part, Mapping)]
    return "".join(text for text in texts if isinstance(text, str))


def _text_of(content: Any) -> str | None:
    if content is not None and not isinstance(content, str):
        found = type(content).__name__
        raise RefusedRequest(f"the server gave a {found} where the answer's text is due")
    return content


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
