# SPDX-License-Identifier: Apache-2.0
"""`lmeval cache`: show, prune and export."""

import io
import json

import pytest
from absl import flags

from lmeval.api.errors import ResultsError, UsageError
from lmeval.api.model import BatchModel, ModelData, Prompt
from lmeval.cli import cache
from lmeval.engine.cache import STORE_NAME
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings


class EchoModel(BatchModel):
    def __init__(self, name):
        self.model_name = name

    def model_data(self):
        return ModelData("test", self.model_name)

    def fingerprint(self):
        return f"{self.model_name} at revision 1"

    def complete(self, prompts, max_length, stops):
        return [f"[{prompt}]\n" for prompt in prompts]

    def score(self, contexts, targets):
        return [[-1.5, -float("inf")] for _ in targets]


@pytest.fixture
def folder(tmp_path):
    for name, n_prompts in (("alpha", 3), ("beta", 2)):
        with Engine(EchoModel(name), EngineSettings(cache_dir=tmp_path)) as engine:
            engine.generate_text([f"{name} {number}" for number in range(n_prompts)], 20, "]")
    return tmp_path


def run(folder, *arguments):
    values = flags.FlagValues()
    cache.define_flags(values)
    positional = values(["lmeval cache", *arguments, f"--cache_dir={folder}"])[1:]
    out = io.StringIO()
    assert cache.run(positional, values, out) == 0
    return out.getvalue()


def test_show_counts_the_answers_of_each_model(folder):
    lines = [line.split() for line in run(folder).splitlines()]
    assert [line[0] for line in lines[4:]] == ["alpha", "beta"]
    assert [line[-3] for line in lines[4:]] == ["3", "2"]
    assert run(folder) == run(folder, "show")


def test_show_names_damaged_stores(folder):
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{STORE_NAME}.damaged-1-2{suffix}").write_text("")
    said = run(folder)
    assert said.count("A damaged store was set aside") == 1
    assert f"{STORE_NAME}.damaged-1-2*" in said


def test_prune_deletes_the_answers_of_one_model(folder):
    assert run(folder, "prune", "--model=alpha") == "3 answers deleted, 2 left.\n"
    assert "alpha" not in run(folder)
    assert run(folder, "prune", "--all") == "2 answers deleted, 0 left.\n"
    assert "No answers." in run(folder)


def test_prune_deletes_old_answers_only(folder):
    assert run(folder, "prune", "--older_than_days=1") == "0 answers deleted, 5 left.\n"
    assert run(folder, "prune", "--older_than_days=0") == "5 answers deleted, 0 left.\n"


def test_export_writes_every_answer_as_a_line_of_json(folder):
    records = [json.loads(line) for line in run(folder, "export").splitlines()]
    assert len(records) == 5
    last = {key: records[-1][key] for key in ("model", "kind", "prompt", "answer", "raw")}
    assert last == {
        "model": "beta",
        "kind": "generate_text",
        "prompt": "beta 1",
        "answer": "[beta 1]",
        "raw": "[beta 1]\n",
    }
    assert (records[-1]["max_length"], records[-1]["stop_strings"]) == (20, ["]"])
    assert (records[-1]["occurrence"], records[-1]["fingerprint"]) == (0, "beta at revision 1")


def test_export_of_one_model_into_a_file(folder, tmp_path):
    path = tmp_path / "answers.jsonl"
    said = run(folder, "export", "--model=beta", f"--output={path}")
    assert said == f"2 answers written to {path}\n"
    assert len(path.read_text().splitlines()) == 2
    with pytest.raises(ResultsError, match="cannot be written"):
        run(folder, "export", f"--output={path}")


def test_export_keeps_messages_targets_and_odd_text(tmp_path):
    with Engine(EchoModel("m"), EngineSettings(cache_dir=tmp_path)) as engine:
        engine.generate_text(Prompt("lone \ud800", messages=[("user", "hi")]))
        engine.cond_log_prob("q", ["a", "b"], True)
    text, scores = [json.loads(line) for line in run(tmp_path, "export").splitlines()]
    assert (text["prompt"], text["messages"]) == ("lone \ud800", [["user", "hi"]])
    assert (scores["targets"], scores["log_probs"]) == (["a", "b"], [-1.5, None])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["erase"], "knows show, prune and export"),
        (["prune", "export"], "knows show, prune and export"),
        (["prune"], "needs --model"),
        (["prune", "--all", "--model=alpha"], "needs --model"),
        (["show", "--model=alpha"], "--model belongs to"),
        (["export", "--older_than_days=1"], "--older_than_days belongs to"),
        (["prune", "--all", "--output=x"], "--output belongs to"),
    ],
)
def test_wrong_usage(folder, arguments, message):
    with pytest.raises(UsageError, match=message):
        run(folder, *arguments)


def test_a_folder_without_store_and_a_damaged_store(tmp_path):
    with pytest.raises(ResultsError, match="no stored answers"):
        run(tmp_path)
    (tmp_path / STORE_NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(ResultsError, match="cannot be used"):
        run(tmp_path)


def test_the_default_folder_is_that_of_evaluate(lmeval):
    (lmeval.folder / ".cache" / "lmeval").mkdir(parents=True)
    with Engine(
        EchoModel("m"), EngineSettings(cache_dir=lmeval.folder / ".cache/lmeval")
    ) as engine:
        engine.generate_text("q")
    assert lmeval("cache") == 0
    assert "m at revision 1" in lmeval.out
