# SPDX-License-Identifier: Apache-2.0
"""Text that the Hugging Face model writes, against a naive greedy loop."""

import json
import random

import numpy as np
import pytest
from hf_tiny import (
    ARCHITECTURES,
    CHAT_TEMPLATE,
    WORDS,
    make_model,
    make_tokenizer,
    naive_greedy,
    save,
    torch,
)

from lmeval.api.model import Prompt
from lmeval.models.hf.sampling import Sampler
from lmeval.models.hf.writing import TextStream
from lmeval.models.huggingface import HuggingFaceModel


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("tiny")
    return {name: save(base / name, make_model(name), make_tokenizer()) for name in ARCHITECTURES}


def prompts(n=8, longest=40, seed=0):
    """Prompts of 3 to `longest` words, two of them equal."""
    draw = random.Random(seed)
    lengths = [3, longest, *(draw.randint(3, longest) for _ in range(n - 3))]
    texts = [" ".join(draw.choices(WORDS, k=length)) for length in lengths]
    return [*texts, texts[0]]


def naive_texts(model, texts, n_tokens):
    tokenizer = model._tokens.tokenizer
    return [
        tokenizer.decode(
            naive_greedy(model._model, tokenizer.encode(text), n_tokens, {1}),
            skip_special_tokens=True,
        )
        for text in texts
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_text_is_that_of_a_naive_loop_whatever_the_batch(folders, architecture):
    texts = prompts()
    expected = None
    for batch_size in (1, 3, 8):
        model = HuggingFaceModel(
            path=folders[architecture], batch_size=batch_size, batch_tokens=16, max_new_tokens=9
        )
        expected = expected or naive_texts(model, texts, 9)
        assert model.generate_text(texts) == expected
    assert model.deterministic


def test_a_finished_text_makes_room_for_the_next(folders):
    texts = prompts(n=6, longest=10)
    model = HuggingFaceModel(path=folders["llama"], batch_size=2, max_new_tokens=6)
    found = model.generate_text(texts)
    usage = model.usage()
    n_written = sum(text.completion_tokens for text in found)
    assert usage["generated_tokens"] == n_written
    # Each prompt token once; each written token but the last of its text is read once.
    assert usage["tokens_processed"] <= usage["prefix_tree_tokens"] + n_written - len(texts)
    assert {text.finish_reason for text in found} <= {"length", "stop"}


def test_long_texts_outgrow_the_room_of_a_cache(folders):
    model = HuggingFaceModel(path=folders["llama"], batch_size=2, max_new_tokens=70)
    texts = ["hello world", "one two three four five six", "the capital of France"]
    assert model.generate_text(texts) == naive_texts(model, texts, 70)


def with_end_token(folder, base, token):
    """A copy of the tiny Llama whose generation config names `token` as the end of a text."""
    model = make_model()
    model.generation_config.eos_token_id = [1, token]
    return save(folder, model, base)


def test_a_token_that_ends_the_text_is_no_part_of_it(folders, tmp_path):
    model = HuggingFaceModel(path=folders["llama"])
    ids = model._tokens.tokenizer.encode("hello world")
    written = naive_greedy(model._model, ids, 6)
    end = next(token for at, token in enumerate(written) if at and token not in written[:at])
    path = with_end_token(tmp_path / "m", make_tokenizer(), end)
    answer = HuggingFaceModel(path=path).generate_text("hello world")
    expected = written[: written.index(end)]
    assert answer == model._tokens.decode(expected)
    assert (answer.finish_reason, answer.completion_tokens) == ("stop", len(expected))
    assert answer.prompt_tokens == len(ids)


def test_a_stop_string_ends_the_text(folders):
    model = HuggingFaceModel(path=folders["llama"], max_new_tokens=12)
    whole = str(model.generate_text("hello world"))
    stop = whole[5:8]
    before = model.usage()["generated_tokens"]
    answer = model.generate_text("hello world", stop_string=["never seen", stop])
    assert answer == whole[: whole.index(stop, 1) + len(stop)]
    assert answer.finish_reason == "stop"
    assert model.usage()["generated_tokens"] - before < 12


@pytest.mark.parametrize("max_length", [1, 2, 3])
def test_a_character_may_take_several_tokens(chat_folder, max_length):
    model = scripted(chat_folder, "\u65e5\u672c\u8a9e\u65e5", chat_template=False)
    assert len(model._tokens.tokenizer.encode("\u65e5", add_special_tokens=False)) == 3
    answer = model.generate_text("the", max_length=max_length)
    assert answer == "\u65e5\u672c\u8a9e"[:max_length]


def test_max_length_is_in_characters(folders):
    model = HuggingFaceModel(path=folders["llama"], max_new_tokens=12)
    whole = str(model.generate_text("hello world"))
    answer = model.generate_text("hello world", max_length=5)
    assert answer == whole[:5]
    assert answer.finish_reason == "length"


@pytest.mark.parametrize(
    ("n_words", "n_read", "n_written"),
    # Of 32 tokens an eighth is for the answer in any case, and all that the prompt leaves.
    [(10, 10, 6), (28, 28, 4), (30, 28, 4), (60, 28, 4)],
)
def test_a_long_prompt_leaves_an_eighth_for_the_answer(folders, n_words, n_read, n_written):
    model = HuggingFaceModel(path=folders["llama"], context_length=32, max_new_tokens=6)
    text = " two" * n_words
    assert len(model._tokens.tokenizer.encode(text)) == n_words
    answer = model.generate_text(text)
    assert (answer.prompt_tokens, answer.completion_tokens) == (n_read, n_written)
    assert answer == naive_texts(model, [" two" * n_read], n_written)[0]
    assert model.usage()["truncated_tokens"] == n_words - n_read


def test_an_empty_prompt_is_continued_from_bos(folders):
    model = HuggingFaceModel(path=folders["llama"], max_new_tokens=5)
    expected = naive_greedy(model._model, [0], 5, {1})
    assert model.generate_text("") == model._tokens.decode(expected)


def test_samples_are_reproducible_whatever_the_batch(folders):
    texts = prompts(n=5, longest=9)
    settings = {"path": folders["llama"], "temperature": 1.0, "max_new_tokens": 8}
    model = HuggingFaceModel(**settings, batch_size=8, seed=3)
    found = model.generate_text(texts)
    assert found[0] != found[-1]  # one prompt, two samples
    assert not model.deterministic
    for batch_size, order in ((1, 1), (3, -1)):
        other = HuggingFaceModel(**settings, batch_size=batch_size, seed=3)
        # One call each, as an engine may split them; the last prompt is the first one again.
        parts = [other.generate_text([text])[0] for text in texts[:-1][::order]][::order]
        again = other.generate_text(Prompt.numbered(texts[-1], 1))
        assert [*parts, again] == found
    assert HuggingFaceModel(**settings, seed=4).generate_text(texts) != found


def test_draws_follow_the_distribution():
    sampler = Sampler(temperature=0.5, top_p=1.0, seed=0)
    # At temperature 0.5 odds of 2 become odds of 4.
    logits = torch.log(torch.tensor([[2.0, 1.0, 0.0]]))
    generator = sampler.generator([1, 2], 0)
    drawn = [sampler.choose(logits, [generator])[0] for _ in range(4000)]
    assert np.mean(np.equal(drawn, 0)) == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 4000))
    assert 2 not in drawn


