# SPDX-License-Identifier: Apache-2.0
"""The Hugging Face model beside lm-eval's `hf`, on the same weights, in the same process.

usage: python benchmarks/models.py [--model smollm2 | --model FOLDER] [--examples 40] [--shots 0,5]
                                   [--texts 64] [--peer_batches 8,16] [--threads 1]

Questions, choices and prompts are random words. CPU seconds are those of the process; "tokens" are
tokens through the decoder, and "tree" is the number of distinct prefixes in the whole case, counted
here: what no scorer can do without. lm-eval is measured where it is installed.
The HTTP half is models_http.py; start-up is startup.py.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from lmeval.models.huggingface import HuggingFaceModel
from lmeval.models.smollm2 import SmolLM2Model

_TEXT = (
    "time people way water words day part place year house world school still learn plant cover "
    "food sun four between state keep eye never last let thought city tree cross farm hard start "
    "might story saw far sea draw left late run while press close night real life few north open "
    "seem together next white children begin got walk example ease paper group always music those"
)
WORDS = _TEXT.split()
N_CHOICES, CONTEXT_WORDS, CHOICE_WORDS, NEW_TOKENS = 4, 75, (5, 8), 32


@attrs.frozen
class Question:
    """A context and its choices."""

    context: str
    choices: tuple[str, ...]


@attrs.frozen
class Measured:
    """What one contender needed for one case."""

    name: str
    cpu_s: float
    wall_s: float
    tokens: int
    head_rows: int
    answers: list[Any]


def phrase(draw: random.Random, low: int, high: int) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(low, high)))


def questions(n: int, shots: int, seed: int = 0) -> list[Question]:
    """N questions of about 95 tokens behind the same solved ones."""
    draw = random.Random(seed)

    def question() -> str:
        body = phrase(draw, CONTEXT_WORDS, CONTEXT_WORDS)
        return f"{body}\nQuestion: {phrase(draw, 10, 10)}?\nAnswer:"

    prefix = "".join(f"{question()} {phrase(draw, *CHOICE_WORDS)}\n\n" for _ in range(shots))
    return [
        Question(
            prefix + question(),
            tuple(" " + phrase(draw, *CHOICE_WORDS) for _ in range(N_CHOICES)),
        )
        for _ in range(n)
    ]


def story_prompts(n: int, seed: int = 1) -> list[str]:
    """N prompts of mixed lengths, about 15 to 150 tokens."""
    draw = random.Random(seed)
    return [f"Write a story. {phrase(draw, 10, 140)}." for _ in range(n)]


def tree_tokens(model: HuggingFaceModel, asked: Sequence[Question]) -> int:
    """Distinct prefixes of everything that has to be read."""
    prefixes: set[int] = set()
    for question in asked:
        texts = [question.context + choice for choice in question.choices]
        for ids in model._tokens.encode(texts):
            for end in range(1, len(ids)):
                prefixes.add(hash(ids[:end]))
    return len(prefixes)


@contextlib.contextmanager
def counted_forward(model: Any) -> Iterator[dict[str, int]]:
    """Counts the tokens and the rows of the LM head that pass through `model`."""
    counts = {"tokens": 0, "head_rows": 0}

    def saw_tokens(_: Any, arguments: Any, output: Any) -> None:
        counts["tokens"] += arguments[0].numel()

    def saw_rows(_: Any, arguments: Any, output: Any) -> None:
        counts["head_rows"] += arguments[0].shape[:-1].numel()

    hooks = [
        model.get_input_embeddings().register_forward_hook(saw_tokens),
        model.get_output_embeddings().register_forward_hook(saw_rows),
    ]
    yield counts
    for hook in hooks:
        hook.remove()


def measured(name: str, model: HuggingFaceModel, work: Any) -> Measured:
    with counted_forward(model._model) as counts:
        wall, cpu = time.perf_counter(), time.process_time()
        answers = work()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(name, cpu, wall, counts["tokens"], counts["head_rows"], answers)


def our_scores(model: HuggingFaceModel, asked: Sequence[Question], batch: int) -> list[float]:
    """Scores in calls of `batch` questions, as an engine makes them."""
    scores: list[float] = []
    for start in range(0, len(asked), batch):
        part = asked[start : start + batch]
        contexts = [question.context for question in part]
        choices = [question.choices for question in part]
        for row in model.score(contexts, choices):
            scores += row
    return scores


def peer(model: HuggingFaceModel, batch: int) -> Any:
    """lm-eval's model around the same weights and tokenizer."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=model._model,
        tokenizer=model._tokens.tokenizer,
        batch_size=batch,
        max_length=model.context_length,
    )


