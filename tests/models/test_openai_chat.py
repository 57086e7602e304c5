# SPDX-License-Identifier: Apache-2.0
"""What a chat request holds, and what is read out of a chat reply."""

import json
import logging
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scripted_server import Reply, ScriptedServer, chat_reply

from lmeval.api.errors import MissingExtraError, ModelError, UnsupportedByModel
from lmeval.api.model import Completion, Model, Prompt
from lmeval.api.model_registry import build_model, parse_model_args
from lmeval.models.openai import OpenAIModel

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def ask(reply: Reply, prompt: str = "Q", stop: Any = None, **settings: Any) -> Completion:
    """The answer to one prompt, from a server that always gives `reply`."""
    with ScriptedServer(lambda call: reply) as server:
        model = OpenAIModel(model="m", base_url=server.url, **settings)
        answer = model.generate_text(prompt, stop_string=stop)
    assert isinstance(answer, Completion)
    return answer


def body_sent(prompt: str = "Q", stop: Any = None, **settings: Any) -> dict[str, Any]:
    """The body of the request that one prompt makes."""
    with ScriptedServer(lambda call: chat_reply()) as server:
        OpenAIModel(model="m", base_url=server.url, **settings).generate_text(prompt, None, stop)
        (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    return call.body


# --- The request ---------------------------------------------------------------------------------

USER = {"role": "user", "content": "Q"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"messages": [USER], "temperature": 0}),
        ({"temperature": None}, {"messages": [USER]}),
        ({"temperature": 0.7, "seed": 3}, {"messages": [USER], "temperature": 0.7, "seed": 3}),
        ({"max_tokens": 9}, {"messages": [USER], "temperature": 0, "max_tokens": 9}),
        (
            {"extra_body": {"top_p": 0.9, "max_completion_tokens": 5}},
            {"messages": [USER], "temperature": 0, "top_p": 0.9, "max_completion_tokens": 5},
        ),
        (
            {"system_prompt": "Be brief."},
            {
                "messages": [{"role": "system", "content": "Be brief."}, USER],
                "temperature": 0,
            },
        ),
    ],
)
def test_settings_stand_in_the_request(settings: dict[str, Any], expected: dict[str, Any]) -> None:
    assert body_sent(**settings) == {"model": "m", **expected}


def test_few_shot_prompts_are_sent_as_turns() -> None:
    turns = [("user", "1+1"), ("assistant", "2"), ("user", "1+2")]
    body = body_sent(Prompt("1+1 2 1+2", turns))
    assert body["messages"] == [{"role": role, "content": text} for role, text in turns]


def test_a_second_system_message_joins_the_first() -> None:
    prompt = Prompt("rules Q", [("system", "Rules."), ("user", "Q")])
    body = body_sent(prompt, system_prompt="Be brief.")
    assert body["messages"] == [{"role": "system", "content": "Be brief.\n\nRules."}, USER]


def test_stop_strings_are_not_sent_unless_asked() -> None:
    assert "stop" not in body_sent(stop=["\n", "."])
    assert body_sent(stop=["\n", "."], send_stop=True)["stop"] == ["\n", "."]


def test_no_more_stop_strings_are_sent_than_the_api_takes() -> None:
    assert body_sent(stop=list("abcdef"), send_stop=True)["stop"] == list("abcd")


def test_lone_surrogates_travel_as_escapes() -> None:
    assert body_sent("a\ud800b")["messages"][0]["content"] == "a\ud800b"


def test_settings_come_from_the_command_line() -> None:
    with ScriptedServer(lambda call: chat_reply()) as server:
        arguments = (
            f"base_url={server.url},model=m,api=chat,temperature=0.5,seed=1,max_tokens=10,"
            'extra_body={"top_p": 0.5, "stop_token_ids": [1, 2]},system_prompt=Be brief.'
        )
        build_model("openai", parse_model_args(arguments)).generate_text("Q")
    (body,) = server.bodies
    assert body["top_p"] == 0.5 and body["stop_token_ids"] == [1, 2] and body["seed"] == 1