def test_top_p_keeps_the_smallest_sufficient_set():
    sampler = Sampler(temperature=1.0, top_p=0.7, seed=0)
    logits = torch.log(torch.tensor([[0.1, 0.4, 0.2, 0.3]]))
    generator = sampler.generator([1], 0)
    assert {sampler.choose(logits, [generator])[0] for _ in range(400)} == {1, 3}


def test_temperature_zero_draws_nothing():
    generator = np.random.default_rng(0)
    sampler = Sampler(temperature=0.0, top_p=1.0, seed=0)
    assert sampler.choose(torch.tensor([[0.0, 2.0, 1.0]]), [generator]) == [1]
    assert generator.random() == np.random.default_rng(0).random()


@pytest.mark.parametrize(
    "text", ["hello world", "caf\u00e9 \u65e5\u672c\u8a9e", " \n x", "\U0001f600!"]
)
def test_a_stream_of_tokens_gives_the_text_of_all(text):
    tokenizer = make_tokenizer()
    stream = TextStream(tokenizer.decode)
    texts = []
    for token in tokenizer.encode(text):
        stream.add(token)
        texts.append(stream.text)
    assert stream.text == text
    assert all(text.startswith(part) for part in texts)


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory):
    tokenizer = make_tokenizer(adds_bos=True, chat_template=CHAT_TEMPLATE)
    return save(tmp_path_factory.mktemp("chat") / "m", make_model(), tokenizer)


