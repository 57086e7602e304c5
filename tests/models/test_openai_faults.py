# SPDX-License-Identifier: Apache-2.0
"""What each way of failing becomes: asked again, a failed row, or the end of the run."""

import random
import socket
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Call, Reply, ScriptedServer, chat_reply

from lmeval.api.errors import ModelError, TransientModelError, UnreachableModelError
from lmeval.api.model import Completion
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings
from lmeval.models.chat import UnfinishedBatch
from lmeval.models.faults import RefusedRequest, one_line, parse_retry_after, server_words
from lmeval.models.http import HttpTransport
from lmeval.models.openai import OpenAIModel

NOW = 1_800_000_000.0


def fault_of(reply: Reply, **settings: Any) -> ModelError:
    """The exception of a request that gets `reply`."""
    with ScriptedServer(lambda call: reply) as server:
        transport = HttpTransport(server.url, wall_clock=lambda: NOW, key_name="NAME", **settings)
        with pytest.raises(ModelError) as caught:
            transport.post("/x", {})
        transport.close()
    return caught.value


def kind_of(fault: ModelError) -> str:
    if isinstance(fault, TransientModelError):
        return "passing"
    return "row" if isinstance(fault, RefusedRequest) else "all"


# --- Status codes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, "all"),
        (307, "all"),
        (400, "row"),
        (401, "all"),
        (402, "all"),
        (403, "all"),
        (404, "all"),
        (408, "passing"),
        (409, "passing"),
        (413, "row"),
        (422, "row"),
        (425, "passing"),
        (429, "passing"),
        (500, "passing"),
        (501, "all"),
        (502, "passing"),
        (503, "passing"),
        (504, "passing"),
        (529, "passing"),
    ],
)
def test_status_codes(status: int, kind: str) -> None:
    fault = fault_of(Reply({"error": {"message": "these words"}}, status))
    assert kind_of(fault) == kind
    assert f"the server answered {status}: these words" in str(fault)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "variable NAME"),
        (403, "variable NAME"),
        (404, "mostly ends in /v1"),
        (301, "base_url"),
    ],
)
def test_advice(status: int, advice: str) -> None:
    assert advice in str(fault_of(Reply(b"no", status)))


def test_a_redirect_is_not_followed() -> None:
    with ScriptedServer(lambda call: chat_reply()) as other:
        fault_of(Reply(status=307, headers={"Location": other.url}))
    assert other.calls == []


def test_no_money_left_is_no_passing_fault() -> None:
    error = {"message": "You exceeded your quota", "code": "insufficient_quota"}
    assert kind_of(fault_of(Reply({"error": error}, 429))) == "all"


# --- P069: a reply that says 200 and is none -----------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "part"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, "passing", "429: slow down"),
        ({"error": {"type": "rate_limit_error", "message": "slow"}}, "passing", "429: slow"),
        ({"error": {"message": "something"}}, "passing", "something"),
        ({"error": "something"}, "passing", "something"),
        ({"error": {"code": 401, "message": "who?"}}, "all", "who?"),
        ({"error": {"code": "model_not_found", "message": "none"}}, "all", "none"),
        ({"error": {"type": "invalid_request_error", "message": "bad"}}, "row", "bad"),
        ({"error": {"code": "context_length_exceeded", "message": "x"}}, "row", "x"),
        (b"<html><body><h1>Bad\n gateway</h1></body></html>", "passing", "no JSON: Bad gateway"),
        (b"", "passing", "an empty reply"),
        (b"[" * 100_000, "passing", "no JSON"),
        (b'{"choices": [', "passing", "no JSON"),
        (b"\xff\xfe", "passing", "no JSON"),
    ],
)
def test_a_success_that_is_none(body: Any, kind: str, part: str) -> None:
    fault = fault_of(Reply(body))
    assert kind_of(fault) == kind
    assert part in str(fault)


@pytest.mark.parametrize(
    "body", [{"choices": None}, {"choices": []}, {}, [], "text", 3, None, {"choices": "abc"}]
)
def test_a_reply_without_choices_may_pass(body: Any) -> None:
    with ScriptedServer(lambda call: Reply(body)) as server:
        model = OpenAIModel(model="m", base_url=server.url)
        with pytest.raises(TransientModelError, match="no choices"):
            model.generate_text("Q")


