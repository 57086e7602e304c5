# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities of given text: which tokens count, and which servers are refused."""

import itertools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_server import Call, Reply, ScriptedServer, log_prob_after, small_model, words_of

from lmeval.api.errors import ModelError, TransientModelError, UnsupportedByModel
from lmeval.api.model import LogProbs
from lmeval.models.faults import RefusedRequest
from lmeval.models.openai import OpenAIModel
from lmeval.models.openai_scoring import TokenScore, context_end, target_log_prob, token_scores


def model_of(server: ScriptedServer, **settings: Any) -> OpenAIModel:
    return OpenAIModel(model="m", base_url=server.url, api="completions", **settings)


def lists(tokens: list[str], values: list[Any], offsets: list[int] | None = None) -> dict[str, Any]:
    return {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}


def content(tokens: list[str], values: list[Any], with_bytes: bool = False) -> dict[str, Any]:
    entries = [
        {"token": token, "logprob": value, "bytes": list(token.encode()) if with_bytes else None}
        for token, value in zip(tokens, values, strict=True)
    ]
    return {"content": entries}


SKY = ["The", " sky", " is", " blue", "."]
SKY_VALUES = [None, -2.0, -0.5, -0.25, -1.0]
SMILE = "🙂".encode()


# --- Which tokens count --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "logprobs",
    [
        pytest.param(lists(SKY, SKY_VALUES, [0, 3, 7, 10, 15]), id="p064"),
        pytest.param(lists(SKY, SKY_VALUES), id="without offsets"),
        pytest.param(lists(SKY, SKY_VALUES, [0] * 5), id="with useless offsets"),
        pytest.param(lists(SKY[:-1], SKY_VALUES[:-1], [0, 3, 7, 10]), id="nothing written"),
        pytest.param(content(SKY, SKY_VALUES), id="p066 the chat's shape"),
        pytest.param(content(SKY, SKY_VALUES, with_bytes=True), id="p066 with bytes"),
        pytest.param(
            lists(["<s>", *SKY], [None, -9.0, *SKY_VALUES[1:]], [0, 3, 6, 10, 13, 18]),
            id="start token",
        ),
        pytest.param(lists(["", *SKY], [None, -9.0, *SKY_VALUES[1:]]), id="hidden start token"),
        pytest.param(lists([" The", *SKY[1:]], SKY_VALUES), id="blank before the text"),
    ],
)
def test_p064_only_the_continuation_counts(logprobs: Any) -> None:
    assert target_log_prob(token_scores(logprobs), "The sky is blue", 10) == (-0.25, 1)


@pytest.mark.parametrize(
    ("tokens", "values", "offsets", "text", "boundary", "expected"),
    [
        # A token that spans the boundary counts in full (P076).
        (["hello", " world"], [None, -3.0], [0, 5], "hello world", 9, (-3.0, 1)),
        (["a", ":", " C"], [None, -1.0, -2.0], [0, 1, 2], "a: C", 1, (-3.0, 2)),
        # Parts of a character that are shown as nothing, as U+FFFD, or with their bytes escaped.
        (["a", "", "", "🙂"], [None, -1, -2, -4], [0, 1, 1, 1], "a🙂", 1, (-7.0, 3)),
        (["a", "\ufffd", "\ufffd"], [None, -1, -2], [0, 1, 1], "a🙂", 1, None),
        (["a", "\ufffd", "\ufffd", "b"], [None, -1, -2, -4], [0, 1, 1, 2], "a🙂", 1, (-3.0, 2)),
        (
            ["a", "bytes:\\xf0\\x9f", "bytes:\\x99\\x82"],
            [None, -1, -2],
            None,
            "a🙂",
            1,
            (-3.0, 2),
        ),
        # Tokens that are not those of the text.
        ([" Paris"], [-0.1], [24], "The capital of France is Paris", 24, None),
        ([" blue"], [-0.1], [0], "The sky is blue", 10, None),
        (["The", " sky"], [None, -1], [0, 3], "The sky is blue", 10, None),
        (["the", " sky", " is", " blue"], [None, -1, -1, -1], None, "The sky is blue", 10, None),
        (["The", "X", "X", "X"], [None, -1, -1, -1], [0, 3, 7, 10], "The sky is blue", 10, None),
        ([], [], [], "a", 0, None),
        # The first token has no number.
        (["ab", "c"], [None, -1], None, "abc", 0, None),
        (["ab", "c"], [-2, -1], None, "abc", 0, (-3.0, 2)),
        (["a", "b"], [None, -math.inf], None, "ab", 1, (-math.inf, 1)),
        (["a", "b"], [None, -(10**400)], None, "ab", 1, (-math.inf, 1)),
        (["a\ud800", "b"], [None, -1], None, "a\ud800b", 2, (-1.0, 1)),
    ],
)
def test_alignment(
    tokens: list[str],
    values: list[Any],
    offsets: list[int] | None,
    text: str,
    boundary: int,
    expected: tuple[float, int] | None,
) -> None:
    scores = token_scores(lists(tokens, values, offsets))
    if expected is None:
        with pytest.raises(RefusedRequest):
            target_log_prob(scores, text, boundary)
    else:
        assert target_log_prob(scores, text, boundary) == expected


