# SPDX-License-Identifier: Apache-2.0
"""A local HTTP server that answers as a test's script says, and one that plays a small model."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs


@attrs.frozen
class Call:
    """A request as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    number: int
    """How many requests came before."""


@attrs.frozen
class Reply:
    """What goes back over the wire."""

    body: Any = b""
    """Bytes as they are, anything else as JSON."""
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    delay_s: float = 0.0
    trickle: tuple[int, float] | None = None
    """So many blanks before the body, with so many seconds between them."""
    missing_bytes: int = 0
    """How many bytes of the body are held back before the connection is closed."""
    reset: bool = False
    """Whether the connection is reset instead of answered."""


Script = Callable[[Call], Reply]


class ScriptedServer:
    """Answers POST requests with a script, a thread for each connection; keeps what came.

    Attributes:
      calls: the requests in the order in which they came.
      accepted: connections so far.
      ended: connections that the client closed, or that failed.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: list[Call] = []
        self.accepted = 0
        self.ended = threading.Semaphore(0)
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                with outer._lock:
                    outer.accepted += 1
                super().setup()

            def finish(self) -> None:
                outer.ended.release()
                super().finish()

            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that hang up are part of the tests

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The requests' bodies in the order in which they came."""
        return [call.body for call in self.calls]

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self._lock:
            headers = {name.lower(): value for name, value in handler.headers.items()}
            call = Call(handler.path, headers, json.loads(raw), len(self.calls))
            self.calls.append(call)
        reply = self.script(call)
        time.sleep(reply.delay_s)
        if reply.reset:
            # Lingering for no time makes the kernel send RST.
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            handler.connection.close()
            handler.close_connection = True
            return
        self._write(handler, reply)

    @staticmethod
    def _write(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        n_blanks, pause_s = reply.trickle or (0, 0.0)
        headers = {"Content-Length": str(n_blanks + len(body)), **reply.headers}
        head = f"HTTP/1.1 {reply.status} X\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
        if n_blanks:
            handler.wfile.write(head.encode())
            for _ in range(n_blanks):
                handler.wfile.write(b" ")
                time.sleep(pause_s)
            head = ""
        handler.wfile.write(head.encode() + body[: len(body) - reply.missing_bytes])
        if reply.missing_bytes:
            handler.close_connection = True


def chat_reply(content: Any = "ok", finish_reason: str = "stop", **message: Any) -> Reply:
    """A chat reply with one choice; further arguments go into the message."""
    spoken = {"role": "assistant", "content": content, **message}
    choice = {"index": 0, "message": spoken, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return Reply({"choices": [choice], "usage": usage})


def text_reply(*texts: str, finish_reason: str = "stop", **choice: Any) -> Reply:
    """A completions reply with a choice for each text."""
    return Reply(
        {
            "choices": [
                {"index": index, "text": text, "finish_reason": finish_reason, **choice}
                for index, text in enumerate(texts)
            ]
        }
    )


# --- A small model -------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """The small model's tokens: words with the blanks before them, and a start token."""
    return re.findall(r"<s>|\s*[^\s<]+|\s*<|\s+$", text)


def log_prob_after(before: str, token: str) -> float:
    """The small model's log-probability of a token; it depends on all that stands before."""
    digest = hashlib.blake2b(f"{before}|{token}".encode(), digest_size=1).digest()
    return -1 - digest[0] / 16


def answer_to(prompt: str) -> str:
    """What the small model writes after a prompt."""
    return f" answer {hashlib.blake2b(prompt.encode(), digest_size=4).hexdigest()} it is"


def small_model(call: Call) -> Reply:
    """Plays a server with both interfaces, echo and log-probabilities included."""
    if call.path.endswith("/chat/completions"):
        return chat_reply(answer_to(json.dumps(call.body["messages"])).strip())
    prompts = call.body["prompt"]
    prompts = [prompts] if isinstance(prompts, str) else prompts
    choices = [_completion(call.body, prompt, index) for index, prompt in enumerate(prompts)]
    return Reply({"choices": choices})


def _completion(body: Mapping[str, Any], prompt: str, index: int) -> dict[str, Any]:
    written = words_of(answer_to(prompt))[: body.get("max_tokens", 16)]
    text = "".join(written)
    stops = [(text.find(stop), stop) for stop in body.get("stop", []) if stop in text]
    stop_reason = None
    if stops:
        place, stop_reason = min(stops)
        text = text[:place]
    choice = {"index": index, "finish_reason": "stop", "stop_reason": stop_reason}
    echoed = words_of(prompt) if body.get("echo") else []
    if body.get("logprobs") is not None:
        choice["logprobs"] = _parallel_lists(echoed + written, "" if body.get("echo") else prompt)
    return {**choice, "text": "".join(echoed) + text}


def _parallel_lists(tokens: list[str], before: str) -> dict[str, Any]:
    starts = [len("".join(tokens[:place])) for place in range(len(tokens))]
    contexts = [before + "".join(tokens[:place]) for place in range(len(tokens))]
    values: list[float | None] = list(map(log_prob_after, contexts, tokens))
    if values and not before:
        values[0] = None
    return {"tokens": tokens, "token_logprobs": values, "text_offset": starts}
