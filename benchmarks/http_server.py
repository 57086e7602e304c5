# SPDX-License-Identifier: Apache-2.0
"""A server for load tests: it waits, then answers; it costs as little CPU as Python allows.

usage: python benchmarks/http_server.py [MILLISECONDS]

Prints one line of JSON, {"port": N}, when it listens on the loopback interface. Every POST is
answered after the given time (50 ms) in the form of its interface, /v1/completions or
/v1/chat/completions, with a text that depends on the request. Requests are not checked.
"""

from __future__ import annotations

import collections
import json
import select
import selectors
import socket
import sys
import time
import zlib

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_FORM = (
    b'{"choices": [{"index": 0, "finish_reason": "stop", %b}], '
    b'"usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
)
_CHAT = b'"message": {"role": "assistant", "content": "answer %08x"}'
_TEXT = b'"text": "answer %08x"'


def reply_to(head: bytes, body: bytes) -> bytes:
    """The reply in the form of the interface that the request names."""
    path = head.split(b" ", 2)[1]
    choice = _CHAT if path.endswith(b"/chat/completions") else _TEXT
    reply = _FORM % (choice % zlib.crc32(body))
    return _HEAD % (len(reply), reply)


def split_request(data: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Head and body of the first request, and what follows it; None if it is not yet whole."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return None
    _, _, after = head.lower().partition(b"\r\ncontent-length:")
    length = int(after.split(b"\r\n", 1)[0])
    return (head, rest[:length], rest[length:]) if len(rest) >= length else None


class LoadServer:
    """One thread for all connections; requests on each are answered one after another.

    asyncio costs nearly twice the CPU, which is the client's loss on one machine, and it waits in
    whole milliseconds.

    Args:
      delay_s: seconds from a request's last byte to its reply.
    """

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._unfinished: dict[socket.socket, bytes] = {}
        # All wait equally long, so that the first to come is the first to be answered.
        self._due: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def serve(self) -> None:
        """Answer until the process is ended."""
        while True:
            wait_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            # A selector's own waiting time is rounded up to a millisecond; select's is not.
            select.select([self._selector], [], [], wait_s)
            for key, _ in self._selector.select(0):
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._selector.register(connection, selectors.EVENT_READ)
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._receive(key.fileobj)
            self._answer()

    def _receive(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(2**18)
        except ConnectionError:
            data = b""
        if not data:
            self._unfinished.pop(connection, None)
            self._selector.unregister(connection)
            connection.close()
            return
        data = self._unfinished.pop(connection, b"") + data
        while request := split_request(data):
            head, body, data = request
            due = time.monotonic() + self._delay_s
            self._due.append((due, connection, reply_to(head, body)))
        if data:
            self._unfinished[connection] = data

    def _answer(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, connection, reply = self._due.popleft()
            try:
                connection.sendall(reply)
            except OSError:  # the client is gone
                continue


def main() -> None:
    """Listen until the process is ended."""
    server = LoadServer(float(sys.argv[1]) / 1000 if len(sys.argv) > 1 else 0.05)
    print(json.dumps({"port": server.port}), flush=True)
    server.serve()


if __name__ == "__main__":
    main()