def test_one_setting_gives_one_request_whatever_the_concurrency() -> None:
    prompts = [f"prompt {number}" for number in range(40)]
    seen = []
    for n_threads in (1, 16):
        with ScriptedServer(lambda call: chat_reply()) as server:
            model = OpenAIModel(model="m", base_url=server.url, seed=1, send_stop=True)
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(lambda one: model.generate_text(one, 50, ["\n"]), prompts))  # noqa: B023
        seen.append(Counter(json.dumps(body, sort_keys=True) for body in server.bodies))
    assert seen[0] == seen[1]
    assert set(seen[0].values()) == {1}


def test_connections_are_kept_until_the_model_is_closed() -> None:
    with ScriptedServer(lambda call: chat_reply()) as server:
        model = OpenAIModel(model="m", base_url=server.url)
        model.generate_text(["a", "b", "c"])
        assert (len(server.calls), server.accepted) == (3, 1)
        assert not server.ended.acquire(timeout=0.05)
        model.close()
        assert server.ended.acquire(timeout=10)


@pytest.mark.parametrize(
    ("temperature", "seeds"), [(0.7, [5, 6, 5, 7]), (0, [5, 5, 5, 5]), (None, [5, 6, 5, 7])]
)
def test_each_occurrence_of_a_prompt_has_its_own_seed(
    temperature: float | None, seeds: list[int]
) -> None:
    with ScriptedServer(lambda call: chat_reply()) as server:
        model = OpenAIModel(model="m", base_url=server.url, temperature=temperature, seed=5)
        model.generate_text(["a", "a", "b", "a"])
    assert [body["seed"] for body in server.bodies] == seeds


def test_the_engines_number_of_an_occurrence_decides_its_seed() -> None:
    assert body_sent(Prompt.numbered("Q", 3), temperature=1, seed=10)["seed"] == 13


# --- The reply -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message", "answer", "reasoning"),
    [
        ("Paris", {}, "Paris", ""),
        ("  Paris\n", {}, "  Paris\n", ""),
        ("<think>a\n\nb</think>\nAnswer: C", {}, "Answer: C", "a\n\nb"),
        ("\n<think>a</think>C", {}, "C", "a"),
        ("a</think>C", {}, "C", "a"),
        ("<think>a", {}, "", "a"),
        ("I <think> so", {}, "I <think> so", ""),
        ("\n\nC", {"reasoning_content": "a"}, "C", "a"),
        ("C", {"reasoning": "a"}, "C", "a"),
        ("C", {"reasoning_content": None}, "C", ""),
        (None, {"reasoning_content": "a"}, "", "a"),
        (None, {"refusal": "I can't."}, "I can't.", ""),
        ("", {}, "", ""),
        ([{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}], {}, "Paris", ""),
        (
            [
                {"type": "thinking", "thinking": [{"type": "text", "text": "a"}]},
                {"type": "text", "text": "C"},
            ],
            {},
            "C",
            "a",
        ),
        ("caf\ud83d\ude42 \ud800", {}, "caf🙂 \ufffd", ""),
    ],
)
def test_text_and_reasoning(
    content: Any, message: dict[str, Any], answer: str, reasoning: str
) -> None:
    got = ask(chat_reply(content, **message))
    assert (str(got), got.reasoning, got.error) == (answer, reasoning, None)


def test_facts_of_the_reply_are_kept() -> None:
    answer = ask(chat_reply("<think>a</think>b", "length"))
    assert answer.raw == "<think>a</think>b"
    assert (answer.prompt_tokens, answer.completion_tokens) == (7, 3)
    assert answer.finish_reason == "length"
    assert answer.latency_ms is not None and answer.latency_ms > 0


def test_p068_stops_apply_after_reasoning_is_removed() -> None:
    assert (
        ask(chat_reply("<think>a\n\nb</think>\nAnswer: C\n\nmore"), stop="\n\n") == "Answer: C\n\n"
    )


