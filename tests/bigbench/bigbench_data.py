# SPDX-License-Identifier: Apache-2.0
"""Small tasks in BIG-bench's format, and a model that answers what it is told to."""

import json

from lmeval.api.model import Completion, LogProbs, Model, ModelData


def task_data(**changes):
    """A task of four questions with one-word answers; None takes a member out."""
    data = {
        "canary": "none",
        "name": "sums",
        "description": "Add numbers.",
        "keywords": ["arithmetic"],
        "metrics": ["exact_str_match"],
        "preferred_score": "exact_str_match",
        "examples": [{"input": f"{i} + 1", "target": f"{i + 1}"} for i in range(4)],
    }
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def choice_data(**changes):
    """A task of three questions with two choices, the first of which is right."""
    examples = [
        {"input": f"Pick {i}", "target_scores": {f"right {i}": 1, f"wrong {i}": 0}}
        for i in range(3)
    ]
    choices = {"metrics": ["multiple_choice_grade"], "preferred_score": "multiple_choice_grade"}
    return task_data(**{"examples": examples, **choices, **changes})


def write_task(folder, data, **subtasks):
    """Write a task.json, and one in each sub-folder."""
    folder.mkdir(exist_ok=True)
    (folder / "task.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    for name, subtask in subtasks.items():
        write_task(folder / name, subtask)
    return folder


class TableModel(Model):
    """Answers from tables; what is not in them gets "" and -1."""

    def __init__(self, texts=None, log_probs=None):
        self.texts = texts or {}
        self.log_probs = log_probs or {}
        self.calls = []

    def model_data(self):
        return ModelData("table", "table")

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        self.calls.append(("generate_text", list(inputs), max_length, stop_string, output_regex))
        return [self.texts.get(self._question(text), Completion("")) for text in inputs]

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        self.calls.append(("cond_log_prob", list(inputs), targets, absolute_normalization))
        return [
            LogProbs.of(self.log_probs.get(self._question(text), [-1.0] * len(wanted)))
            for text, wanted in zip(inputs, targets, strict=True)
        ]

    def _question(self, text):
        return text.rpartition("Q: ")[2].partition("\n")[0]
