# SPDX-License-Identifier: Apache-2.0
"""Replies of any form: an answer, numbers or a ModelError, and never anything else."""

import contextlib
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lmeval.api.errors import ModelError
from lmeval.api.model import Completion
from lmeval.models.faults import failure_in_body, parse_retry_after, server_words
from lmeval.models.openai_replies import choices_by_index, completion_of
from lmeval.models.openai_scoring import target_log_prob, token_scores

REPLY_NAMES = {"choices", "index", "message", "content", "text", "thinking", "finish_reason"}
ERROR_NAMES = {"error", "code", "type", "detail", "usage", "prompt_tokens", "logprobs", "tokens"}
NAMES = st.sampled_from(sorted(REPLY_NAMES | ERROR_NAMES))
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 600)
    | st.sampled_from([10**400, -(10**400)])
    | st.floats()
    | st.sampled_from(["", "stop", "length", "<think>", "</think>x", "a\ud800", "bytes:\\xf0"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "message": st.fixed_dictionaries(
            {}, optional={"content": JSON, "reasoning": JSON, "refusal": JSON}
        ),
        "text": JSON,
        "finish_reason": JSON,
        "stop_reason": JSON,
        "error": JSON,
    },
)


@given(JSON, st.integers(1, 3))
def test_choices(reply: Any, n_prompts: int) -> None:
    with contextlib.suppress(ModelError):
        assert len(choices_by_index(reply, n_prompts)) == n_prompts


@given(CHOICE, JSON)
def test_completions(choice: Any, usage: Any) -> None:
    with contextlib.suppress(ModelError):
        answer = completion_of(choice, ("x", "stop"), usage)
        assert isinstance(answer, Completion)
        for text in (str(answer), answer.raw, answer.reasoning):
            text.encode()  # what no file can hold must not get into a result


@given(JSON)
def test_errors(error: Any) -> None:
    assert isinstance(failure_in_body(error), ModelError)
    words = server_words(json.dumps(error).encode())
    assert words.message and words.message.isprintable()


@given(st.lists(LEAVES, max_size=4), st.lists(LEAVES, max_size=4), st.lists(LEAVES, max_size=4))
def test_scores(tokens: Any, values: Any, offsets: Any) -> None:
    logprobs = {"tokens": tokens, "token_logprobs": values, "text_offset": offsets}
    with contextlib.suppress(ModelError):
        target_log_prob(token_scores(logprobs), "stopx", 4)


@given(st.text(max_size=40))
def test_waits(value: str) -> None:
    seconds = parse_retry_after({"retry-after": value}, 1.8e9)
    assert seconds is None or 0 <= seconds < float("inf")
