# SPDX-License-Identifier: Apache-2.0
"""urllib3's pools of connections, with three savings: over a third of a request's CPU time.

urllib3, like http.client, sends a request's head and its body apart. That is twice the work for the
kernel, and twice a thread gives the interpreter away and has to wait for it again. Through a proxy,
where urllib3 leaves Nagle's algorithm on, the body even waits for the receipt of the head. Then,
http.client reads the headers of a reply with the parser for e-mail. And urllib3 puts objects around
the reply that can do much more than to give the whole of it.

Needs urllib3.
"""

from __future__ import annotations

import http.client
import io
import re
import time
import types
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from lmeval.api.errors import TransientModelError
from lmeval.models.faults import RefusedRequest

_LARGEST_REPLY = 256 * 2**20
_READ_AT_ONCE = 2**16
_LARGEST_PIECE = 2**16
"""Bytes up to which it costs less to copy a request than to send it in two."""

_PLAIN_HEADERS = re.compile(rb"(?:[A-Za-z0-9_-]+:[\t\x20-\x7e]*\r\n){,99}\r\n")


def parse_headers(stream: io.BufferedReader, **limits: Any) -> http.client.HTTPMessage:
    """What `http.client.parse_headers` gives, sooner where all headers are plain and have come.

    Args:
      stream: stands behind the status line; stands behind the empty line afterwards.
      **limits: what later versions of Python pass on.
    """
    plain = _PLAIN_HEADERS.match(stream.peek())
    message: http.client.HTTPMessage
    if plain is None or limits:
        message = http.client.parse_headers(stream, **limits)
        return message
    message = http.client.HTTPMessage()
    for line in stream.read(plain.end()).decode("ascii").split("\r\n")[:-2]:
        name, _, value = line.partition(":")
        message[name] = value.lstrip(" \t")
    return message


class _Response(http.client.HTTPResponse):
    # The library gives no choice of the function that parses headers. So its method that calls it
    # runs here with another function under that name; all else in it stays the library's.
    begin = types.FunctionType(
        http.client.HTTPResponse.begin.__code__,
        {**vars(http.client), "parse_headers": parse_headers},
    )
    begin.__kwdefaults__ = http.client.HTTPResponse.begin.__kwdefaults__


class Reply:
    """A whole reply, with what urllib3's pools want to know of one.

    Attributes:
      status: the HTTP status.
      headers: its headers; names may be looked up in any case.
      data: its body, decoded where it came compressed.
    """

    version_string = "HTTP/1.1"
    length_remaining = 0

    def __init__(self, status: int, headers: http.client.HTTPMessage, data: bytes) -> None:
        self.status = status
        self.headers = headers
        self.data = data


class _Connection(HTTPConnection):  # type: ignore[misc]
    """Sends each request in one piece, and gives replies as a whole."""

    response_class = _Response
    _unsent: list[bytes] | None = None

    def request(self, *args: Any, **kwargs: Any) -> None:
        """Collect what there is to send, and send it at the end."""
        self._started = time.monotonic()
        parts: list[bytes] = []
        self._unsent = parts
        try:
            super().request(*args, **kwargs)
        finally:
            # Sending connects, and to connect through a proxy is a request of its own.
            self._unsent = None
        if sum(map(len, parts)) <= _LARGEST_PIECE:
            parts = [b"".join(parts)]
        for part in parts:
            self.send(part)

    def send(self, data: bytes) -> None:
        if self._unsent is None:
            super().send(data)
        else:
            self._unsent.append(data)

    def getresponse(self) -> Reply:
        """Wait for the whole reply, for no longer than `timeout` after the request began."""
        self.sock.settimeout(self.timeout)
        response: http.client.HTTPResponse = http.client.HTTPConnection.getresponse(self)
        try:
            data = self._body(response)
        finally:
            response.close()
        return Reply(response.status, response.headers, data)

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """The body, which some servers send as a trickle that no time limit of a socket notices."""
        encoding = response.headers.get("Content-Encoding")
        source = response if encoding is None else _decoded(response, encoding)
        parts: list[bytes] = []
        size = 0
        while part := source.read1(_READ_AT_ONCE):
            parts.append(part)
            size += len(part)
            if time.monotonic() > self._started + self.timeout:
                raise TransientModelError(f"no whole reply within {self.timeout:g} s")
            if size > _LARGEST_REPLY:
                raise RefusedRequest(f"the server's reply is larger than {_LARGEST_REPLY} bytes")
            if response.length == 0 and encoding is None:  # a decoder may hold more back
                break
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)


def _decoded(response: http.client.HTTPResponse, encoding: str) -> urllib3.HTTPResponse:
    """A reply that is compressed, though nobody asked for that."""
    return urllib3.HTTPResponse(response, {"Content-Encoding": encoding}, preload_content=False)


class _TLSConnection(_Connection, HTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(urllib3.HTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Connection


class _TLSPool(urllib3.HTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _TLSConnection


def pool_manager(base_url: str, connections: int) -> urllib3.PoolManager:
    """A pool that goes through the proxy that the environment names, if any.

    Args:
      base_url: where requests will go.
      connections: how many connections are kept open.
    """
    address = urlsplit(base_url)
    proxy = urllib.request.getproxies().get(address.scheme)
    if not proxy or urllib.request.proxy_bypass(address.hostname or ""):
        manager = urllib3.PoolManager(num_pools=1, maxsize=connections)
    else:
        user = urlsplit(proxy)
        password = unquote(user.password or "")
        login = f"{unquote(user.username)}:{password}" if user.username else None
        headers = urllib3.make_headers(proxy_basic_auth=login)
        manager = urllib3.ProxyManager(proxy, maxsize=connections, proxy_headers=headers)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
    return manager
