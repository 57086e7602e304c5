# SPDX-License-Identifier: Apache-2.0
"""How requests travel: in one piece, over connections that stay open, through TLS and proxies."""

import base64
import contextlib
import email.parser
import gzip
import http.client
import io
import json
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Reply, ScriptedServer

from lmeval.api.errors import ModelError, TransientModelError
from lmeval.models.http import HttpTransport
from lmeval.models.http_pool import parse_headers

Handler = Callable[[socket.socket], None]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What goes to a socket, call by call."""
    pieces: list[bytes] = []
    send = http.client.HTTPConnection.send

    def noted(connection: http.client.HTTPConnection, data: bytes) -> None:
        pieces.append(bytes(data))
        send(connection, data)

    monkeypatch.setattr(http.client.HTTPConnection, "send", noted)
    return pieces


@contextlib.contextmanager
def listening(handle: Handler) -> Iterator[int]:
    """A port on which each connection is handled in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def read_head(connection: socket.socket) -> bytes:
    """The bytes up to the empty line."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    return head


def read_request(connection: socket.socket) -> None:
    """Take a whole request from a connection."""
    head = read_head(connection).lower()
    left = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
    while left:
        left -= len(connection.recv(left))


def echo() -> ScriptedServer:
    """A server that sends each body back."""
    return ScriptedServer(lambda call: Reply(call.body))


# --- One piece -----------------------------------------------------------------------------------


def test_a_request_is_sent_in_one_piece(sent: list[bytes]) -> None:
    with echo() as server:
        transport = HttpTransport(server.url)
        for number in range(2):  # on a new connection and on an open one
            assert transport.post("/x", {"number": number}) == {"number": number}
    assert [piece.partition(b"\r\n\r\n")[2] for piece in sent] == [
        b'{"number": 0}',
        b'{"number": 1}',
    ]
    assert all(piece.startswith(b"POST /v1/x HTTP/1.1\r\n") for piece in sent)


@pytest.mark.parametrize("n_bytes", [2**16 - 1000, 2**16, 3 * 2**20])
def test_a_body_of_any_size_arrives(n_bytes: int, sent: list[bytes]) -> None:
    body = {"text": "x" * n_bytes}
    with echo() as server:
        assert HttpTransport(server.url).post("/x", body) == body
    # A large body is not copied behind its head.
    assert len(sent) == (1 if n_bytes < 2**16 else 2)


# --- Headers of replies --------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["A", "set-cookie", "X_1", "Content-Type", "", "From ", " B", "\xe9", "a b"]
)
ODD_VALUES = ["", " ", "\t", " a ", "multipart/mixed; boundary=x", ": ", "\r", "\x0b", "\x85", "\0"]
VALUES = st.sampled_from(ODD_VALUES) | st.text(st.characters(max_codepoint=255), max_size=5)
LINES = st.tuples(NAMES, st.sampled_from([":", ": ", ""]), VALUES, st.sampled_from(["\r\n", "\n"]))
HEADS = st.lists(LINES.map("".join), max_size=6).map("".join)


@given(HEADS, st.sampled_from(["\r\n", "\n", ""]))
def test_headers_are_those_of_the_standard_library(head: str, end: str) -> None:
    data = (head + end).encode("latin-1") + b"body"
    streams = [io.BufferedReader(io.BytesIO(data)) for _ in range(2)]  # type: ignore[arg-type]
    expected = http.client.parse_headers(streams[0])
    found = parse_headers(streams[1])
    assert found.items() == expected.items()
    assert streams[1].read() == streams[0].read()


@pytest.mark.parametrize("n_headers", [0, 1, 99, 100, 101])
def test_too_many_headers_are_refused_as_by_the_standard_library(n_headers: int) -> None:
    data = b"".join(b"N%d: %d\r\n" % (n, n) for n in range(n_headers)) + b"\r\n"
    outcomes = []
    for parse in (http.client.parse_headers, parse_headers):
        try:
            outcomes.append(parse(io.BufferedReader(io.BytesIO(data))).items())  # type: ignore
        except http.client.HTTPException as fault:
            outcomes.append(str(fault))
    assert outcomes[0] == outcomes[1]


def test_plain_headers_do_not_go_through_the_parser_for_email(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("parsed as e-mail")

    def handle(connection: socket.socket) -> None:
        with connection:
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nA: b c\r\nContent-Length: 2\r\n\r\n{}")

    monkeypatch.setattr(email.parser.Parser, "parsestr", fail)
    with listening(handle) as port:
        assert HttpTransport(f"http://127.0.0.1:{port}/v1").post("/x", {}) == {}


def test_a_head_that_comes_byte_by_byte() -> None:
    reply = b"HTTP/1.1 429 No\r\nA: b\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}"

    def handle(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            for _ in range(2):
                read_request(connection)
                for byte in reply:
                    connection.sendall(bytes([byte]))

    with listening(handle) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}/v1")
        for _ in range(2):
            with pytest.raises(TransientModelError, match="429") as caught:
                transport.post("/x", {})
            assert caught.value.retry_after == 7


# --- Connections that stay open ------------------------------------------------------------------


def test_connections_are_used_again() -> None:
    with echo() as server:
        transport = HttpTransport(server.url)
        for number in range(5):
            transport.post("/x", {"number": number})
        assert server.accepted == 1


@pytest.mark.parametrize("form", ["Content-Length", "Transfer-Encoding", "Content-Encoding"])
def test_a_connection_is_free_again_after_a_body_of_any_form(form: str) -> None:
    answer = {"text": "x" * 200_000}
    body = json.dumps(answer).encode()
    if form == "Content-Encoding":
        body = gzip.compress(body)
    head = b"Content-Encoding: gzip\r\n" if form == "Content-Encoding" else b""
    if form == "Transfer-Encoding":
        head, body = b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        head += b"Content-Length: %d\r\n" % len(body)
    connections = []

    def handle(connection: socket.socket) -> None:
        connections.append(connection)
        with connection, contextlib.suppress(ConnectionError):
            for _ in range(3):
                read_request(connection)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)

    with listening(handle) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}/v1")
        assert [transport.post("/x", {}) for _ in range(3)] == [answer] * 3
    assert len(connections) == 1


def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    closed = threading.Semaphore(0)

    def handle(connection: socket.socket) -> None:
        with connection:
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        closed.release()

    with listening(handle) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}/v1")
        for _ in range(3):
            assert transport.post("/x", {}) == {}
            assert closed.acquire(timeout=10)


def test_a_connection_that_the_server_closes_at_a_request_may_be_asked_again() -> None:
    def handle(connection: socket.socket) -> None:
        with connection:
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            read_request(connection)

    with listening(handle) as port:
        transport = HttpTransport(f"http://127.0.0.1:{port}/v1")
        assert transport.post("/x", {}) == {}
        with pytest.raises(TransientModelError, match="no reply from"):
            transport.post("/x", {})
        assert transport.post("/x", {}) == {}


def test_close_ends_the_connections_and_no_more() -> None:
    with echo() as server:
        transport = HttpTransport(server.url)
        transport.post("/x", {})
        transport.close()
        assert server.ended.acquire(timeout=10)
        # A thread that was given up may come back late.
        assert transport.post("/x", {"late": 1}) == {"late": 1}


@pytest.mark.parametrize("host", ["host:99999", "host:abc", "\u00fc" * 70])
@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:9"])
def test_what_is_no_address(host: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ModelError, match=f"base_url=http://{host}/v1 is no address") as caught:
        HttpTransport(f"http://{host}/v1")
    assert not isinstance(caught.value, TransientModelError)


# --- TLS and proxies -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the server's certificate, is not installed")
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    paths = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *names, *paths], check=True, capture_output=True)
    return files


@contextlib.contextmanager
def tls_server(certificate: tuple[Path, Path]) -> Iterator[ScriptedServer]:
    """The server that sends each body back, behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = echo()
    plain = server._server.socket
    server._server.socket = context.wrap_socket(plain, server_side=True)
    server.url = server.url.replace("http:", "https:")
    with server:
        yield server


