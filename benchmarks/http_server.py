# SPDX-License-Identifier: Apache-2.0
"""A server for load tests: it waits, then answers; it costs as little CPU as Python allows.

usage: python benchmarks/http_server.py [MILLISECONDS]

Prints one line of JSON, {"port": N}, when it listens on the loopback interface. Every POST is
answered after the given time (50 ms) in the form of its interface, /v1/completions or
/v1/chat/completions, with a text that depends on the prompt. Requests are not checked.
"""

from __future__ import annotations

import asyncio
import json
import sys
import zlib
from typing import Any

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def reply_to(path: bytes, body: dict[str, Any]) -> dict[str, Any]:
    """The reply in the form of the interface."""
    asked = body.get("prompt", body.get("messages"))
    text = f"answer {zlib.crc32(json.dumps(asked).encode()):08x}"
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if path.endswith(b"/chat/completions"):
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    return {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


class LoadServer(asyncio.Protocol):
    """One connection; requests on it are answered one after another."""

    delay_s = 0.05

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer each whole request after a while."""
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            _, _, after = head.lower().partition(b"\r\ncontent-length:")
            length = int(after.split(b"\r\n", 1)[0])
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            path = head.split(b" ", 2)[1]
            reply = json.dumps(reply_to(path, json.loads(rest[:length]))).encode()
            asyncio.get_running_loop().call_later(
                self.delay_s, self._transport.write, _HEAD % len(reply) + reply
            )


async def serve() -> None:
    """Listen until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(LoadServer, "127.0.0.1", 0, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        LoadServer.delay_s = float(sys.argv[1]) / 1000
    asyncio.run(serve())
