# SPDX-License-Identifier: Apache-2.0
"""Log-probabilities and reports of the Hugging Face model, against a naive reference."""

import json
import logging
import math
import random

import pytest
from hf_tiny import (
    ARCHITECTURES,
    CHAT_TEMPLATE,
    WORDS,
    make_model,
    make_tokenizer,
    naive_score,
    save,
    torch,
    transformers,
)

from lmeval.api.errors import ModelError
from lmeval.api.model import Prompt
from lmeval.models.huggingface import HuggingFaceModel
from lmeval.testing import ModelTestMixin

_EXPANDED = {"bloom", "mpt"}
_ALONE = {"rwkv"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Architecture -> folder with a tiny model."""
    base = tmp_path_factory.mktemp("tiny")
    return {name: save(base / name, make_model(name), make_tokenizer()) for name in ARCHITECTURES}


@pytest.fixture(scope="module")
def llama(folders):
    return HuggingFaceModel(path=folders["llama"], batch_tokens=16)


def questions(n=6, n_choices=3, seed=0, prefix_words=12):
    """Contexts that share a beginning, and targets of one to four words."""
    draw = random.Random(seed)
    phrase = lambda low, high: " ".join(draw.choices(WORDS, k=draw.randint(low, high)))
    prefix = phrase(prefix_words, prefix_words)
    contexts = [f"{prefix}\n{phrase(1, 9)}" for _ in range(n)]
    return contexts, [[" " + phrase(1, 4) for _ in range(n_choices)] for _ in contexts]


def expected_scores(model, contexts, targets):
    """By the rule of the reference: encode the whole, cut behind the context's own tokens."""
    tokenizer, scores = model._tokens.tokenizer, []
    for context, wanted in zip(contexts, targets, strict=True):
        n_context = len(tokenizer.encode(context))
        whole = [tokenizer.encode(context + target) for target in wanted]
        scores.append(
            [naive_score(model._model, ids[:n_context], ids[n_context:]) for ids in whole]
        )
    return scores


def flat(rows):
    return [value for row in rows for value in row]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("batch_tokens", [5, 64])
def test_scores_are_those_of_plain_forward_passes(folders, architecture, batch_tokens):
    model = HuggingFaceModel(path=folders[architecture], batch_tokens=batch_tokens)
    contexts, targets = questions()
    found = model.cond_log_prob(contexts, targets, True)
    assert flat(found) == pytest.approx(flat(expected_scores(model, contexts, targets)), abs=1e-4)
    way = next(
        (
            way
            for way, names in (("expanded", _EXPANDED), ("alone", _ALONE))
            if architecture in names
        ),
        "packed",
    )
    assert f"scoring {way}" in model.model_data().decoding_params["shared_prefixes"]


@pytest.mark.parametrize("architecture", ["llama", "bloom", "rwkv"])
def test_scores_do_not_depend_on_the_batch(folders, architecture):
    model = HuggingFaceModel(path=folders[architecture])
    contexts, targets = questions()
    together = model.cond_log_prob(contexts, targets, True)
    for order in (range(len(contexts)), reversed(range(len(contexts)))):
        for at in order:
            alone = model.cond_log_prob(contexts[at], targets[at], True)
            assert alone == pytest.approx(together[at], abs=1e-5)


@pytest.mark.parametrize("architecture", ["bloom", "rwkv"])
def test_whole_texts_without_packed_rows(folders, architecture):
    model = HuggingFaceModel(path=folders[architecture], context_length=8, batch_tokens=9)
    texts = ["one two three four one two three four one", "hello world", "hello", ""]
    packed = [model._tokens.tokenizer.encode(text) for text in texts]
    assert len(packed[0]) > 8
    found = model.rolling_log_prob(texts)
    # The windows of the first text: BOS and 7 tokens of context at most, 8 tokens predicted.
    ids = [0, *packed[0]]
    first = naive_score(model._model, ids[:1], ids[1:9])
    rest = naive_score(model._model, ids[max(0, len(ids) - 9) : 9], ids[9:])
    others = [naive_score(model._model, [0], one) for one in packed[1:3]]
    assert found == pytest.approx([first + rest, *others, 0.0], abs=1e-4)


@pytest.mark.parametrize("context_length", [2, 3, 5])
def test_the_smallest_windows_are_still_packed(folders, context_length):
    model = HuggingFaceModel(path=folders["llama"], context_length=context_length)
    assert "scoring packed" in model.model_data().decoding_params["shared_prefixes"]
    found = model.cond_log_prob("the capital of France", [" is"], True)
    ids = model._tokens.tokenizer.encode("the capital of France is")[-context_length - 1 :]
    assert found == pytest.approx([naive_score(model._model, ids[:-1], ids[-1:])], abs=1e-4)
    assert model.generate_text("the capital of France").completion_tokens >= 1


def test_every_prefix_runs_once(llama):
    contexts, targets = questions()
    tokenizer = llama._tokens.tokenizer
    # The last token of a target is predicted and never read.
    read = [
        tokenizer.encode(context + target)[:-1]
        for context, wanted in zip(contexts, targets, strict=True)
        for target in wanted
    ]
    tree = {tuple(ids[: n + 1]) for ids in read for n in range(len(ids))}
    model = HuggingFaceModel(path=llama.settings.path, batch_tokens=16)
    model.cond_log_prob(contexts, targets, True)
    usage = model.usage()
    assert model.tokens_processed == usage["prefix_tree_tokens"] == len(tree)
    assert usage["tokens_without_sharing"] == sum(map(len, read))
    assert usage["lm_head_rows"] <= usage["scored_tokens"]


def test_the_common_beginning_is_kept_between_calls(folders):
    contexts, targets = questions(prefix_words=30)
    model = HuggingFaceModel(path=folders["llama"])
    model.cond_log_prob(contexts[:3], targets[:3], True)
    before = model.tokens_processed
    found = model.cond_log_prob(contexts[3:], targets[3:], True)
    second = model.tokens_processed - before
    fresh = HuggingFaceModel(path=folders["llama"])
    assert flat(found) == pytest.approx(
        flat(fresh.cond_log_prob(contexts[3:], targets[3:], True)), abs=1e-5
    )
    assert second <= fresh.tokens_processed - 30


def test_overlapping_requests_keep_their_own_positions(llama):
    contexts = ["The capital of France", "The capital of France is", "The capital of France is"]
    targets = [[" is Paris"], [" Paris"], [" Paris", " Paris"]]
    found = llama.cond_log_prob(contexts, targets, True)
    assert flat(found) == pytest.approx(flat(expected_scores(llama, contexts, targets)), abs=1e-4)


def test_a_token_across_the_join_is_scored_and_counted(llama):
    before = llama.usage()["tokens_across_the_join"]
    across = llama.cond_log_prob("hello wor", ["ld"], True)
    assert across == pytest.approx(llama.cond_log_prob("hello", [" world"], True), abs=1e-5)
    assert llama.usage()["tokens_across_the_join"] == before + 1


def test_empty_context_and_empty_target(llama):
    ids = llama._tokens.tokenizer.encode("hello world")
    found = llama.cond_log_prob("", ["hello world", ""], True)
    assert found == pytest.approx([naive_score(llama._model, [0], ids), 0.0], abs=1e-4)
    assert found.token_counts == (2, 0)


def test_no_targets_and_no_inputs(llama):
    assert llama.cond_log_prob(["hello"], [[]], True) == [[]]
    assert llama.cond_log_prob([], [], True) == []
    assert llama.generate_text([]) == []


def test_bos_stands_once(tmp_path):
    path = save(tmp_path / "m", make_model(), make_tokenizer(adds_bos=True))
    model = HuggingFaceModel(path=path)
    ids = model._tokens.tokenizer.encode("hello world", add_special_tokens=False)
    expected = naive_score(model._model, [0, *ids[:1]], ids[1:])
    for context in ("hello", "<s>hello"):
        assert model.cond_log_prob(context, [" world"], True) == pytest.approx([expected], abs=1e-4)


def test_truncation_is_reported_and_what_cannot_fit_fails_alone(folders):
    model = HuggingFaceModel(path=folders["llama"], context_length=8)
    long = " ".join(["one two three"] * 4)
    too_long = " four" * 9
    found = model.cond_log_prob(
        [long, "hello", "hello"], [[" four"], [" world", too_long], [" is"]]
    )
    assert [row.error for row in (found[0], found[2])] == [None, None]
    n_context = len(model._tokens.tokenizer.encode(long))
    assert found[0].truncated_tokens == n_context - 8
    assert found[1] == [-math.inf, -math.inf]
    assert found[1].error == (
        "error: a target of 9 tokens does not fit into the 8 that the model can see"
    )
    ids = model._tokens.tokenizer.encode(long + " four")
    found = model.cond_log_prob(long, [" four"], True)
    assert found == pytest.approx([naive_score(model._model, ids[-9:-1], ids[-1:])], abs=1e-4)
    assert model.usage()["truncated_requests"] == 2
    assert model.usage()["truncated_tokens"] == 2 * (n_context - 8)


@pytest.mark.parametrize("n_words", [0, 1, 5, 8, 9, 30])
def test_rolling_log_prob(folders, n_words):
    model = HuggingFaceModel(path=folders["llama"], context_length=8)
    text = " ".join(["one two three"] * 10)[: 4 * n_words].rstrip()
    ids = [0, *model._tokens.tokenizer.encode(text)]
    # The first window begins with BOS; a later one reads as much as fits and ends 8 tokens on.
    expected, done = 0.0, 1
    while done < len(ids):
        end = min(len(ids), 9 if done == 1 else done + 8)
        begin = max(0, end - 9)
        expected += naive_score(model._model, ids[begin:done], ids[done:end])
        done = end
    assert model.rolling_log_prob([text]) == pytest.approx([expected], abs=1e-4)


def test_normalized_log_probabilities_sum_to_one(llama):
    found = llama.cond_log_prob("hello", [" world", " one", " two"])
    assert sum(map(math.exp, found)) == pytest.approx(1)


def test_positions_that_depend_on_the_length_are_computed_alone(tmp_path):
    rope = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "short_factor": [1.0] * 4,
        "long_factor": [3.0] * 4,
        "original_max_position_embeddings": 20,
    }
    model = make_model(rope_parameters=rope)
    path = save(tmp_path / "m", model, make_tokenizer())
    model = HuggingFaceModel(path=path)
    contexts, targets = questions(prefix_words=9)
    lengths = [len(model._tokens.tokenizer.encode(context)) for context in contexts]
    assert min(lengths) < 16 < 20 < max(lengths)
    found = model.cond_log_prob(contexts, targets, True)
    assert flat(found) == pytest.approx(flat(expected_scores(model, contexts, targets)), abs=1e-4)
    assert "over 20 tokens alone" in model.model_data().decoding_params["shared_prefixes"]