def test_p068_a_budget_spent_on_reasoning_is_a_cut_off_answer() -> None:
    with ScriptedServer(lambda call: chat_reply(None, "length", reasoning_content="hm")) as server:
        answer = OpenAIModel(model="m", base_url=server.url, send_stop=True).generate_text(
            "Q", stop_string="\n"
        )
    assert isinstance(answer, Completion)
    assert (str(answer), answer.error) == ("", None)
    assert (answer.finish_reason, answer.reasoning) == ("length", "hm")
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    "cut",
    [
        chat_reply("<think>a"),
        chat_reply(None, reasoning_content="a"),
        chat_reply(""),
    ],
)
def test_a_stop_string_that_struck_before_the_answer_is_not_sent_again(cut: Reply) -> None:
    whole = chat_reply("<think>a\n\nb</think>\n\nC\n\nd")
    with ScriptedServer(lambda call: cut if "stop" in call.body else whole) as server:
        model = OpenAIModel(model="m", base_url=server.url, send_stop=True)
        assert model.generate_text("Q", stop_string="\n\n") == "C\n\n"
    assert ["stop" in body for body in server.bodies] == [True, False]


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_a_stop_string_that_the_server_names_is_put_back(field: str) -> None:
    reply = chat_reply("Paris").body
    reply["choices"][0][field] = "."
    assert ask(Reply(reply), stop=".", send_stop=True) == "Paris."


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        (chat_reply(None), "finish_reason 'stop'"),
        (chat_reply(None, "tool_calls"), "finish_reason 'tool_calls'"),
        (chat_reply("", "content_filter"), "content_filter"),
        (chat_reply(17), "int"),
        (Reply({"choices": [{"index": 0, "finish_reason": "stop"}]}), "no text"),
    ],
)
def test_a_reply_without_a_text_is_a_failed_row(reply: Reply, part: str) -> None:
    answer = ask(reply)
    assert answer == "" and answer.error is not None
    assert answer.error.startswith("error: ") and part in answer.error


# --- What the model says of itself ---------------------------------------------------------------


def test_usage_sums_requests_and_tokens() -> None:
    with ScriptedServer(lambda call: chat_reply()) as server:
        model = OpenAIModel(model="m", base_url=server.url)
        model.generate_text(["a", "b"])
    assert model.usage() == {"requests": 2, "prompt_tokens": 14, "completion_tokens": 6}


def test_a_chat_model_cannot_score_given_text() -> None:
    model = OpenAIModel(model="gpt-x")
    for method in (
        lambda: model.cond_log_prob("a", ["b"]),
        lambda: model.rolling_log_prob(["a"]),
        model.check_scoring,
    ):
        with pytest.raises(UnsupportedByModel, match=r"gpt-x cannot score.*letter-answer mode"):
            method()


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ({"model": "other"}, True),
        ({"base_url": "http://elsewhere/v1"}, True),
        ({"temperature": 1}, True),
        ({"seed": 1}, True),
        ({"max_tokens": 1}, True),
        ({"system_prompt": "x"}, True),
        ({"extra_body": {"top_p": 1}}, True),
        ({"send_stop": True}, True),
        ({"api": "completions"}, True),
        ({"max_concurrency": 3}, False),
        ({"timeout_s": 3}, False),
    ],
)
def test_the_fingerprint_holds_what_changes_answers(setting: dict[str, Any], changes: bool) -> None:
    usual = OpenAIModel(model="m").fingerprint()
    assert (OpenAIModel(**{"model": "m", **setting}).fingerprint() != usual) is changes


def test_the_order_of_extra_fields_does_not_change_the_fingerprint() -> None:
    first, second = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert (
        OpenAIModel(model="m", extra_body=first).fingerprint()
        == OpenAIModel(model="m", extra_body=second).fingerprint()
    )


def test_decoding_settings_stand_in_the_model_data() -> None:
    data = OpenAIModel(model="m", api="completions", base_url="http://h/v1/").model_data()
    assert (data.model_family, data.model_name) == ("openai", "m")
    assert data.decoding_params["max_tokens"] == 256  # what servers would do instead: 16
    assert data.decoding_params["base_url"] == "http://h/v1"


def test_greedy_models_are_deterministic() -> None:
    assert OpenAIModel(model="m").deterministic
    assert not OpenAIModel(model="m", temperature=1).deterministic


