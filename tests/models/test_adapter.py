# SPDX-License-Identifier: Apache-2.0
"""AdapterModel: what it takes from an adapter and what it refuses."""

import pytest

from lmeval.api.errors import ModelError, UnsupportedByModel
from lmeval.api.model import Completion
from lmeval.models.adapter import AdapterModel
from lmeval.testing import ModelTestMixin


class Upper:
    name = "upper"

    def generate(self, prompts):
        return [prompt.upper() for prompt in prompts]


class Fixed:
    name = "fixed"

    def __init__(self, answers, **attributes):
        self.answers = answers
        vars(self).update(attributes)

    def generate(self, prompts):
        return self.answers


class TestAdapterModel(ModelTestMixin):
    def make_model(self):
        return AdapterModel(Upper())


class TestConcurrentAdapterModel(ModelTestMixin):
    def make_model(self):
        adapter = Upper()
        adapter.max_concurrency = 4
        return AdapterModel(adapter)


def test_name_stands_in_model_data():
    data = AdapterModel(Upper()).model_data()
    assert (data.model_family, data.model_name) == ("adapter", "upper")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_wrong_number_of_answers_names_both_counts(count):
    with pytest.raises(ModelError, match=f"fixed gave {count} answers to 2 requests"):
        AdapterModel(Fixed(["x"] * count)).generate_text(["a", "b"])


@pytest.mark.parametrize("answers", ["xy", b"xy", None, 7])
def test_something_else_than_a_list_is_an_error(answers):
    with pytest.raises(ModelError, match=f"gave a {type(answers).__name__}"):
        AdapterModel(Fixed(answers)).generate_text(["a", "b"])


@pytest.mark.parametrize("wrong", [None, 4, b"x", ["x"]])
def test_an_answer_that_is_no_string_is_an_error(wrong):
    with pytest.raises(ModelError, match=f"gave a {type(wrong).__name__} as its answer number 2"):
        AdapterModel(Fixed(["x", wrong])).generate_text(["a", "b"])


def test_completions_keep_their_facts():
    completion = Completion("x", finish_reason="length", completion_tokens=5)
    answer = AdapterModel(Fixed([completion])).generate_text("a")
    assert (answer.finish_reason, answer.completion_tokens) == ("length", 5)


def test_emptying_the_list_of_prompts_does_no_harm():
    class Greedy:
        name = "greedy"

        def generate(self, prompts):
            return [prompts.pop(0) for _ in range(len(prompts))]

    assert AdapterModel(Greedy()).generate_text(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("attributes", "fingerprint"),
    [
        ({}, None),
        ({"fingerprint": lambda: "v1, temperature 0"}, "v1, temperature 0"),
        ({"fingerprint": lambda: None}, None),
        ({"fingerprint": "v2"}, "v2"),
    ],
)
def test_fingerprint_is_the_adapters_own(attributes, fingerprint):
    assert AdapterModel(Fixed([], **attributes)).fingerprint() == fingerprint


def test_fingerprint_of_a_wrong_type_is_an_error():
    with pytest.raises(ModelError, match="fingerprint that is a int"):
        AdapterModel(Fixed([], fingerprint=lambda: 3)).fingerprint()


def test_max_concurrency_is_the_adapters_own():
    assert AdapterModel(Fixed([])).max_concurrency == 1
    assert AdapterModel(Fixed([], max_concurrency=8)).max_concurrency == 8


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "4", True])
def test_max_concurrency_must_be_a_count(wrong):
    with pytest.raises(ModelError, match="max_concurrency of the adapter fixed"):
        AdapterModel(Fixed([], max_concurrency=wrong))


@pytest.mark.parametrize("name", [None, "", "  ", 3])
def test_an_adapter_needs_a_name(name):
    with pytest.raises(ModelError, match="needs an attribute `name`"):
        AdapterModel(Fixed([], name=name))


def test_an_adapter_needs_generate():
    class Mute:
        name = "mute"

    with pytest.raises(ModelError, match="mute needs a method generate"):
        AdapterModel(Mute())


def test_log_probs_are_unsupported():
    with pytest.raises(UnsupportedByModel, match="upper"):
        AdapterModel(Upper()).cond_log_prob("a", ["b", "c"])


def test_errors_of_the_adapter_come_through():
    class Broken:
        name = "broken"

        def generate(self, prompts):
            raise ConnectionError("line is dead")

    with pytest.raises(ConnectionError, match="line is dead"):
        AdapterModel(Broken()).generate_text("a")