@given(st.data())
def test_every_token_counts_on_one_side_of_the_boundary(data: st.DataObject) -> None:
    text = data.draw(st.text(st.sampled_from("ab é語🙂\n"), min_size=1, max_size=12))
    raw = text.encode()
    boundary = data.draw(st.integers(0, len(text)))
    cuts = data.draw(st.sets(st.integers(1, len(raw)), max_size=8)) | {0, len(raw)}
    pieces = [raw[a:b] for a, b in itertools.pairwise(sorted(cuts))]
    # Powers of two: the sum tells which tokens are in it.
    tokens = [TokenScore(piece, -float(2**place)) for place, piece in enumerate(pieces)]
    written = TokenScore(b" more", -0.5)
    got, count = target_log_prob([*tokens, written], text, boundary)
    cut = len(text[:boundary].encode())
    ends = list(itertools.accumulate(map(len, pieces)))
    wanted = [token.log_prob for token, end in zip(tokens, ends, strict=True) if end > cut]
    assert (got, count) == (sum(filter(None, wanted)), len(wanted))


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        [],
        "text",
        {},
        {"tokens": ["a"], "token_logprobs": [None, -1]},
        {"tokens": ["a"]},
        {"content": None},
        lists([3], [-1]),
        lists(["a"], ["-1"]),
        lists(["a"], [float("nan")]),
        lists(["a"], [True]),
        lists(["a"], [math.inf]),
        lists(["a"], [10**400]),
    ],
)
def test_unreadable_log_probabilities_are_named(logprobs: Any) -> None:
    with pytest.raises(RefusedRequest):
        token_scores(logprobs)


@pytest.mark.parametrize(
    ("context", "end"), [("A:", 2), ("A: ", 2), ("A:\n\n", 2), ("", 0), ("  ", 2)]
)
def test_blanks_at_the_end_of_a_context_go_with_the_target(context: str, end: int) -> None:
    assert context_end(context) == end


# --- Requests ------------------------------------------------------------------------------------


def small_models_score(context: str, target: str) -> float:
    """By the rule that the scripted model states, one token at a time."""
    tokens = words_of(context + target)
    total = 0.0
    for place, token in enumerate(tokens):
        before = "".join(tokens[:place])
        if len(before + token) > context_end(context):
            total += log_prob_after(before, token)
    return total


CONTEXTS = ["The sky is", "Q: 2 + 2 =\nA: ", "日本 の", "one two"]
TARGETS = [[" blue", " very green"], ["4", "four or so"], [" 語"], [" three", "s", " 🙂 é"]]


@pytest.mark.parametrize("prompts_per_request", [1, 3, 100])
def test_scores_are_the_models_own(prompts_per_request: int) -> None:
    with ScriptedServer(small_model) as server:
        model = model_of(server, prompts_per_request=prompts_per_request)
        got = model.cond_log_prob(CONTEXTS, TARGETS, absolute_normalization=True)
    for row, context, targets in zip(got, CONTEXTS, TARGETS, strict=True):
        assert isinstance(row, LogProbs) and row.error is None
        assert row == pytest.approx([small_models_score(context, one) for one in targets])
    assert [row.token_counts for row in got] == [(1, 2), (1, 3), (1,), (1, 1, 2)]  # type: ignore
    assert len(server.calls) == 2 + math.ceil(8 / prompts_per_request)


