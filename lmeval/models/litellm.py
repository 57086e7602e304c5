# SPDX-License-Identifier: Apache-2.0
"""Providers without an OpenAI-compatible interface, through the package litellm."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, ClassVar

import attrs

from lmeval.api.errors import MissingExtraError
from lmeval.models.chat import ChatModel, key_from_environment
from lmeval.models.faults import SHORTEST_SECRET, ServerWords, failure, one_line, parse_retry_after


@attrs.define(kw_only=True, eq=False, slots=False)
class LiteLLMModel(ChatModel):
    """A chat model that litellm knows; `model` is litellm's name for it ("anthropic/…", say).

    litellm finds each provider's key in the provider's own environment variable; `api_key_env`
    names another one. What litellm takes beyond the settings here goes into `extra_body`.

    Raises:
      ModelError: a setting has a value that it cannot have.
      MissingExtraError: litellm is not installed.
    """

    family: ClassVar[str] = "litellm"

    _complete: Callable[..., Any] = attrs.field(init=False, repr=False)
    _further: dict[str, Any] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the settings and import litellm."""
        super().__attrs_post_init__()
        # Without this, importing litellm fetches a table of prices.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        try:
            import litellm
        except ModuleNotFoundError as missing:
            raise MissingExtraError("The model litellm", "litellm") from missing
        litellm.suppress_debug_info = True  # it prints advertisements beside each error
        self._complete = litellm.completion
        # Retries are the engine's.
        self._further = {"timeout": self.timeout_s, "num_retries": 0, "max_retries": 0}
        if self.api_key_env is not None:
            self._further["api_key"] = key_from_environment(self.api_key_env, needed=True)

    def _send(self, body: dict[str, Any]) -> Any:
        try:
            return self._complete(**body, **self._further).model_dump()
        except Exception as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> Exception:
        """What an exception of litellm's means; one without a status is none of a provider's."""
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return error
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        words = ServerWords(one_line(_without_keys(str(error))))
        wait = parse_retry_after(headers, time.time())
        return failure(words, status, wait, self.api_key_env or "of the provider")


def _without_keys(text: str) -> str:
    """`text` without any key in the environment that a provider may have repeated in it."""
    for name, value in os.environ.items():
        if name.endswith("_KEY") and len(value) >= SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text
