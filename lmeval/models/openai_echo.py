# SPDX-License-Identifier: Apache-2.0
"""Scoring given text with a completions interface: requests with `echo` and `logprobs`.

Whether a server can do it is found out before anything else is asked. Some refuse; some return the
log-probabilities of what they write only; some return those of neighbouring tokens.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from lmeval.api.errors import ModelError
from lmeval.models.faults import RefusedRequest
from lmeval.models.openai_replies import choices_by_index
from lmeval.models.openai_scoring import spells, target_log_prob, token_scores

_PROBE_CONTEXT = "The sky is"
_PROBE_TARGET = " blue"
_PROBE_TOLERANCE = 0.5  # between the two numbers of servers that compute in half precision
_ABOUT_SCORING = re.compile(r"the server answered .*(echo|log_?prob)", re.IGNORECASE)


@attrs.frozen
class ScoredEnd:
    """The log-probability of the end of a text, or why there is none."""

    log_prob: float = 0.0
    """Natural logarithm."""
    n_tokens: int = 0
    """How many tokens it is the sum over."""
    refusal: RefusedRequest | None = None
    """None where there is a number."""


class EchoScorer:
    """Asks a server for log-probabilities; may be used by many threads at once.

    Args:
      send: sends the body of a completions request and returns the decoded reply.
      fields: what goes into every request: model, logprobs, ...
      prompts_per_request: how many texts a request may hold.
      start_text: put before every text.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], Any],
        fields: Mapping[str, Any],
        prompts_per_request: int = 1,
        start_text: str = "",
    ) -> None:
        self._send = send
        # One token is written for nothing, because some servers take 0 for no limit.
        self._fields = {**fields, "max_tokens": 1, "temperature": 0}
        self._prompts_per_request = prompts_per_request
        self._start_text = start_text
        self._lock = threading.Lock()
        self._objection: str | None = None

    def objection(self) -> str:
        """Why the server cannot score given text; "" where it can.

        The first call finds out with two small requests. The server is asked for a token and its
        log-probability, then for that of the same token as given text; both numbers must agree.

        Raises:
          TransientModelError: the server did not answer; the next call finds out.
          ModelError: the server refuses every request.
        """
        with self._lock:
            if self._objection is None:
                self._objection = self._probe()
        return self._objection

    def score_ends(self, pairs: Sequence[tuple[str, int]]) -> list[ScoredEnd]:
        """Score each text from a character on; nothing is sent for an end of no characters."""
        scored = [ScoredEnd()] * len(pairs)
        places = [place for place, (text, start) in enumerate(pairs) if len(text) > start]
        for first in range(0, len(places), self._prompts_per_request):
            part = places[first : first + self._prompts_per_request]
            results = self._score_together([pairs[place] for place in part])
            for place, result in zip(part, results, strict=True):
                scored[place] = result
        return scored

    def _score_together(self, pairs: list[tuple[str, int]]) -> list[ScoredEnd]:
        texts = [self._start_text + text for text, _ in pairs]
        starts = [len(self._start_text) + start for _, start in pairs]
        try:
            choices = self._ask(texts, echo=True)
        except RefusedRequest as refusal:
            if len(pairs) == 1:
                return [ScoredEnd(refusal=refusal.about(texts[0]))]
            # One of them may be at fault; the others must not suffer for it.
            return [self._score_together([pair])[0] for pair in pairs]
        return [self._scored(*one) for one in zip(choices, texts, starts, strict=True)]

    def _scored(self, choice: Mapping[str, Any] | None, text: str, start: int) -> ScoredEnd:
        try:
            if choice is None:
                raise RefusedRequest("the server's reply leaves this text out")
            tokens = token_scores(choice.get("logprobs"))
            hidden = len(self._start_text)
            if hidden and not spells(tokens, text):
                # The start token is there, but many servers show such tokens as nothing.
                text, start = text[hidden:], start - hidden
            return ScoredEnd(*target_log_prob(tokens, text, start))
        except RefusedRequest as refusal:
            return ScoredEnd(refusal=refusal)

    def _ask(self, texts: Sequence[str], echo: bool) -> list[Mapping[str, Any] | None]:
        """The choices for `texts`; with `echo`, their tokens are those of the texts too."""
        body = {**self._fields, "prompt": prompt_field(texts)}
        if echo:
            body["echo"] = True
        return choices_by_index(self._send(body), len(texts))

    def _probe(self) -> str:
        context = self._start_text + _PROBE_CONTEXT
        try:
            written, own = self._written_token(context)
            text = context + (written or _PROBE_TARGET)
            given = self._scored(self._ask([text], echo=True)[0], text, len(context))
        except ModelError as fault:
            if isinstance(fault, RefusedRequest) or _ABOUT_SCORING.search(str(fault)):
                return str(fault)
            raise
        if given.refusal is not None:
            return str(given.refusal)
        if written and given.n_tokens == 1 and abs(own - given.log_prob) > _PROBE_TOLERANCE:
            return (
                f"it states {own:.2f} for {written!r} when it writes it but {given.log_prob:.2f} "
                "when it is given it, so that its numbers are those of other tokens"
            )
        return ""

    def _written_token(self, context: str) -> tuple[str, float]:
        """A token that the model writes and its log-probability; ("", 0) where unknown."""
        choice = self._ask([context], echo=False)[0] or {}
        try:
            tokens = token_scores(choice.get("logprobs"))
        except RefusedRequest:
            return "", 0.0
        text = choice.get("text")
        if len(tokens) != 1 or tokens[0].log_prob is None or not isinstance(text, str):
            return "", 0.0
        return (text, tokens[0].log_prob) if text.encode() == tokens[0].text else ("", 0.0)


def prompt_field(prompts: Sequence[str]) -> str | list[str]:
    """What a request holds under `prompt`: a single one as a string, which every server takes."""
    return str(prompts[0]) if len(prompts) == 1 else [str(prompt) for prompt in prompts]