def relay(connection: socket.socket, connects: list[bytes]) -> None:
    """Serve a client as a proxy does that was asked for a tunnel."""
    head = read_head(connection)
    connects.append(head)
    host, port = head.split(b" ")[1].split(b":")
    far = socket.create_connection((host.decode(), int(port)))
    connection.sendall(b"HTTP/1.0 200 Connection established\r\n\r\n")
    back = threading.Thread(target=pump, args=(far, connection), daemon=True)
    back.start()
    pump(connection, far)
    back.join()


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until it ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(2**16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_tls(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, sent: list[bytes]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with tls_server(certificate) as server:
        transport = HttpTransport(server.url)
        for body in ({"n": 1}, {"n": "x" * 100_000}, {"n": 2}):
            assert transport.post("/x", body) == body
        assert server.accepted == 1
        transport.close()
    assert len(sent) == 1 + 2 + 1


def test_an_unknown_certificate_ends_the_run(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with (
        tls_server(certificate) as server,
        pytest.raises(ModelError, match="certificate") as caught,
    ):
        HttpTransport(server.url).post("/x", {})
    assert not isinstance(caught.value, TransientModelError)


def test_tls_through_a_proxy(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, sent: list[bytes]
) -> None:
    connects: list[bytes] = []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    monkeypatch.delenv("no_proxy", raising=False)
    with tls_server(certificate) as server, listening(lambda c: relay(c, connects)) as port:
        monkeypatch.setenv("https_proxy", f"http://us%40er:pass@127.0.0.1:{port}")
        transport = HttpTransport(server.url, key="a secret key")
        for number in range(2):
            assert transport.post("/x", {"number": number}) == {"number": number}
        transport.close()
        assert [call.path for call in server.calls] == ["/v1/x", "/v1/x"]
        assert server.calls[0].headers["authorization"] == "Bearer a secret key"
    (connect,) = connects
    assert connect.startswith(b"CONNECT 127.0.0.1:")
    assert base64.b64encode(b"us@er:pass") in connect
    assert b"secret" not in connect
    assert len(sent) == 3  # the proxy's request and two of ours


@pytest.mark.parametrize("answer", [b"HTTP/1.0 407 Who are you?\r\n\r\n", b""])
def test_a_proxy_that_gives_no_tunnel(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(connection: socket.socket) -> None:
        with connection:
            read_head(connection)
            connection.sendall(answer)

    monkeypatch.delenv("no_proxy", raising=False)
    with listening(handle) as port:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        transport = HttpTransport("https://far.example/v1", key="a secret key")
        with pytest.raises(TransientModelError) as caught:
            transport.post("/x", {})
    assert "secret" not in str(caught.value)


def test_a_plain_request_through_a_proxy_is_sent_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, sent: list[bytes]
) -> None:
    with echo() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        transport = HttpTransport("http://far.example/v1")
        bodies: list[Any] = [{"number": 1}, {"number": 2}]
        assert [transport.post("/x", body) for body in bodies] == bodies
    assert len(sent) == 2
    assert sent[0].startswith(b"POST http://far.example/v1/x HTTP/1.1\r\n")
    assert b"Host: far.example\r\n" in sent[0]
