# SPDX-License-Identifier: Apache-2.0
"""urllib3's pools of connections, with two savings that take a third off a request's CPU time.

urllib3, like http.client, sends a request's head and its body apart. That is twice the work for the
kernel, and twice a thread gives the interpreter away and has to wait for it again. Through a proxy,
where urllib3 leaves Nagle's algorithm on, the body even waits for the receipt of the head. And
http.client reads the headers of a reply with the parser for e-mail.

Needs urllib3.
"""

from __future__ import annotations

import http.client
import io
import re
import types
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

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
    # runs here with another function under that name; all else in it stays the library's, and a
    # method of another make stays as it is. This saves a sixth of a request's CPU time.
    if not http.client.HTTPResponse.begin.__code__.co_freevars:
        begin = types.FunctionType(
            http.client.HTTPResponse.begin.__code__,
            {**vars(http.client), "parse_headers": parse_headers},
        )
        begin.__kwdefaults__ = http.client.HTTPResponse.begin.__kwdefaults__


class _Connection(HTTPConnection):  # type: ignore[misc]
    """A connection whose `request` collects what there is to send, and sends it at its end."""

    response_class = _Response
    _unsent: list[bytes] | None = None

    def request(self, *args: Any, **kwargs: Any) -> None:
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