def test_the_request_for_a_score() -> None:
    with ScriptedServer(small_model) as server:
        model = model_of(server, extra_body={"add_special_tokens": False}, seed=3, max_tokens=9)
        model.cond_log_prob("The sky is", [" blue"])
    assert server.bodies[-1] == {
        "model": "m",
        "prompt": "The sky is blue",
        "echo": True,
        "logprobs": 1,
        "max_tokens": 1,
        "temperature": 0,
        "add_special_tokens": False,
    }


def test_p066_no_alternatives_are_asked_for_as_zero() -> None:
    with ScriptedServer(small_model) as server:
        model_of(server, logprobs=0).cond_log_prob("The sky is", [" blue"])
    assert [body["logprobs"] for body in server.bodies] == [0, 0, 0]


def test_an_empty_target_is_certain_and_asks_nothing() -> None:
    with ScriptedServer(small_model) as server:
        model = model_of(server)
        model.check_scoring()
        n_calls = len(server.calls)
        assert model.cond_log_prob(["a ", "b"], [[""], []], True) == [[0.0], []]
    assert len(server.calls) == n_calls


def test_without_a_context_the_first_token_needs_a_number() -> None:
    with ScriptedServer(small_model) as server:
        row = model_of(server).cond_log_prob("", ["blue sky"])
        with pytest.raises(UnsupportedByModel, match=r"m cannot score whole texts.*start_text"):
            model_of(server).rolling_log_prob(["blue sky"])
        assert isinstance(row, LogProbs) and "start_text" in (row.error or "")
        assert row == [-math.inf]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_start_text_gives_the_first_token_a_number(hidden: bool) -> None:
    """Whether the server shows the start token or, as many do, not."""

    def script(call: Call) -> Reply:
        reply = small_model(call)
        assert call.body["prompt"].startswith("<s>")
        if hidden and call.body.get("echo"):
            logprobs = reply.body["choices"][0]["logprobs"]
            for values in logprobs.values():
                del values[0]
        return reply

    with ScriptedServer(script) as server:
        model = model_of(server, start_text="<s>")
        got = model.rolling_log_prob([" blue sky", ""])
        scored = model.cond_log_prob("", [" blue sky"], absolute_normalization=True)
    expected = log_prob_after("<s>", " blue") + log_prob_after("<s> blue", " sky")
    assert got == pytest.approx([expected, 0.0])
    assert scored == pytest.approx([expected])


def test_a_refused_text_fails_its_row_only() -> None:
    def script(call: Call) -> Reply:
        if "long" in str(call.body["prompt"]):
            return Reply({"error": {"message": "maximum context length is 3, requested 9"}}, 400)
        return small_model(call)

    for prompts_per_request in (1, 8):
        with ScriptedServer(script) as server:
            model = model_of(server, prompts_per_request=prompts_per_request)
            rows = model.cond_log_prob(["a b", "c d", "e f"], [[" x"], [" y", " long"], [" z"]])
        errors = [row.error for row in rows if isinstance(row, LogProbs)]
        assert [error is None for error in errors] == [True, False, True]
        assert "8 characters" in (errors[1] or "") and "requested 9" in (errors[1] or "")


def test_a_text_left_out_of_a_reply_fails_its_row_only() -> None:
    def script(call: Call) -> Reply:
        reply = small_model(call)
        if isinstance(call.body["prompt"], list):
            del reply.body["choices"][0]
        return reply

    with ScriptedServer(script) as server:
        rows = model_of(server, prompts_per_request=2).cond_log_prob(["a", "b"], [[" x"], [" y"]])
    errors = [row.error for row in rows if isinstance(row, LogProbs)]
    assert errors == ["error: the server's reply leaves this text out", None]


