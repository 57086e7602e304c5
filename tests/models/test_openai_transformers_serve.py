# SPDX-License-Identifier: Apache-2.0
"""A real server, `transformers serve`, with the real small model; its answers are those in-process.

What it needs stands in docs/testing.md; no hub is asked.
"""

import copy
import json
import os
import re
import subprocess
import sys

import pytest
from real_models import need, running_server

from lmeval.api.errors import FatalModelError, UnsupportedByModel
from lmeval.api.model import Prompt
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings
from lmeval.models.openai import OpenAIModel

pytestmark = pytest.mark.slow

# On a busy machine threads of one model wait for each other.
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
SHOTS = (("user", "2 + 2"), ("assistant", "4"), ("user", "3 + 4"))
PROMPTS = [
    QUESTION,
    "Name three colours.",
    Prompt("2 + 2\n4\n3 + 4", SHOTS),
    Prompt("Hello!", (("system", "Answer in French."), ("user", "Hello!"))),
    "  Blanks around,\n\n\tand lines.  ",
    "Übersetze: 日本 🙂",
    "Write a list of four fruits, one a line.",
    "",
]
THOUGHTS = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
        "content": {"close": "<|im_end|>", "content": "text"},
    },
}
"""How the server takes an answer apart, in transformers' own notation."""


@pytest.fixture(scope="module")
def folder(smollm2_chat, tmp_path_factory):
    """The model as a plain folder named smollm2, which transformers reads in a second."""
    need("fastapi", "uvicorn", "openai", install="'transformers[serving]'")
    folder = tmp_path_factory.mktemp("served") / "smollm2"
    read, tokenizer = smollm2_chat._model, copy.deepcopy(smollm2_chat._tokens.tokenizer)
    config = copy.deepcopy(read.config)
    del config.quantization_config  # transformers writes no model that came out of a GGUF file
    model = type(read)(config)
    model.load_state_dict(read.state_dict())
    # As most chat models state it: who wants the likeliest text has to ask for it.
    model.generation_config.do_sample = True
    model.save_pretrained(folder)
    tokenizer.chat_template += "{% if thought %}{{ '<think>\\n' ~ thought }}{% endif %}"
    tokenizer.response_template = THOUGHTS
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def url(folder):
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", folder.name]
    command += ["--device", "cpu", "--dtype", "float32"]
    with running_server(command, folder.parent, ENVIRONMENT) as base_url:
        yield base_url


@pytest.fixture
def ask(url):
    """Makes a model of the server."""
    return lambda **settings: OpenAIModel(
        **{"model": "smollm2", "base_url": url, "max_tokens": 16, **settings}
    )


def test_chat_answers_are_those_of_the_model_in_process(ask, smollm2_chat):
    served, own = ask().generate_text(PROMPTS), smollm2_chat.generate_text(PROMPTS)
    assert served == own
    assert [answer.error for answer in served] == [None] * len(PROMPTS)
    assert [a.prompt_tokens for a in served] == [a.prompt_tokens for a in own]
    assert [a.finish_reason for a in served] == [a.finish_reason for a in own]
    assert served[0] == ANSWER


def test_a_system_prompt_is_that_of_the_model_in_process(ask, folder):
    from lmeval.models.huggingface import HuggingFaceModel

    system = "You answer with one word."
    own = HuggingFaceModel(path=folder, chat_template=True, system_prompt=system, max_new_tokens=16)
    prompts = [PROMPTS[0], PROMPTS[3]]
    assert ask(system_prompt=system).generate_text(prompts) == own.generate_text(prompts)


def test_plain_text_is_continued_as_by_the_model_in_process(ask, folder):
    from lmeval.models.huggingface import HuggingFaceModel

    prompts = ["The capital of France is", "A, B, C,", "def add(a, b):\n    return a", "1 + 1 = "]
    own = HuggingFaceModel(path=folder, max_new_tokens=16).generate_text(prompts)
    assert ask(api="completions").generate_text(prompts) == own
    # The server takes one prompt a request; the refusal must not cost an answer.
    assert ask(api="completions", prompts_per_request=3).generate_text(prompts[1:3]) == own[1:3]


@pytest.mark.parametrize("send_stop", [True, False])
@pytest.mark.parametrize(
    ("stop", "answer"),
    [(" of", "The capital of"), ("France", "The capital of France"), ("never", ANSWER)],
)
def test_a_stop_string_ends_the_answer(ask, send_stop, stop, answer):
    model = ask(send_stop=send_stop)
    found = model.generate_text(QUESTION, stop_string=stop)
    assert (found, found.finish_reason) == (answer, "stop")


