# SPDX-License-Identifier: Apache-2.0
"""Tiny random models with a tokenizer of their own, made on the spot; nothing is downloaded."""

import pathlib

from real_models import need

need("torch", "transformers", "tokenizers", install="'lmeval[hf]'")

import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

# Models of this size gain nothing from threads, which wait for each other on a busy machine.
torch.set_num_threads(1)

SPECIAL_TOKENS = ("<s>", "</s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
CHAT_TEMPLATE = (
    "<s>{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_CORPUS = (
    "hello world, the world of words is wide",
    "the capital of France is Paris",
    "Question: who wrote the answer? Answer: the teacher wrote the answer",
    "one two three four five six seven eight nine ten",
)
WORDS = (
    *("hello", "world", "the", "capital", "of", "France", "is", "Paris"),
    *("one", "two", "three", "four", "who", "wrote", "answer"),
)
_SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 96,
    # Wide enough that a wrong mask or position shows in the third digit.
    "initializer_range": 0.3,
}
ARCHITECTURES = {
    "llama": {},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96},
    "gpt_neox": {},
    "mistral": {"sliding_window": 6},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "gemma2": {"head_dim": 8, "sliding_window": 6},
    "bloom": {"n_layer": 2, "n_head": 4},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 96},
    "rwkv": {"attention_hidden_size": 32},
}
"""Settings beyond `_SMALL`: rotary and absolute positions, sliding windows in all and in some
layers, linear biases instead of positions, and no cache of keys and values at all."""


def make_tokenizer(*, adds_bos=False, vocabulary=420, chat_template=None):
    """A byte-level BPE tokenizer; with a vocabulary of 0 there are no merges, a token a byte."""
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=alphabet,
        show_progress=False,
        min_frequency=1,
    )
    backend.train_from_iterator(_CORPUS, trainer)
    if adds_bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>"
    )
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def make_model(architecture="llama", seed=0, **settings):
    """A random model of an architecture, in float32 and evaluation mode."""
    torch.manual_seed(seed)
    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    values = {"vocab_size": 420, **_SMALL, **special, **ARCHITECTURES[architecture], **settings}
    config = transformers.AutoConfig.for_model(architecture, **values)
    return transformers.AutoModelForCausalLM.from_config(config).float().eval()


def save(folder: pathlib.Path, model, tokenizer) -> str:
    """Write both as a folder that can be loaded; its path."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def log_probs_after(model, ids):
    """Log-probabilities after each of `ids`, [n, vocabulary]: one plain forward pass."""
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([list(ids)])).logits[0].float(), dim=-1)


def naive_score(model, context, target):
    """The log-probability of target ids after context ids, by one plain forward pass.

    The last token is not read: where positions depend on the length, that makes a difference.
    """
    rows = log_probs_after(model, [*context, *target][:-1])
    return sum(rows[len(context) + at - 1, token].item() for at, token in enumerate(target))


def naive_greedy(model, prompt, n_tokens, ends=()):
    """Greedy continuation, everything computed anew for each token."""
    ids = list(prompt)
    while len(ids) < len(prompt) + n_tokens:
        token = int(log_probs_after(model, ids)[-1].argmax())
        if token in ends:
            break
        ids.append(token)
    return ids[len(prompt) :]