# --- Servers that cannot do it -------------------------------------------------------------------


def echoing(logprobs: Any) -> Any:
    """A script that gives these log-probabilities to every request."""
    return lambda call: Reply({"choices": [{"index": 0, "text": "x", "logprobs": logprobs}]})


def shifted(call: Call) -> Reply:
    """A server whose echoed numbers are those of the next token (llama-cpp-python without BOS)."""
    reply = small_model(call)
    if call.body.get("echo"):
        logprobs = reply.body["choices"][0]["logprobs"]
        logprobs["token_logprobs"] = [None, *logprobs["token_logprobs"][2:], -9.0]
    return reply


@pytest.mark.parametrize(
    ("script", "part"),
    [
        pytest.param(echoing(lists([" Paris"], [-0.1], [0])), "do not line up", id="p065a"),
        pytest.param(echoing(None), "no log-probabilities", id="p065c"),
        pytest.param(lambda call: Reply(b'{"error": "echo not supported"}', 400), "echo", id="400"),
        pytest.param(lambda call: Reply(b'{"error": "echo not supported"}', 500), "echo", id="500"),
        pytest.param(lambda call: Reply(b'{"error": "no logprobs"}', 501), "logprobs", id="501"),
        pytest.param(lambda call: Reply(b'{"detail": "unknown field"}', 422), "unknown", id="422"),
        pytest.param(shifted, "those of other tokens", id="neighbours"),
    ],
)
def test_p065_a_server_that_cannot_score_is_refused_before_the_run(script: Any, part: str) -> None:
    with ScriptedServer(script) as server:
        model = model_of(server)
        for _ in range(3):
            with pytest.raises(UnsupportedByModel) as caught:
                model.cond_log_prob(["my context"] * 50, [[" my target"]] * 50)
    assert part in str(caught.value)
    assert "The model m cannot score given text" in str(caught.value)
    assert "letter-answer mode" in str(caught.value)
    assert len(server.calls) <= 2
    assert not any("my" in str(body["prompt"]) for body in server.bodies)


def test_a_server_that_cannot_score_still_writes() -> None:
    with ScriptedServer(shifted) as server:
        model = model_of(server)
        with pytest.raises(UnsupportedByModel):
            model.check_scoring()
        assert isinstance(model.generate_text("Q"), str)


def test_a_passing_fault_leaves_the_question_open() -> None:
    def script(call: Call) -> Reply:
        return Reply(status=503) if call.number == 0 else small_model(call)

    with ScriptedServer(script) as server:
        model = model_of(server)
        with pytest.raises(TransientModelError):
            model.cond_log_prob("The sky is", [" blue"])
        assert model.cond_log_prob("The sky is", [" blue"]) == [0.0]


def test_a_server_called_echo_that_is_not_there_is_no_missing_capability() -> None:
    url = "http://localhost:9/echo/logprobs/v1"
    with pytest.raises(TransientModelError):
        OpenAIModel(model="m", base_url=url, api="completions").check_scoring()


def test_a_refused_key_is_no_missing_capability() -> None:
    with (
        ScriptedServer(lambda call: Reply(b"who?", 401)) as server,
        pytest.raises(ModelError, match="401: who") as caught,
    ):
        model_of(server).check_scoring()
    assert not isinstance(caught.value, UnsupportedByModel)


def test_the_question_is_asked_once_for_all_threads() -> None:
    with ScriptedServer(small_model) as server:
        model = model_of(server)
        start = threading.Barrier(8)

        def score(number: int) -> list[float]:
            start.wait()
            return model.cond_log_prob("The sky is", [f" {number}"], True)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(score, range(8)))
    assert len(server.calls) == 2 + 8


def test_a_model_that_writes_nothing_can_still_score() -> None:
    """Nothing to compare with: the end of the text follows at once."""

    def script(call: Call) -> Reply:
        reply = small_model(call)
        if not call.body.get("echo"):
            reply.body["choices"][0]["logprobs"] = lists([], [])
        return reply

    with ScriptedServer(script) as server:
        assert model_of(server).cond_log_prob("The sky is", [" blue"]) == [0.0]