def test_local_attention_by_column_is_not_packed(tmp_path):
    settings = {"num_layers": 2, "num_heads": 4, "window_size": 6}
    kinds = {"attention_types": [[["global", "local"], 1]]}
    ARCHITECTURES_TOO = {"num_hidden_layers": 2, "max_position_embeddings": 96}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        "gpt_neo", vocab_size=420, hidden_size=32, **settings, **kinds, **ARCHITECTURES_TOO
    )
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    model = HuggingFaceModel(path=save(tmp_path / "m", model, make_tokenizer()))
    contexts, targets = questions()
    assert flat(model.cond_log_prob(contexts, targets, True)) == pytest.approx(
        flat(expected_scores(model, contexts, targets)), abs=1e-4
    )
    assert "local attention" in model.model_data().decoding_params["shared_prefixes"]


def test_a_fall_back_is_said(folders, caplog):
    with caplog.at_level(logging.WARNING):
        HuggingFaceModel(path=folders["bloom"])
    assert "scoring expanded" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        HuggingFaceModel(path=folders["llama"])
    assert "scoring" not in caplog.text


def test_overflow_is_an_error_of_its_row(tmp_path):
    model = make_model()
    with torch.no_grad():
        model.model.embed_tokens.weight[make_tokenizer().encode(" Paris")[0]] = math.nan
    model = HuggingFaceModel(path=save(tmp_path / "m", model, make_tokenizer()))
    found = model.cond_log_prob(["the", "the Paris"], [[" world"], [" world"]], True)
    assert found[0].error is None
    assert math.isfinite(found[0][0])
    assert found[1].error.startswith("error: the model's output is not a number")
    texts = model.generate_text(["the Paris", "the"], 3)
    assert texts[0].error.startswith("error: the model's output is not a number")
    assert texts[1].error is None


