# SPDX-License-Identifier: Apache-2.0
"""Any server with OpenAI's chat or completions interface: vLLM, llama.cpp, Ollama, hosted ones.

The interfaces: https://platform.openai.com/docs/api-reference/chat and `.../completions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

import attrs

from lmeval import __version__
from lmeval.api.errors import ModelError, UnsupportedByModel
from lmeval.api.model import LogProbs
from lmeval.models.chat import (
    DEFAULT_KEY_NAME,
    NO_EFFECT,
    ChatModel,
    is_count,
    key_from_environment,
)
from lmeval.models.http import HttpTransport
from lmeval.models.openai_echo import EchoScorer, ScoredEnd, prompt_field
from lmeval.models.openai_scoring import NoNumberAtBeginning, context_end

_DEFAULT_COMPLETION_TOKENS = 256
_BYTES_OF_A_CHARACTER = 4
_INSTEAD = "choose tasks that generate text, or the letter-answer mode of multiple-choice tasks"


def _without_slash(url: str) -> str:
    return str(url).rstrip("/")


@attrs.define(kw_only=True, eq=False, slots=False)
class OpenAIModel(ChatModel):
    """A model behind an OpenAI-compatible server; the fields are its settings.

    With `api="chat"` each prompt is one request, and no text can be scored. With
    `api="completions"` prompts are sent as plain text, and given text is scored where the server
    can: `check_scoring` finds out before the first call.

    Raises:
      ModelError: a setting has a value that it cannot have, or the key is missing.
      MissingExtraError: urllib3 is not installed.
    """

    family: ClassVar[str] = "openai"

    base_url: str = attrs.field(default="https://api.openai.com/v1", converter=_without_slash)
    """The server's address up to and with /v1."""
    api: str = "chat"
    """Which interface to use: "chat" or "completions"."""
    prompts_per_request: int = attrs.field(default=1, metadata=NO_EFFECT)
    """How many prompts to send in one request with api=completions; not every server takes more."""
    logprobs: int = 1
    """How many alternatives to ask for when text is scored; some servers want 0, others at least
    1."""
    start_text: str = ""
    """Put before every text to be scored, for a server that adds no start token by itself."""
    _transport: HttpTransport = attrs.field(init=False, repr=False)
    _scorer: EchoScorer = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the settings; the first request makes the first connection."""
        if self.api == "completions":
            # Without a limit, servers of this interface write 16 tokens, or do not end.
            if self.max_tokens is None:
                self.max_tokens = _DEFAULT_COMPLETION_TOKENS
            # A base model goes on until it is stopped; a chat model ends its turn by itself.
            self.send_stop = True if self.send_stop is None else self.send_stop
        super().__attrs_post_init__()
        self._check(_CHECKS)
        _check_url(self.base_url)
        if self.api == "chat":
            self._check(_COMPLETIONS_ONLY)
        elif self.system_prompt is not None:
            raise ModelError("The model openai: system_prompt needs api=chat.")
        name = self.api_key_env or DEFAULT_KEY_NAME
        self._transport = HttpTransport(
            self.base_url,
            key=key_from_environment(name, needed=self.api_key_env is not None),
            key_name=name,
            timeout_s=self.timeout_s,
            connections=self.max_concurrency,
            user_agent=f"lmeval/{__version__}",
        )
        fields = {**self.extra_body, "model": self.model, "logprobs": self.logprobs}
        self._scorer = EchoScorer(self._ask, fields, self.prompts_per_request, self.start_text)

    @property
    def preferred_batch_size(self) -> int:
        """How many prompts a call gains from: those that go into one request."""
        return self.prompts_per_request

    def close(self) -> None:
        """See `Model.close`."""
        self._transport.close()

    def check_scoring(self) -> None:
        """Find out whether the server can score given text; only the first call asks it.

        Raises:
          UnsupportedByModel: it cannot; the text says how this shows.
          TransientModelError: the server did not answer; the next call finds out.
          ModelError: the server refuses every request.
        """
        if self.api == "chat":
            raise UnsupportedByModel(
                f"The model {self.name} cannot score given text, as no chat interface can; set "
                f"api=completions if the server has it, or {_INSTEAD}."
            )
        objection = self._scorer.objection()
        if objection:
            raise UnsupportedByModel(
                f"The model {self.name} cannot score given text ({objection}); {_INSTEAD}."
            )

    def score(self, contexts: Sequence[str], targets: Sequence[Sequence[str]]) -> list[LogProbs]:
        """See `BatchModel.score`. A context with a target that is refused gets failed LogProbs.

        Raises:
          UnsupportedByModel: the server cannot score given text.
          TransientModelError: a fault that may pass.
          ModelError: a fault that concerns every request.
        """
        self.check_scoring()
        pairs = [
            (context + target, context_end(context) if target else len(context))
            for context, wanted in zip(contexts, targets, strict=True)
            for target in wanted
        ]
        ends = iter(self._scorer.score_ends(pairs))
        return [_log_probs([next(ends) for _ in wanted]) for wanted in targets]

    def rolling_log_prob(self, texts: Sequence[str]) -> list[float]:
        """See `Model.rolling_log_prob`.

        Raises:
          UnsupportedByModel: the server cannot score given text, or not its first token.
          TransientModelError: a fault that may pass.
          ModelError: the server refuses one of the texts, or every request.
        """
        self.check_scoring()
        ends = self._scorer.score_ends([(text, 0) for text in texts])
        for end in ends:
            if isinstance(end.refusal, NoNumberAtBeginning):
                raise UnsupportedByModel(
                    f"The model {self.name} cannot score whole texts: {end.refusal}."
                )
            if end.refusal is not None:
                raise end.refusal
        return [end.log_prob for end in ends]

    def _send(self, body: dict[str, Any]) -> Any:
        path = "/chat/completions" if self.api == "chat" else "/completions"
        return self._transport.post(path, body)

    def _body(
        self, prompts: Sequence[str], seed: int | None, max_length: int | None
    ) -> dict[str, Any]:
        if self.api == "chat":
            return super()._body(prompts, seed, max_length)
        max_tokens = self.max_tokens
        if max_tokens is not None and max_length is not None:
            # No token is shorter than a byte.
            max_tokens = min(max_tokens, _BYTES_OF_A_CHARACTER * max_length)
        return {"prompt": prompt_field(prompts), **self._decoding(seed, max_tokens)}


def _log_probs(ends: Sequence[ScoredEnd]) -> LogProbs:
    refusal = next((end.refusal for end in ends if end.refusal is not None), None)
    if refusal is not None:
        return LogProbs.failed(len(ends), f"error: {refusal}")
    return LogProbs([end.log_prob for end in ends], token_counts=[end.n_tokens for end in ends])


def _check_url(url: str) -> None:
    try:
        address = urlsplit(url)
    except ValueError:  # its text may repeat a password
        raise ModelError("The model openai: base_url is no address.") from None
    fault = ""
    if address.scheme not in ("http", "https") or not address.hostname:
        fault = "must begin with http:// or https:// and a host"
    elif address.username or address.password or address.query or address.fragment:
        fault = "must hold no user name, password or query; a key belongs into api_key_env"
    elif address.path.endswith("/completions"):
        fault = "must end before /completions and /chat/completions"
    if fault:
        raise ModelError(f"The model openai: base_url {fault}.")


_CHECKS = (
    ("api", ("chat", "completions").__contains__, "chat or completions"),
    ("prompts_per_request", is_count, "a count from 1 on"),
    ("logprobs", lambda value: type(value) is int and value >= 0, "a count from 0 on"),
    ("start_text", lambda value: isinstance(value, str), "a text"),
)
_COMPLETIONS_ONLY = (
    ("prompts_per_request", (1).__eq__, "1 with api=chat"),
    ("logprobs", (1).__eq__, "left out with api=chat"),
    ("start_text", "".__eq__, "left out with api=chat"),
)