def instances(kind: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    return [
        Instance(request_type=kind, doc={}, arguments=one, idx=at)
        for at, one in enumerate(arguments)
    ]


def peer_scores(model: HuggingFaceModel, asked: Sequence[Question], batch: int) -> list[float]:
    pairs = [(question.context, choice) for question in asked for choice in question.choices]
    answers = peer(model, batch).loglikelihood(instances("loglikelihood", pairs), disable_tqdm=True)
    return [value for value, _ in answers]


def peer_texts(model: HuggingFaceModel, prompts: Sequence[str], batch: int) -> list[str]:
    wishes = {"until": [], "max_gen_toks": NEW_TOKENS, "do_sample": False}
    requests = instances("generate_until", [(prompt, wishes) for prompt in prompts])
    texts: list[str] = peer(model, batch).generate_until(requests, disable_tqdm=True)
    return texts


def compare_scores(
    model: HuggingFaceModel, n: int, shots: int, batch: int, peer_batches: Sequence[int]
) -> None:
    """Print the table of one multiple-choice case."""
    asked = questions(n, shots)
    floor = tree_tokens(model, asked)
    before = model.usage()["scored_tokens"]
    runs = [measured("lmeval", model, lambda: our_scores(model, asked, batch))]
    n_scored = model.usage()["scored_tokens"] - before
    for size in peer_batches:
        runs.append(
            measured(
                f"lm-eval, batch {size}", model, lambda size=size: peer_scores(model, asked, size)
            )
        )
    print(f"\n{n} questions, {N_CHOICES} choices, {shots} shots ({floor} distinct prefixes)")
    print(f"{'':20}{'rows/CPU s':>12}{'CPU s':>9}{'wall s':>9}{'tokens/tree':>13}", end="")
    print(f"{'head rows/scored':>18}{'largest difference':>20}")
    for run in runs:
        difference = max(abs(a - b) for a, b in zip(runs[0].answers, run.answers, strict=True))
        print(f"{run.name:20}{n / run.cpu_s:12.3f}{run.cpu_s:9.1f}{run.wall_s:9.1f}", end="")
        print(f"{run.tokens / floor:13.3f}{run.head_rows / n_scored:18.3f}{difference:20.1e}")
    if runs[1:]:
        best = min(run.cpu_s for run in runs[1:])
        print(f"lmeval does {best / runs[0].cpu_s:.1f} times the rows per CPU second")


def compare_texts(model: HuggingFaceModel, n: int, peer_batches: Sequence[int]) -> None:
    """Print the table of the generation case."""
    prompts = story_prompts(n)
    n_written = model.usage()["generated_tokens"]
    runs = [measured("lmeval", model, lambda: model.generate_text(prompts))]
    n_written = model.usage()["generated_tokens"] - n_written
    for size in peer_batches:
        runs.append(
            measured(
                f"lm-eval, batch {size}", model, lambda size=size: peer_texts(model, prompts, size)
            )
        )
    print(f"\n{n} texts of up to {NEW_TOKENS} tokens, prompts of mixed lengths")
    print(f"{'':20}{'tokens/CPU s':>14}{'CPU s':>9}{'wall s':>9}{'tokens read':>13}", end="")
    print(f"{'equal texts':>13}")
    for run in runs:
        equal = sum(str(a) == b for a, b in zip(runs[0].answers, run.answers, strict=True))
        print(
            f"{run.name:20}{n_written / run.cpu_s:14.1f}{run.cpu_s:9.1f}{run.wall_s:9.1f}", end=""
        )
        print(f"{run.tokens:13}{equal:13}")
    if runs[1:]:
        best = min(run.cpu_s for run in runs[1:])
        print(f"lmeval writes {best / runs[0].cpu_s:.2f} times the tokens per CPU second")


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2", help="smollm2, or what `path` may be")
    parser.add_argument("--examples", type=int, default=40, help="questions in each case")
    parser.add_argument("--shots", type=numbers, default=[0, 5])
    parser.add_argument("--texts", type=int, default=64, help="texts to write; 0 for none")
    parser.add_argument("--batch", type=int, default=32, help="questions in one call of lmeval")
    parser.add_argument("--peer_batches", type=numbers, default=[8, 16])
    parser.add_argument("--threads", type=int, default=1)
    flags = parser.parse_args()
    import torch

    torch.set_num_threads(flags.threads)
    logging.disable(logging.WARNING)
    settings: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "dtype": "float32"}
    model = (
        SmolLM2Model(**settings)
        if flags.model == "smollm2"
        else HuggingFaceModel(path=flags.model, **settings)
    )
    peers = flags.peer_batches if importlib.util.find_spec("lm_eval") else []
    print(f"{model.name}, {flags.threads} thread(s), torch {torch.__version__}", end="")
    print("" if peers else "; lm-eval is not installed")
    for shots in flags.shots if flags.examples else ():
        compare_scores(model, flags.examples, shots, flags.batch, peers)
    if flags.texts:
        compare_texts(model, flags.texts, peers)


if __name__ == "__main__":
    main()
