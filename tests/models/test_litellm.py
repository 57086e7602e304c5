# SPDX-License-Identifier: Apache-2.0
"""The model behind litellm: what is handed over, and what litellm's exceptions become."""

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from scripted_server import Reply, ScriptedServer, chat_reply

from lmeval.api.errors import (
    FatalModelError,
    MissingExtraError,
    ModelError,
    TransientModelError,
    UnsupportedByModel,
)
from lmeval.api.model import Completion, Model
from lmeval.models.faults import RefusedRequest
from lmeval.models.litellm import LiteLLMModel
from lmeval.testing import ModelTestMixin


class ProvidersError(Exception):
    """Of the form that litellm's exceptions have."""

    def __init__(self, message: str, status_code: int, **headers: str) -> None:
        super().__init__(message)
        self.status_code = status_code
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = types.SimpleNamespace(headers=named)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A package litellm whose `completion` answers every prompt with its length."""
    package = types.ModuleType("litellm")
    package.calls = []  # type: ignore[attr-defined]

    def completion(**arguments: Any) -> Any:
        package.calls.append(arguments)  # type: ignore[attr-defined]
        content = f"{len(arguments['messages'][-1]['content'])} characters"
        return types.SimpleNamespace(model_dump=lambda: chat_reply(content).body)

    package.completion = completion  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "litellm", package)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    return package


def failing(error: Exception) -> Callable[..., Any]:
    def completion(**arguments: Any) -> Any:
        raise error

    return completion


class TestContract(ModelTestMixin):
    @pytest.fixture(autouse=True)
    def _package(self, package: types.ModuleType) -> None:
        pass

    def make_model(self) -> Model:
        return LiteLLMModel(model="anthropic/m")


def test_the_request_is_handed_over(
    package: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-0123456789")
    model = LiteLLMModel(
        model="anthropic/m",
        seed=1,
        max_tokens=5,
        system_prompt="Be brief.",
        extra_body={"top_k": 3},
        timeout_s=9,
        api_key_env="MY_KEY",
    )
    assert model.generate_text("Q") == "1 characters"
    assert package.calls == [  # type: ignore[attr-defined]
        {
            "model": "anthropic/m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Q"},
            ],
            "temperature": 0,
            "seed": 1,
            "max_tokens": 5,
            "top_k": 3,
            "timeout": 9,
            "num_retries": 0,
            "max_retries": 0,
            "api_key": "secret-0123456789",
        }
    ]
    assert "secret" not in repr(model) + repr(model.model_data()) + str(model.fingerprint())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProvidersError("slow down", 429), TransientModelError),
        (ProvidersError("overloaded", 529), TransientModelError),
        (ProvidersError("timeout", 408), TransientModelError),
        (ProvidersError("who?", 401), FatalModelError),
        (ProvidersError("no such model", 404), FatalModelError),
        (KeyError("a fault of litellm"), KeyError),
    ],
)
def test_exceptions(package: types.ModuleType, error: Exception, kind: type[Exception]) -> None:
    package.completion = failing(error)  # type: ignore[attr-defined]
    with pytest.raises(kind) as caught:
        LiteLLMModel(model="m").generate_text("Q")
    assert type(caught.value) is kind
    assert str(error) in str(caught.value)


def test_the_wait_is_read(package: types.ModuleType) -> None:
    package.completion = failing(ProvidersError("slow", 429, retry_after="3"))  # type: ignore
    with pytest.raises(TransientModelError) as caught:
        LiteLLMModel(model="m").generate_text("Q")
    assert caught.value.retry_after == 3


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("ContextWindowExceededError: 12 tokens > 10", "the prompt of 1 characters does not fit"),
        ("content policy", "content policy"),
    ],
)
def test_refusals_fail_their_row(package: types.ModuleType, message: str, part: str) -> None:
    package.completion = failing(ProvidersError(message, 400))  # type: ignore[attr-defined]
    answer = LiteLLMModel(model="m").generate_text("Q")
    assert isinstance(answer, Completion)
    assert message in (answer.error or "") and part in (answer.error or "")


def test_keys_of_providers_are_hidden(
    package: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "secret-0123456789")
    package.completion = failing(ProvidersError("bad key secret-0123456789", 401))  # type: ignore
    with pytest.raises(ModelError) as caught:
        LiteLLMModel(model="m").generate_text("Q")
    assert "secret" not in str(caught.value)


def test_it_cannot_score(package: types.ModuleType) -> None:
    with pytest.raises(UnsupportedByModel, match="m cannot give log-probabilities"):
        LiteLLMModel(model="m").cond_log_prob("a", ["b"])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lmeval\[litellm\]'"):
        LiteLLMModel(model="m")


@pytest.mark.slow
def test_the_real_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litellm", reason="the package litellm is not installed")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-0123456789")

    def model_of(server: ScriptedServer) -> LiteLLMModel:
        return LiteLLMModel(model="openai/m", extra_body={"api_base": server.url})

    with ScriptedServer(lambda call: chat_reply("<think>a</think>b")) as server:
        assert model_of(server).generate_text("Q") == "b"
    assert server.bodies == [
        {"model": "m", "messages": [{"role": "user", "content": "Q"}], "temperature": 0}
    ]
    slow = Reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "3"})
    with ScriptedServer(lambda call: slow) as server:
        with pytest.raises(TransientModelError) as caught:
            model_of(server).generate_text("Q")
        assert caught.value.retry_after == 3
        assert len(server.calls) == 1
    unknown = Reply({"error": {"message": "bad key secret-0123456789"}}, 401)
    with ScriptedServer(lambda call: unknown) as server, pytest.raises(ModelError) as refused:
        model_of(server).generate_text("Q")
    assert not isinstance(refused.value, (TransientModelError, RefusedRequest))
    assert "secret" not in str(refused.value)
