# SPDX-License-Identifier: Apache-2.0
"""The completions interface: several prompts in a request, stop strings, lengths."""

from typing import Any

import pytest
from scripted_server import Call, Reply, ScriptedServer, small_model, text_reply

from lmeval.api.model import Completion, Prompt
from lmeval.models.openai import OpenAIModel


def model_of(server: ScriptedServer, **settings: Any) -> OpenAIModel:
    return OpenAIModel(model="m", base_url=server.url, api="completions", **settings)


def test_a_prompt_is_sent_as_plain_text() -> None:
    with ScriptedServer(lambda call: text_reply(" Paris")) as server:
        answer = model_of(server).generate_text(Prompt("Q A:", [("user", "Q")]), stop_string="\n")
    assert answer == " Paris"
    assert server.calls[0].path == "/v1/completions"
    assert server.bodies == [
        {"model": "m", "prompt": "Q A:", "temperature": 0, "max_tokens": 256, "stop": ["\n"]}
    ]


@pytest.mark.parametrize(
    ("max_tokens", "max_length", "sent"),
    [(None, None, 256), (None, 5, 20), (10, 5, 10), (10, 1, 4), (300, None, 300)],
)
def test_max_length_bounds_the_tokens(
    max_tokens: int | None, max_length: int | None, sent: int
) -> None:
    with ScriptedServer(lambda call: text_reply("x")) as server:
        model_of(server, max_tokens=max_tokens).generate_text("Q", max_length)
    assert server.bodies[0]["max_tokens"] == sent


def test_stop_strings_can_be_left_to_the_client() -> None:
    with ScriptedServer(lambda call: text_reply("a\nb")) as server:
        assert model_of(server, send_stop=False).generate_text("Q", stop_string="\n") == "a\n"
    assert "stop" not in server.bodies[0]


def test_p072_answers_are_placed_by_their_index() -> None:
    reply = text_reply("a0", "a1", "a2", "a3").body
    reply["choices"] = [reply["choices"][index] for index in (2, 0, 3, 1)]
    with ScriptedServer(lambda call: Reply(reply)) as server:
        answers = model_of(server, prompts_per_request=4).generate_text(["p0", "p1", "p2", "p3"])
    assert answers == ["a0", "a1", "a2", "a3"]
    assert server.bodies[0]["prompt"] == ["p0", "p1", "p2", "p3"]


@pytest.mark.parametrize("index", [0, 9, -1, None, "3", True])
def test_p072_a_missing_answer_is_a_failed_row(index: Any) -> None:
    reply = text_reply("a0", "a1", "a2", "a3").body
    reply["choices"][3]["index"] = index
    with ScriptedServer(lambda call: Reply(reply)) as server:
        answers = model_of(server, prompts_per_request=4).generate_text(["p0", "p1", "p2", "p3"])
    assert answers == ["a0", "a1", "a2", ""]
    errors = [answer.error for answer in answers if isinstance(answer, Completion)]
    assert errors == [None, None, None, "error: the server's reply leaves this prompt out"]


def test_a_call_is_cut_into_requests() -> None:
    with ScriptedServer(small_model) as server:
        model = model_of(server, prompts_per_request=3)
        answers = model.generate_text(list("abcdefg"))
        assert [body["prompt"] for body in server.bodies] == [list("abc"), list("def"), "g"]
        assert answers == [model_of(server).generate_text(letter) for letter in "abcdefg"]


def test_samples_of_one_prompt_do_not_share_a_seed() -> None:
    with ScriptedServer(small_model) as server:
        model = model_of(server, prompts_per_request=4, temperature=1, seed=5)
        model.generate_text(["a", "b", "a", "c"])
    assert [(body["prompt"], body["seed"]) for body in server.bodies] == [
        (["a", "b"], 5),
        ("a", 6),
        ("c", 5),
    ]


def test_a_refused_prompt_does_not_take_its_request_with_it() -> None:
    def script(call: Call) -> Reply:
        prompts = call.body["prompt"]
        if "too long" in prompts:
            return Reply({"error": {"message": "maximum context length is 3, requested 9"}}, 400)
        return small_model(call)

    with ScriptedServer(script) as server:
        answers = model_of(server, prompts_per_request=3).generate_text(["a", "too long", "b"])
    assert [bool(answer) for answer in answers] == [True, False, True]
    assert isinstance(answers[1], Completion)
    assert "8 characters" in (answers[1].error or "") and "requested 9" in (answers[1].error or "")
    assert len(server.calls) == 4


def test_a_stop_string_at_the_beginning_is_no_end() -> None:
    """BIG-bench's rule; a server that stops there has written nothing."""

    def script(call: Call) -> Reply:
        return text_reply("") if "stop" in call.body else text_reply("\nParis\nmore")

    with ScriptedServer(script) as server:
        answer = model_of(server).generate_text("Q", stop_string="\n")
    assert answer == "\nParis\nmore"
    assert len(server.calls) == 2


def test_token_counts_are_those_of_single_prompts_only() -> None:
    reply = text_reply("a", "b").body
    reply["usage"] = {"prompt_tokens": 4, "completion_tokens": 2}
    with ScriptedServer(lambda call: Reply(reply)) as server:
        both = model_of(server, prompts_per_request=2).generate_text(["p", "q"])
        one = model_of(server).generate_text("p")
    assert [getattr(answer, "prompt_tokens", 0) for answer in (*both, one)] == [None, None, 4]
