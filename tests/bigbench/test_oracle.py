# SPDX-License-Identifier: Apache-2.0
"""Every shared task against what the original BIG-bench code answered."""

import math

import pytest
from oracle import RecordingModel, differences, expected, raw_task, synthetic_tasks

from lmeval import bigbench
from lmeval.api import metrics
from lmeval.api.errors import LmevalError
from lmeval.api.options import TaskOptions
from lmeval.bigbench.loading import LoadSettings, load_task_dict

pytest.importorskip("sacrebleu")
pytest.importorskip("rouge_score")


@pytest.fixture(autouse=True)
def _bleurt(monkeypatch):
    monkeypatch.setattr(metrics, "_registered", dict(metrics._registered))
    metrics.metric("bleurt")(lambda prediction, targets, extras: 0.0)


def options_of(entry):
    shots = tuple(dict.fromkeys(score["number_of_shots"] for score in entry["scores"]))
    return TaskOptions(shots=shots, max_examples=entry["max_examples"])


def folder_tasks(shared, section, ties=0):
    found = {}
    for name, entry in expected(shared)[section].items():
        folder = shared / "bigbench_tasks" / name
        task = bigbench.load_json_task(folder, name, options_of(entry), rouge_seed=0)
        if difference := differences(entry, task, raw_task(folder), ties):
            found[name] = difference
    return found


@pytest.mark.parametrize(("section", "ties"), [("json", 0), ("cut", 0), ("ties", 2)])
def test_real_tasks_ask_and_score_as_the_original(shared, section, ties):
    assert folder_tasks(shared, section, ties) == {}


def test_synthetic_tasks_ask_and_score_as_the_original(shared):
    found = {}
    for name, entry in expected(shared)["synthetic"].items():
        if entry["ok"]:
            raw = synthetic_tasks(shared)[name]
            task = load_task_dict(raw, LoadSettings(options=options_of(entry), rouge_seed=0))
            if difference := differences(entry, task, raw):
                found[name] = difference
    assert found == {}


def test_rouge_is_the_mean_unless_the_bootstrap_is_asked_for(shared):
    n_compared = 0
    for name, entry in expected(shared)["json"].items():
        if not any("rouge_exact" in score for score in entry["scores"]):
            continue
        folder = shared / "bigbench_tasks" / name
        task = bigbench.load_json_task(folder, name, options_of(entry))
        scores = task.evaluate_model(RecordingModel(raw_task(folder)))
        for wanted, given in zip(entry["scores"], scores, strict=True):
            for kind, exact in wanted.get("rouge_exact", {}).items():
                n_compared += 1
                assert math.isclose(given.score_dict[kind], exact["mean"], abs_tol=1e-8), name
    assert n_compared > 100


def test_what_the_original_fails_on_is_refused_when_the_task_is_loaded(shared):
    not_refused = []
    for name, entry in expected(shared)["synthetic"].items():
        if not name.startswith("bad_"):
            continue
        raw = synthetic_tasks(shared)[name]
        try:
            load_task_dict(raw, LoadSettings(options=TaskOptions(shots=(0, 2))))
        except LmevalError as error:
            assert len(str(error).splitlines()) == 1
        else:
            not_refused.append((name, entry["error"]))
    assert not_refused == []