def test_an_error_within_a_choice_counts_as_one() -> None:
    choice = {"index": 0, "error": {"code": 502, "message": "upstream"}, "message": {}}
    with ScriptedServer(lambda call: Reply({"choices": [choice]})) as server:
        model = OpenAIModel(model="m", base_url=server.url)
        with pytest.raises(TransientModelError, match="502: upstream"):
            model.generate_text("Q")


def run(server: ScriptedServer, prompts: list[str], folder: Path) -> list[Any]:
    """The answers that the engine gives, with quick retries and a store."""
    model = OpenAIModel(model="m", base_url=server.url)
    settings = EngineSettings(
        backoff_s=0.001, max_retries=2, cache_dir=folder, concurrency=4, batch_size=1
    )
    with Engine(model, settings, rng=random.Random(0)) as engine:
        return engine.generate_text(prompts)


def test_p069_the_first_is_asked_again_the_others_fail_after_the_retries(tmp_path: Path) -> None:
    slow_down = Reply({"error": {"code": 429, "message": "slow down"}})
    broken = {
        "b": Reply({"choices": None}),
        "c": Reply(b"<html>oops</html>"),
        "d": Reply(b""),
    }
    seen: list[str] = []

    def script(call: Call) -> Reply:
        prompt = call.body["messages"][0]["content"]
        seen.append(prompt)
        if prompt == "a" and seen.count("a") == 1:
            return slow_down
        return broken.get(prompt, chat_reply("fine"))

    with ScriptedServer(script) as server:
        answers = run(server, ["a", "b", "c", "d"], tmp_path)
        assert {prompt: seen.count(prompt) for prompt in "abcd"} == {"a": 2, "b": 3, "c": 3, "d": 3}
        # Nothing of the failures is kept: the next run asks again, and asks nothing else.
        broken.clear()
        seen.clear()
        again = run(server, ["a", "b", "c", "d"], tmp_path)
    assert [str(answer) for answer in answers] == ["fine", "", "", ""]
    assert answers[0].error is None
    assert all(answer.error.startswith("error: ") for answer in answers[1:])
    assert [str(answer) for answer in again] == ["fine"] * 4
    assert sorted(seen) == ["b", "c", "d"]


# --- P071: Retry-After ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after": formatdate(NOW + 20, usegmt=True)}, 20.0),
        ({"retry-after": formatdate(NOW - 20, usegmt=True)}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "Mon, 99 Foo 2026 25:61:61 GMT"}, None),
        ({"retry-after": "Mon, 01 Jan 99999 00:00:00 GMT"}, None),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({}, None),
    ],
)
def test_p071_forms_of_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, NOW) == seconds


def test_p071_the_wait_reaches_the_engine() -> None:
    fault = fault_of(Reply(status=429, headers={"Retry-After": formatdate(NOW + 20, usegmt=True)}))
    assert isinstance(fault, TransientModelError)
    assert fault.retry_after == 20.0


def test_p071_a_day_is_cut_short_by_the_engine() -> None:
    def script(call: Call) -> Reply:
        return chat_reply("fine") if call.number else Reply(b"", 429, {"Retry-After": "86400"})

    with ScriptedServer(script) as server:
        model = OpenAIModel(model="m", base_url=server.url)
        with Engine(model, EngineSettings(max_backoff_s=0.01)) as engine:
            assert engine.generate_text("Q") == "fine"


# --- P073: context-length refusals ---------------------------------------------------------------

TOO_LONG = [
    (400, {"error": {"message": "This model's maximum context length is 4096, requested 4097"}}),
    (400, {"object": "error", "message": "maximum context length is 4096, requested 4097"}),
    (413, {"error": {"message": "prompt is too long: 4097 tokens > 4096 maximum"}}),
    (
        422,
        {
            "error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4097",
        },
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "type": "exceed_context_size_error",
                "message": "the request exceeds the available context size, 4097 > 4096",
            }
        },
    ),
    (500, {"error": {"message": "context length exceeded: 4097 > 4096"}}),
    (200, {"error": {"code": "context_length_exceeded", "message": "4097 > 4096"}}),
]


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
def test_p073_is_not_asked_again_and_names_the_lengths(
    status: int, body: Any, tmp_path: Path
) -> None:
    def script(call: Call) -> Reply:
        long = call.body["messages"][0]["content"] == "long one"
        return Reply(body, status) if long else chat_reply("fine")

    with ScriptedServer(script) as server:
        answers = run(server, ["long one", "b", "c"], tmp_path)
    assert [str(answer) for answer in answers] == ["", "fine", "fine"]
    assert len(server.calls) == 3
    for part in ("the prompt of 8 characters does not fit", "4096", "4097"):
        assert part in answers[0].error


