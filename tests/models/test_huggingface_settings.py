# SPDX-License-Identifier: Apache-2.0
"""What can be said in --model_args, and what is refused in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from lmeval.api.errors import MissingExtraError, ModelError
from lmeval.models.hf.settings import read_settings
from lmeval.models.huggingface import HuggingFaceModel


def test_defaults_are_greedy_plain_text():
    settings = read_settings({"path": "somewhere"})
    assert (settings.temperature, settings.chat_template, settings.dtype) == (0.0, False, "auto")


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"path": Path("a/b")}, "path", str(Path("a/b"))),
        ({"path": "x", "revision": 12}, "revision", "12"),
        ({"path": "x", "temperature": 1}, "temperature", 1),
        ({"path": "x", "add_bos": None}, "add_bos", None),
    ],
)
def test_values_as_the_command_line_parses_them(given, field, value):
    assert getattr(read_settings(given), field) == value


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "needs the setting 'path'"),
        ({"path": ""}, "'path' must be text that is not empty"),
        ({"path": "x", "batch_token": 1}, "no setting 'batch_token'; did you mean 'batch_tokens'?"),
        ({"path": "x", "zzz": 1}, "known are path, "),
        ({"path": "x", "dtype": "float8"}, "'dtype' must be one of auto, float32"),
        ({"path": "x", "chat_template": "yes"}, "'chat_template' must be true or false"),
        ({"path": "x", "batch_tokens": 0}, "'batch_tokens' must be a whole number of at least 1"),
        ({"path": "x", "batch_size": True}, "'batch_size' must be a whole number"),
        ({"path": "x", "temperature": -0.1}, "'temperature' must be a number from 0 up to 100"),
        ({"path": "x", "temperature": float("nan")}, "'temperature' must be a number"),
        ({"path": "x", "temperature": 1, "top_p": 0}, "'top_p' must be a number above 0 up to 1"),
        ({"path": "x", "top_p": 0.9}, "'top_p' needs a temperature above 0"),
        ({"path": "x", "seed": -1}, "'seed' must be a whole number of at least 0"),
        ({"path": "x", "system_prompt": "Be brief."}, "'system_prompt' needs chat_template=true"),
    ],
)
def test_faults_are_named(given, text):
    with pytest.raises(ModelError) as caught:
        read_settings(given)
    assert text in str(caught.value)


def test_without_torch_the_pip_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lmeval\[hf\]'"):
        HuggingFaceModel(path="somewhere")


def test_importing_the_door_imports_neither_torch_nor_transformers():
    program = (
        "import sys, lmeval.models.huggingface, lmeval.models.smollm2;"
        "print(sorted({'torch', 'transformers', 'tokenizers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