def test_model_data_states_sizes_and_settings(folders):
    data = HuggingFaceModel(path=folders["llama"]).model_data()
    parameters = transformers.AutoModelForCausalLM.from_pretrained(folders["llama"])
    embeddings = 2 * 420 * 32
    assert data.total_params == sum(p.numel() for p in parameters.parameters())
    assert data.non_embedding_params == data.total_params - embeddings
    assert (data.model_family, data.model_name) == ("llama", "llama")
    assert data.decoding_params["dtype"] == "float32"
    assert data.decoding_params["context_length"] == 96
    json.dumps(dict(data.decoding_params))


def test_fingerprint_follows_what_can_change_an_answer(folders, tmp_path):
    path = folders["llama"]
    first = HuggingFaceModel(path=path).fingerprint()
    assert HuggingFaceModel(path=path, batch_size=2, batch_tokens=9).fingerprint() == first
    copy = save(tmp_path / "copy" / "llama", make_model(), make_tokenizer())
    assert HuggingFaceModel(path=copy).fingerprint() == first
    other_weights = save(tmp_path / "seed" / "llama", make_model(seed=1), make_tokenizer())
    other_tokenizer = save(tmp_path / "bos" / "llama", make_model(), make_tokenizer(adds_bos=True))
    others = [
        HuggingFaceModel(path=other_weights),
        HuggingFaceModel(path=other_tokenizer),
        *(
            HuggingFaceModel(path=path, **setting)
            for setting in (
                {"dtype": "bfloat16"},
                {"add_bos": True},
                {"context_length": 50},
                {"max_new_tokens": 5},
                {"temperature": 0.5},
                {"temperature": 0.5, "seed": 1},
            )
        ),
    ]
    prints = {first, *(model.fingerprint() for model in others)}
    assert len(prints) == len(others) + 1


