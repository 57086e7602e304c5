# SPDX-License-Identifier: Apache-2.0
"""urllib3's pools of connections, made to send a request in one piece. Needs urllib3.

urllib3, like http.client, sends a request's head and its body apart. That is twice the work for the
kernel, and twice a thread gives the interpreter away and has to wait for it again. Through a proxy,
where urllib3 leaves Nagle's algorithm on, the body even waits for the receipt of the head.
"""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

_LARGEST_PIECE = 2**16
"""Bytes up to which it costs less to copy a request than to send it in two."""


class _Connection(HTTPConnection):  # type: ignore[misc]
    """A connection whose `request` collects what there is to send, and sends it at its end."""

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
