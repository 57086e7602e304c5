# SPDX-License-Identifier: Apache-2.0
"""What each way of failing means when a model is asked over a network.

A failure is one of three: it may pass (`TransientModelError`), it concerns the one request
(`RefusedRequest`), or it concerns every request (`ModelError`).
"""

from __future__ import annotations

import email.utils
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import attrs

from lmeval.api.errors import FatalModelError, ModelError, TransientModelError

SHORTEST_SECRET = 8
"""Shorter keys, such as "EMPTY", are placeholders: hiding them would only garble messages."""

_LONGEST_WORDS = 300

_PASSING_STATUSES = frozenset({408, 409, 425, 429})
_LASTING_SERVER_STATUSES = frozenset({501, 505})
_STATUS_OF_CODE = (
    ("rate_limit", 429),
    ("overloaded", 503),
    ("context_length", 400),
    ("invalid_request", 400),
    ("authentication", 401),
    ("permission", 403),
    ("not_found", 404),
)
_OUT_OF_MONEY = ("insufficient_quota", "billing")
_TOO_LONG = re.compile(
    r"context[ _-]?(length|size|window)|max_model_len|maximum (input|sequence|prompt) length"
    r"|(prompt|input|request)s?( \w+){0,2} too (long|large)|too many (input )?tokens"
    r"|tokens? \+ `?max_new_tokens",
    re.IGNORECASE,
)


class RefusedRequest(ModelError):
    """The server refuses this one request, however often it is asked; others may go well."""

    def about(self, prompt: str) -> RefusedRequest:
        """The same for a certain prompt: its length stands in the text where it matters."""
        return self


class RequestTooLong(RefusedRequest):
    """The text is longer than the model can read."""

    def about(self, prompt: str) -> RefusedRequest:
        """See `RefusedRequest.about`."""
        return RequestTooLong(f"the prompt of {len(prompt)} characters does not fit: {self}")


@attrs.frozen
class ServerWords:
    """What a server says about a failure."""

    message: str
    """One line, without control characters, at most about 300 characters."""
    code: str = ""
    """The error's type and code, in lower case; "" where it has none."""
    status: int | None = None
    """The HTTP status that the error states itself, or None."""


def server_words(body: bytes | Any) -> ServerWords:
    """The error in a reply, in any of the forms that servers use.

    Args:
      body: the reply's body as it came, or what was decoded from it.
    """
    reply = body
    if isinstance(body, bytes):
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            reply = re.sub(r"<[^>]*>", " ", body.decode("utf-8", "replace"))
    error = reply.get("error", reply) if isinstance(reply, Mapping) else reply
    if not isinstance(error, Mapping):
        return ServerWords(_words(error))
    code = error.get("code")
    return ServerWords(
        _words(error.get("message") or error.get("detail") or error),
        " ".join(str(part) for part in (error.get("type"), code) if part).lower(),
        code if isinstance(code, int) and 400 <= code < 600 else None,
    )


def _words(said: Any) -> str:
    return one_line(said if isinstance(said, str) else json.dumps(said)) or "an empty reply"


def one_line(text: str) -> str:
    """`text` fit for an error message: printable, on one line, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 2**16]).split())
    return line if len(line) <= _LONGEST_WORDS else line[:_LONGEST_WORDS] + " ..."


def failure(
    words: ServerWords, status: int, retry_after: float | None = None, key_name: str = ""
) -> ModelError:
    """The exception for a server's refusal.

    Args:
      words: what the server said.
      status: the HTTP status.
      retry_after: seconds that the server asks to wait.
      key_name: the environment variable with the key, for the advice.
    """
    says = f"the server answered {status}: {words.message}"
    if status in (400, 413, 422, 500) and _TOO_LONG.search(f"{words.code} {words.message}"):
        return RequestTooLong(says)
    if status in (401, 403):
        return FatalModelError(f"{says} (check the key in the environment variable {key_name}).")
    if any(sign in words.code for sign in _OUT_OF_MONEY):
        return FatalModelError(says)
    if status in _PASSING_STATUSES or (status >= 500 and status not in _LASTING_SERVER_STATUSES):
        return TransientModelError(says, retry_after)
    if status == 404:
        return FatalModelError(
            f"{says} (check the model's name, and the address, which mostly ends in /v1)."
        )
    if 300 <= status < 400:
        return FatalModelError(f"{says} (it has moved; set base_url to its new address).")
    if status == 402:
        return FatalModelError(says)
    return RefusedRequest(says) if 400 <= status < 500 else ModelError(says)


def failure_in_body(error: Any, key_name: str = "") -> ModelError:
    """The exception for an error that came in the body of a reply with status 200."""
    words = server_words({"error": error})
    named = (status for sign, status in _STATUS_OF_CODE if sign in words.code)
    # What can't be told apart is asked again, as a fault of the server would be.
    return failure(words, words.status or next(named, 500), key_name=key_name)


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds a server asks to wait; None where it asks for nothing readable.

    Args:
      headers: the reply's headers; `Retry-After` is a number of seconds or a date (RFC 9110,
        section 10.2.3), `Retry-After-Ms` is what some hosted services send beside it.
      now: seconds since 1970.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, moment.timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