def test_an_answer_is_cut_to_its_greatest_length(ask):
    assert ask().generate_text(QUESTION, max_length=5) == ANSWER[:5]
    found = ask(max_tokens=3).generate_text(QUESTION)
    assert (found, found.finish_reason, found.completion_tokens) == ("The capital of", "length", 3)


def test_the_engine_gives_what_the_model_gives(ask):
    prompts = [f"What is {number} + 1?" for number in range(8)]
    alone = ask(max_tokens=6).generate_text(prompts)
    settings = EngineSettings(concurrency=8, batch_size=1)
    with Engine(ask(max_tokens=6), settings) as engine:
        assert engine.generate_text(prompts) == alone
    assert len(set(alone)) > 1


def test_samples_differ_and_come_again_with_the_seed(ask):
    prompts = ["Write a poem."] * 3
    first, again, other = (
        ask(temperature=1.5, seed=seed, max_tokens=8).generate_text(prompts) for seed in (1, 1, 7)
    )
    assert len(set(first)) == 3
    assert again == first
    assert set(other).isdisjoint(first)


def test_reasoning_that_the_server_sets_apart_is_no_answer(ask):
    def answer_after(thought, **settings):
        model = ask(extra_body={"chat_template_kwargs": {"thought": thought}}, **settings)
        return model.generate_text(QUESTION, stop_string="e")

    closed = answer_after("I greet.\n</think>\n\n")
    assert (closed.reasoning, closed.error) == ("I greet.", None)
    assert closed.index("e") == len(closed) - 1  # the one in the reasoning stopped nothing
    unclosed = answer_after("I know: ", max_tokens=4)
    assert (unclosed, unclosed.finish_reason) == ("", "length")
    assert unclosed.reasoning.startswith("I know:")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": "other"}, r"400: .*'smollm2'.*'other'"),
        ({"extra_body": {"top_k": 3}}, r"422: .*top_k"),
    ],
)
def test_a_request_that_the_server_refuses_has_its_words(ask, settings, said):
    with Engine(ask(**settings), EngineSettings(backoff_s=60.0)) as engine:  # never asked again
        (answer,) = engine.generate_text([QUESTION])
    assert answer == ""
    assert re.search(said, answer.error or "")


def test_a_wrong_address_says_what_to_check(ask, url):
    with pytest.raises(FatalModelError, match=r"404.*address, which mostly ends in /v1"):
        ask(base_url=url.removesuffix("/v1")).generate_text(QUESTION)


@pytest.mark.parametrize(
    ("api", "why"), [("chat", "as no chat interface can"), ("completions", "no log-probabilities")]
)
def test_scores_are_refused_in_one_sentence(ask, api, why):
    with pytest.raises(UnsupportedByModel, match=why) as refused:
        ask(api=api).cond_log_prob(QUESTION, [" Paris", " Rome"])
    assert len(str(refused.value).splitlines()) == 1


def evaluate(folder, name, *arguments):
    """Run the command line; gives its exit code, what it said, and the leaderboard or None."""
    board = folder / f"{name}.json"
    command = ["-m", "lmeval", "evaluate", "--nocache", "--quiet", "--include_per_example"]
    done = subprocess.run(
        [sys.executable, *command, "--output", board.name, *arguments],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    written = json.loads(board.read_text(encoding="utf-8")) if board.exists() else None
    return done.returncode, done.stderr, written


def test_shipped_tasks_have_the_same_leaderboard_as_in_process(url, folder, tmp_path):
    boards = []
    for model, settings in [
        ("openai", f"base_url={url},model=smollm2,max_tokens=8"),
        ("huggingface", f"path={folder},chat_template=true,max_new_tokens=8"),
    ]:
        tasks = ["--task", "arithmetic,multiple-choice", "--shots", "2", "--max_examples", "8"]
        code, said, board = evaluate(
            tmp_path, model, "--model", model, "--model_args", settings, *tasks
        )
        assert code == 0, said
        assert [(task["errors"], task["total"]) for task in board["tasks"]] == [(0, 8), (0, 8)]
        boards.append([(task["score"], predictions(task)) for task in board["tasks"]])
    assert boards[0] == boards[1]


def predictions(task):
    return {row["id"]: row["prediction"] for row in task["per_example"]}


def test_the_command_line_refuses_scores_before_the_run(url, tmp_path):
    row = {"id": "1", "prompt": "The sky is", "targets": ["blue"], "metric": "choice_likelihood"}
    (tmp_path / "sky.jsonl").write_text(json.dumps({**row, "extras": {"choices": ["blue", "x"]}}))
    settings = f"base_url={url},model=smollm2,api=completions"
    model = ["--model", "openai", "--model_args", settings]
    code, said, board = evaluate(tmp_path, "sky", "--tasks_dir", ".", "--task", "sky", *model)
    assert (code, board) == (2, None)
    assert "cannot score given text" in said and "Traceback" not in said