# --- Settings that cannot be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"model": ""}, "model must be a name"),
        ({"model": 4}, "model must be a name"),
        ({"api": "responses"}, "api must be chat or completions"),
        ({"temperature": -1}, "temperature must be"),
        ({"temperature": "hot"}, "temperature must be"),
        ({"temperature": float("nan")}, "temperature must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"max_tokens": 0}, "max_tokens must be"),
        ({"max_tokens": True}, "max_tokens must be"),
        ({"extra_body": "top_p"}, "extra_body must be a JSON object"),
        ({"extra_body": {"temperature": 1}}, "extra_body must not hold temperature"),
        ({"extra_body": {"stream": True, "n": 2}}, "extra_body must not hold n, stream"),
        ({"system_prompt": 3}, "system_prompt must be"),
        ({"send_stop": "yes"}, "send_stop must be"),
        ({"max_concurrency": 0}, "max_concurrency must be"),
        ({"timeout_s": 0}, "timeout_s must be"),
        ({"base_url": "localhost:8000"}, "base_url must begin with http"),
        ({"base_url": "http://me:pa55@[::1/v1"}, "base_url is no address"),
        ({"base_url": "http://me:pa55@\u2100/v1"}, "base_url is no address"),
        ({"base_url": "http://me:pa55@host/v1"}, "no user name"),
        ({"base_url": "http://host/v1?key=pa55"}, "no user name"),
        ({"base_url": "http://host/v1/chat/completions"}, "must end before"),
        ({"prompts_per_request": 4}, "1 with api=chat"),
        ({"start_text": "<s>"}, "left out with api=chat"),
        ({"logprobs": 0}, "left out with api=chat"),
        ({"api": "completions", "system_prompt": "x"}, "system_prompt needs api=chat"),
        ({"api": "completions", "logprobs": -1}, "logprobs must be"),
        ({"api": "completions", "max_tokens": 0}, "max_tokens must be"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(ModelError) as caught:
        OpenAIModel(**{"model": "m", **settings})
    assert part in str(caught.value)
    assert "pa55" not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "urllib3", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lmeval\[openai\]'"):
        OpenAIModel(model="m")


# --- The key -------------------------------------------------------------------------------------


def test_the_key_is_sent_as_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER", "other-key\n")
    with ScriptedServer(lambda call: chat_reply()) as server:
        OpenAIModel(model="m", base_url=server.url).generate_text("Q")
        OpenAIModel(model="m", base_url=server.url, api_key_env="OTHER").generate_text("Q")
    sent = [call.headers["authorization"] for call in server.calls]
    assert sent == [f"Bearer {KEY}", "Bearer other-key"]


def test_without_a_key_none_is_sent() -> None:
    with ScriptedServer(lambda call: chat_reply()) as server:
        OpenAIModel(model="m", base_url=server.url).generate_text("Q")
    assert "authorization" not in server.calls[0].headers


def test_a_named_key_must_exist() -> None:
    with pytest.raises(ModelError, match="api_key_env=NO_SUCH_KEY"):
        OpenAIModel(model="m", api_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize("key", ["sk-secret\nX-Evil: 1", "sk-sécret"])
def test_a_key_that_no_header_can_hold_is_refused(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        OpenAIModel(model="m")
    assert "cret" not in str(caught.value)


def test_the_key_shows_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    faults = [
        Reply({"error": {"message": f"Incorrect API key: {KEY}"}}, 401),
        Reply({"error": {"message": f"no {KEY}"}}, 400),
        Reply({"error": {"message": "x" * 290 + KEY}}, 500),
        Reply({"error": {"message": f"no {KEY}", "code": 429}}),
        Reply({"choices": [{"index": 0, "error": {"message": KEY, "code": 400}}]}),
        Reply(f"<html>{KEY}</html>".encode()),
        Reply(status=302, headers={"Location": f"http://h/{KEY}"}),
        chat_reply(f"Your key is {KEY}"),
    ]
    shown: list[object] = []
    for reply in faults:
        with ScriptedServer(lambda call: reply) as server:  # noqa: B023
            model = OpenAIModel(model="m", base_url=server.url)
            try:
                answer: object = model.generate_text("Q")
                shown += [answer, getattr(answer, "raw", ""), getattr(answer, "error", "")]
            except ModelError as fault:
                shown += [str(fault), repr(fault), repr(fault.__cause__), repr(fault.__context__)]
            shown += [repr(model), model.model_data(), model.fingerprint(), model.usage()]
            shown += [pickle.dumps(model), repr(model._transport)]
    assert KEY[:12] not in repr(shown) + caplog.text


def test_a_model_travels_to_another_process_by_its_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ScriptedServer(lambda call: chat_reply()) as server:
        model = OpenAIModel(model="m", base_url=server.url, system_prompt="x", temperature=1)
        copy: Model = pickle.loads(pickle.dumps(model))
        copy.generate_text("Q")
    assert copy.fingerprint() == model.fingerprint()
    assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