def test_chat_prompts_have_bos_once_and_turns(chat_folder):
    model = HuggingFaceModel(
        path=chat_folder, chat_template=True, system_prompt="the answer", max_new_tokens=5
    )
    prompt = Prompt("unused", [("user", "one"), ("assistant", "two"), ("user", "three")])
    text = (
        "<s><|system|>\nthe answer<|end|>\n<|user|>\none<|end|>\n<|assistant|>\ntwo<|end|>\n"
        "<|user|>\nthree<|end|>\n<|assistant|>\n"
    )
    ids = model._tokens.tokenizer.encode(text, add_special_tokens=False)
    expected = model._tokens.decode(naive_greedy(model._model, ids, 5, {1, 2}))
    found = model.generate_text([prompt, "three"])
    assert found[0] == expected
    assert found[0].prompt_tokens == len(ids)


class Scripted(torch.nn.Module):
    """A head that writes given tokens, whatever it is shown."""

    def __init__(self, head, script, start):
        super().__init__()
        self.head, self.script, self.left = head, script, start

    @property
    def weight(self):
        return self.head.weight

    def forward(self, hidden):
        logits = torch.zeros(*hidden.shape[:-1], 420)
        logits[..., self.script[min(self.left, len(self.script) - 1)]] = 1.0
        self.left += 1
        return logits


def scripted(chat_folder, text, **settings):
    """A chat model that writes the tokens of `text`."""
    model = HuggingFaceModel(path=chat_folder, **{"chat_template": True, **settings})
    script = model._tokens.tokenizer.encode(text, add_special_tokens=False)
    model._model.lm_head = Scripted(model._model.lm_head, script, 0)
    return model


def test_the_end_of_a_turn_ends_the_answer(chat_folder):
    model = scripted(chat_folder, "Paris<|end|>\n<|user|>\nhello")
    answer = model.generate_text("the capital")
    assert (answer, answer.finish_reason) == ("Paris", "stop")


def test_stop_strings_do_not_apply_to_reasoning(chat_folder):
    model = scripted(chat_folder, "<think>one\n\ntwo</think>\n\n42\n\nthree<|end|>")
    answer = model.generate_text("who", stop_string="\n\n")
    assert answer == "42\n\n"
    assert answer.reasoning == "one\n\ntwo"
    assert answer.raw == "<think>one\n\ntwo</think>\n\n42\n\n"


def test_reasoning_that_is_cut_off_leaves_an_empty_answer(chat_folder):
    model = scripted(chat_folder, "<think>one two three four five", max_new_tokens=15)
    answer = model.generate_text("who")
    assert (answer, answer.finish_reason) == ("", "length")
    assert answer.reasoning


def test_settings_are_in_the_record(folders):
    model = HuggingFaceModel(path=folders["llama"], temperature=0.7, top_p=0.9, seed=5)
    decoding = model.model_data().decoding_params
    assert [decoding[name] for name in ("temperature", "top_p", "seed")] == [0.7, 0.9, 5]
    json.dumps(dict(decoding))