def test_a_rate_limit_that_speaks_of_tokens_is_no_length_error() -> None:
    words = "Request too large for m on tokens per min: limit 30000, requested 31000"
    assert kind_of(fault_of(Reply({"error": {"message": words}}, 429))) == "passing"


# --- Connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        (Reply(reset=True), "no reply from"),
        (Reply(b"{}" * 100, missing_bytes=50), "no reply from"),
        (Reply(b"{}", headers={"Content-Encoding": "gzip"}), "no reply from"),
        (Reply(chat_reply().body, delay_s=0.5), "no reply within 0.1 s"),
        (Reply(chat_reply().body, trickle=(20, 0.03)), "no whole reply within 0.1 s"),
    ],
)
def test_broken_and_late_replies_may_pass(reply: Reply, part: str) -> None:
    fault = fault_of(reply, timeout_s=0.1)
    assert kind_of(fault) == "passing"
    assert part in str(fault)
    assert " at 0x" not in str(fault)


def test_blanks_before_a_reply_are_no_fault() -> None:
    with ScriptedServer(lambda call: Reply(chat_reply().body, trickle=(5, 0.01))) as server:
        assert OpenAIModel(model="m", base_url=server.url).generate_text("Q") == "ok"


def test_a_closed_port_may_open_yet() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = OpenAIModel(model="m", base_url=url)
        with pytest.raises(UnreachableModelError, match=f"no reply from {url}: Connection refused"):
            model.generate_text("Q")


def test_a_reply_of_no_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmeval.models.http._LARGEST_REPLY", 1000)
    assert kind_of(fault_of(Reply(b" " * 2000))) == "row"


def test_the_environments_proxy_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(lambda call: chat_reply("through the proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        model = OpenAIModel(model="m", base_url="http://far.example/v1")
        assert model.generate_text("Q") == "through the proxy"
        assert proxy.calls[0].path == "http://far.example/v1/chat/completions"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with ScriptedServer(lambda call: chat_reply("straight")) as server:
            assert OpenAIModel(model="m", base_url=server.url).generate_text("Q") == "straight"


# --- Words of the server -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b'{"error": {"message": "m", "type": "T", "code": "C"}}', "m", "t c"),
        (b'{"error": "m"}', "m", ""),
        (b'{"message": "m", "code": 400}', "m", "400"),
        (b'{"detail": "m"}', "m", ""),
        (b'{"detail": [{"msg": "m"}]}', '[{"msg": "m"}]', ""),
        (b'{"error": {}}', "{}", ""),
        (b"[1]", "[1]", ""),
        (b"<p>m</p>", "m", ""),
        (b" ", "an empty reply", ""),
    ],
)
def test_forms_of_error_bodies(body: bytes, message: str, code: str) -> None:
    words = server_words(body)
    assert (words.message, words.code) == (message, code)


def test_words_are_made_fit_for_a_terminal() -> None:
    assert one_line("a\x1b[31m\n\tb\u202ec") == "a [31m b c"
    assert one_line("x" * 400) == "x" * 300 + " ..."


# --- Batches -------------------------------------------------------------------------------------


def test_answers_before_a_passing_fault_are_not_lost() -> None:
    def script(call: Call) -> Reply:
        return Reply(status=503, headers={"Retry-After": "7"}) if call.number == 2 else chat_reply()

    with ScriptedServer(script) as server, pytest.raises(UnfinishedBatch) as caught:
        OpenAIModel(model="m", base_url=server.url).generate_text(list("abcd"))
    assert caught.value.answers == ("ok", "ok")
    assert caught.value.retry_after == 7
    assert len(server.calls) == 3


def test_a_refused_prompt_does_not_stop_the_others() -> None:
    def script(call: Call) -> Reply:
        return Reply(b'{"error": "bad word"}', 400) if call.number == 1 else chat_reply()

    with ScriptedServer(script) as server:
        answers = OpenAIModel(model="m", base_url=server.url).generate_text(list("abc"))
    assert answers == ["ok", "", "ok"]
    assert isinstance(answers[1], Completion) and "bad word" in (answers[1].error or "")


def test_a_refused_key_stops_at_once() -> None:
    with (
        ScriptedServer(lambda call: Reply(b'{"error": "who?"}', 401)) as server,
        pytest.raises(ModelError, match="401: who"),
    ):
        OpenAIModel(model="m", base_url=server.url).generate_text(list("abc"))
    assert len(server.calls) == 1