def test_chat_scores_behind_the_template(tmp_path):
    tokenizer = make_tokenizer(adds_bos=True, chat_template=CHAT_TEMPLATE)
    model = HuggingFaceModel(path=save(tmp_path / "m", make_model(), tokenizer), chat_template=True)
    prompt = Prompt("hello world", [("user", "hello"), ("assistant", "world"), ("user", "who")])
    text = (
        "<s><|user|>\nhello<|end|>\n<|assistant|>\nworld<|end|>\n<|user|>\nwho<|end|>\n"
        "<|assistant|>\n"
    )
    context = tokenizer.encode(text, add_special_tokens=False)
    target = tokenizer.encode("Paris", add_special_tokens=False)
    expected = naive_score(model._model, context, target)
    assert model.cond_log_prob(prompt, ["Paris"], True) == pytest.approx([expected], abs=1e-4)


def test_half_precision_stays_near(folders):
    contexts, targets = questions(n=2)
    full = HuggingFaceModel(path=folders["llama"])
    half = HuggingFaceModel(path=folders["llama"], dtype="bfloat16")
    assert half.model_data().decoding_params["dtype"] == "bfloat16"
    assert flat(half.cond_log_prob(contexts, targets, True)) == pytest.approx(
        flat(full.cond_log_prob(contexts, targets, True)), abs=1.0
    )


class TestContract(ModelTestMixin):
    scores_text = True
    scores_whole_texts = True

    @pytest.fixture(autouse=True)
    def _folder(self, folders):
        self.path = folders["llama"]

    def make_model(self):
        return HuggingFaceModel(path=self.path, max_new_tokens=8)


class TestContractOfASamplingModel(TestContract):
    repeatable = False

    def make_model(self):
        return HuggingFaceModel(path=self.path, max_new_tokens=8, temperature=1.0)


def test_a_closed_model_holds_nothing(folders):
    model = HuggingFaceModel(path=folders["llama"])
    model.close()
    assert not hasattr(model, "_model")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"path": "./nothing/here"}, "does not exist"),
        ({"path": "a/b/c"}, "does not exist"),
        ({"path": "nothing.gguf"}, "does not exist"),
        ({"path": "llama", "revision": "v1"}, "'revision' is for models on the hub"),
        ({"path": "llama", "chat_template": True}, "no chat template"),
        ({"path": "llama", "device": "abacus"}, "device 'abacus' cannot be used"),
        ({"path": "llama", "context_length": 1}, "'context_length' must be at least 2"),
        ({"path": "llama/config.json"}, "must be a .gguf"),
        ({"path": "empty"}, "cannot be loaded"),
        ({"path": "empty/lama"}, "the folder empty holds none"),
        ({"path": "nobody/lama"}, "no file or folder of that name here"),
        ({"path": "empty/lama", "revision": "main"}, "no file or folder of that name here"),
        ({"path": "encoder_decoder"}, "only causal language models"),
    ],
)
def test_faults_are_one_sentence(folders, tmp_path, monkeypatch, settings, text):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "llama").symlink_to(folders["llama"])
    (tmp_path / "empty").mkdir()
    transformers.T5Config().save_pretrained(tmp_path / "encoder_decoder")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError) as caught:
        HuggingFaceModel(**settings)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)
