# SPDX-License-Identifier: Apache-2.0
"""The other side of bigbench_conformance.py: the original's code, its stubs and the fake model.

The stubs stand for what can no longer be installed, and are written from the definitions: rouge is
t5's median of bootstrap means, seeded with 0 before each; BLEURT is 0.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import re
import string
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

# A table for larger tasks would be most of the memory that is measured.
LOOKUP_BYTES = 8 << 20
ROUGE_TYPES = ["rouge1", "rouge2", "rougeLsum"]


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = []
    for member, value in members.items():
        setattr(module, member, value)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return module


class _Anything:
    def __getattr__(self, name: str) -> Any:
        return _Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return _Anything()


class _Bleurt:
    def compute(self, references: list[str], predictions: list[str]) -> dict[str, list[float]]:
        return {"scores": [0.0] * len(predictions)}


def _bleu(targets: Any, predictions: Any) -> dict[str, float]:
    import sacrebleu

    references = targets if isinstance(targets[0], list) else [targets]
    score = sacrebleu.corpus_bleu(
        predictions, references, smooth_method="exp", force=False, lowercase=False, tokenize="intl"
    )
    return {"bleu": score.score}


def _rouge(targets: Any, predictions: Any) -> dict[str, float]:
    import numpy as np
    from rouge_score import rouge_scorer, scoring

    scorer = rouge_scorer.RougeScorer(ROUGE_TYPES)
    aggregator = scoring.BootstrapAggregator()
    for target, prediction in zip(targets, predictions, strict=False):
        target, prediction = (str(text).replace(" . ", " .\n") for text in (target, prediction))
        aggregator.add_scores(scorer.score(target=target, prediction=prediction))
    if len(predictions) == 1:  # every bootstrap of one row is that row
        single = aggregator._scores
        return {name: single[name][0].fmeasure * 100 for name in ROUGE_TYPES}
    np.random.seed(0)
    result = aggregator.aggregate()
    return {name: result[name].mid.fmeasure * 100 for name in ROUGE_TYPES}


def _squad(targets: Any, predictions: Any) -> dict[str, float]:
    def plain(text: str) -> str:
        text = "".join(letter for letter in text.lower() if letter not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def f1(wanted: str, given: str) -> float:
        common = sum((Counter(wanted.split()) & Counter(given.split())).values())
        if common == 0:
            return 0.0
        precision, recall = common / len(given.split()), common / len(wanted.split())
        return 2 * precision * recall / (precision + recall)

    pairs = [
        ([plain(t) for t in texts], plain(p)) for texts, p in zip(targets, predictions, strict=True)
    ]
    return {
        "em": 100 * sum(max(t == p for t in texts) for texts, p in pairs) / len(pairs),
        "f1": 100 * sum(max(f1(t, p) for t in texts) for texts, p in pairs) / len(pairs),
    }


def _f1_score_with_invalid(targets: Any, predictions: Any) -> dict[str, float]:
    import numpy as np

    f1_score = importlib.import_module("sklearn.metrics").f1_score

    wanted, given = np.asarray(targets), np.asarray(predictions)
    invalid = (given != 0) & (given != 1)
    given[invalid] = 1 - wanted[invalid]
    return {"f1": 100 * f1_score(wanted, given)}


def _sequence_accuracy(targets: Any, predictions: Any) -> dict[str, float]:
    hits = [p == t for t, p in zip(targets, predictions, strict=False)]
    return {"sequence_accuracy": 100 * (sum(hits) / len(hits))}


def install_stubs() -> None:
    """Put stubs for TensorFlow, T5, datasets and transformers into `sys.modules`."""
    files = types.SimpleNamespace(
        isdir=os.path.isdir, glob=lambda path: [path] if os.path.exists(path) else [], GFile=open
    )
    io = types.SimpleNamespace(gfile=files)
    _module("tensorflow", io=io)
    _module("tensorflow.compat")
    for version in ("v1", "v2"):
        _module(f"tensorflow.compat.{version}", io=io, logging=_Anything())
    _module("t5")
    _module("t5.evaluation")
    _module(
        "t5.evaluation.metrics",
        bleu=_bleu,
        rouge=_rouge,
        squad=_squad,
        f1_score_with_invalid=_f1_score_with_invalid,
        sequence_accuracy=_sequence_accuracy,
    )
    _module("datasets", load_metric=lambda *_: _Bleurt())
    transformers = _module("transformers")
    transformers.__getattr__ = lambda name: _Anything()  # type: ignore[method-assign]


def load_json_task(source: Path, folder: Path, shots: list[int]) -> Any:
    """The original's JsonTask of a folder; without shots where it has too few examples."""
    json_task = importlib.import_module("bigbench.api.json_task")
    try:
        return json_task.JsonTask(str(folder / "task.json"), shot_list=list(shots))
    except ValueError as error:
        if "insufficient distinct examples" not in str(error):
            raise
        return json_task.JsonTask(str(folder / "task.json"), shot_list=[0])


def load_program_task(name: str, seed: int) -> Any:
    """The original's object of a task.py, made twice as its loader makes it."""
    import numpy as np

    module = importlib.import_module(f"bigbench.benchmark_tasks.{name}.task")
    base = importlib.import_module("bigbench.api.task").Task
    random.seed(seed)
    np.random.seed(seed)
    made = None
    for _, value in sorted(vars(module).items()):
        if isinstance(value, type) and issubclass(value, base) and value is not base:
            value()
            made = value
    assert made is not None, f"{name} has no task"
    task = made()
    random.seed(seed)
    np.random.seed(seed)
    return task


def _hash_model() -> Any:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "bigbench"))
    return importlib.import_module("hash_model")


class Recorder:
    """The fake model, with a digest of every call."""

    def __init__(self, lookup: dict[str, Any]) -> None:
        self.calls: list[Any] = []
        self._model = _hash_model().HashModel(lookup)

    def model_data(self) -> Any:
        """What is known of the fake model."""
        return self._model.model_data()

    def generate_text(
        self, inputs: Any, max_length: Any = None, stop_string: Any = None, output_regex: Any = None
    ) -> Any:
        """Continue the inputs."""
        texts = self._model.generate_text(inputs, max_length, stop_string, output_regex)
        limits = [
            int(max_length) if max_length else None,
            stop_string or None,
            output_regex or None,
        ]
        self._record("generate_text", inputs, limits)
        return texts

    def cond_log_prob(self, inputs: Any, targets: Any, absolute_normalization: Any = False) -> Any:
        """Log-probabilities of the targets."""
        wanted = [targets] if isinstance(inputs, str) else targets
        given = [[list(map(str, texts)) for texts in wanted], bool(absolute_normalization)]
        self._record("cond_log_prob", inputs, given)
        return self._model.cond_log_prob(inputs, targets, absolute_normalization)

    def _record(self, function: str, inputs: Any, rest: Any) -> None:
        texts = [str(text) for text in ([inputs] if isinstance(inputs, str) else inputs)]
        content = json.dumps([texts, rest])
        self.calls.append([function, len(texts), hashlib.sha256(content.encode()).hexdigest()])


def lookup(folder: Path) -> dict[str, Any]:
    """The answers that the fake model knows for a task; none for a large one."""
    files = [folder / "task.json", *sorted(folder.glob("*/task.json"))]
    if sum(file.stat().st_size for file in files) > LOOKUP_BYTES:
        return {}
    first, *rest = (json.loads(file.read_bytes()) for file in files)
    table: dict[str, Any] = _hash_model().build_lookup({**first, "subtasks": rest})
    return table
