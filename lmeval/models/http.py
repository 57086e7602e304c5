# SPDX-License-Identifier: Apache-2.0
"""JSON requests to a model's server, over connections that stay open."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lmeval.api.errors import (
    FatalModelError,
    MissingExtraError,
    ModelError,
    TransientModelError,
    UnreachableModelError,
)
from lmeval.models.faults import (
    SHORTEST_SECRET,
    RefusedRequest,
    failure,
    failure_in_body,
    one_line,
    parse_retry_after,
    server_words,
)

if TYPE_CHECKING:
    import urllib3

_LARGEST_REPLY = 256 * 2**20
_CONNECT_S = 30.0
_READ_AT_ONCE = 2**16


class HttpTransport:
    """Sends JSON to a server over connections that stay open; may be used by many threads at once.

    Args:
      base_url: the address that paths are put after, without a "/" at its end.
      key: sent as a bearer token; "" for none. It appears nowhere else.
      key_name: the environment variable that the key came from, for messages.
      timeout_s: seconds that a reply may take, its last byte included.
      connections: how many connections are kept open.
      user_agent: how lmeval names itself.
      wall_clock: seconds since 1970, for dates in replies.
      clock: seconds, only ever growing, for `timeout_s`.

    Raises:
      MissingExtraError: urllib3 is not installed.
      ModelError: `base_url` is no address.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: str = "",
        key_name: str = "",
        timeout_s: float = 600.0,
        connections: int = 32,
        user_agent: str = "lmeval",
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            import urllib3

            from lmeval.models.http_pool import pool_manager
        except ModuleNotFoundError as missing:
            raise MissingExtraError("The model openai", "openai") from missing
        self._base_url = base_url
        self._key = key
        self._key_name = key_name
        self._timeout_s = timeout_s
        self._wall_clock = wall_clock
        self._clock = clock
        self._headers = {"Content-Type": "application/json", "User-Agent": user_agent}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = urllib3.Timeout(connect=min(_CONNECT_S, timeout_s), read=timeout_s)
        self._failures = urllib3.exceptions
        self._once_only = urllib3.Retry(False)
        # A request that was given up still holds its connection: keep room for those.
        self._manager = pool_manager(base_url, 2 * connections)
        self._choose_pool()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send `body` and return the decoded reply.

        Raises:
          TransientModelError: no reply, or one that says or suggests that asking again may help.
          RefusedRequest: the server refuses this request.
          ModelError: the server refuses every request.
        """
        status, headers, data = self._exchange(path, json.dumps(body).encode())
        if not 200 <= status < 300:
            words = server_words(data)
            wait = parse_retry_after(headers, self._wall_clock())
            raise failure(words, status, wait, self._key_name)
        try:
            reply = json.loads(data)
        except (ValueError, RecursionError):
            said = server_words(data).message
            raise TransientModelError(f"the server's reply is no JSON: {said}") from None
        if isinstance(reply, dict) and reply.get("error"):
            raise failure_in_body(reply["error"], self._key_name)
        return reply

    def close(self) -> None:
        """Close every connection."""
        self._manager.clear()
        self._choose_pool()

    def _choose_pool(self) -> None:
        """Look up once what a manager of pools looks up anew for each request."""
        self._pool: urllib3.HTTPConnectionPool | urllib3.PoolManager
        try:
            self._pool = self._manager.connection_from_url(self._base_url)
        except self._failures.LocationParseError as fault:
            raise ModelError(
                f"base_url={self._base_url} is no address: {fault.location}."
            ) from None
        self._address = urlsplit(self._base_url).path
        if self._manager.proxy is not None:  # which is told the whole address
            self._pool, self._address = self._manager, self._base_url

    def _exchange(self, path: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        deadline = self._clock() + self._timeout_s
        try:
            response = self._pool.urlopen(
                "POST",
                self._address + path,
                body=body,
                headers=self._headers,
                redirect=False,  # a redirected POST becomes a GET, and the key would go astray
                retries=self._once_only,
                timeout=self._timeout,
                preload_content=False,
            )
            data = self._without_key(self._read(response, deadline))
            return response.status, response.headers, data
        except self._failures.HTTPError as fault:
            raise self._connection_failure(fault) from None

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        """The body, which some servers send as a trickle that no time limit of a socket notices."""
        parts: list[bytes] = []
        size = 0
        while part := response.read1(_READ_AT_ONCE):
            parts.append(part)
            size += len(part)
            if self._clock() > deadline:
                response.close()
                raise TransientModelError(f"no whole reply within {self._timeout_s:g} s")
            if size > _LARGEST_REPLY:
                response.close()
                raise RefusedRequest(f"the server's reply is larger than {_LARGEST_REPLY} bytes")
            # The end is known already; only a decoder may hold more back.
            if response.closed and "Content-Encoding" not in response.headers:
                break
        response.release_conn()
        return b"".join(parts)

    def _connection_failure(self, fault: Exception) -> ModelError:
        names = self._failures
        if isinstance(fault, names.ReadTimeoutError):
            return TransientModelError(f"no reply within {self._timeout_s:g} s")
        cause = fault.args[-1] if fault.args else None
        if isinstance(cause, ssl.SSLCertVerificationError):
            return FatalModelError(f"{self._base_url}: {one_line(str(cause))}")
        is_timeout = isinstance(fault, names.ConnectTimeoutError)
        if isinstance(fault, names.NameResolutionError):
            reason = "its name is unknown"
        elif is_timeout and not isinstance(fault, names.NewConnectionError):
            reason = "no connection in time"
        else:
            # The text of urllib3's own exceptions holds addresses in memory.
            origin = fault.__cause__ or (cause if isinstance(cause, Exception) else fault)
            reason = getattr(origin, "strerror", None) or type(origin).__name__
        is_unreachable = is_timeout or isinstance(fault, names.NewConnectionError)
        kind = UnreachableModelError if is_unreachable else TransientModelError
        return kind(f"no reply from {self._base_url}: {reason}")

    def _without_key(self, data: bytes) -> bytes:
        """`data`, should the server repeat the key; placeholders such as "EMPTY" may stay."""
        secret = self._key.encode()
        return data.replace(secret, b"***") if len(secret) >= SHORTEST_SECRET else data
