# SPDX-License-Identifier: Apache-2.0
"""Comparing a task with what the original BIG-bench code answered for the same fake model.

What compares how is said in the README.md beside the reference scores.
"""

import functools
import gzip
import hashlib
import json
import math

import attrs
from hash_model import HashModel, build_lookup

from lmeval.api.model import Model, ModelData

NOT_COMPARABLE = {"bleurt"}
EXACT = {
    "exact_str_match",
    "case_insensitive_str_match",
    "numeric_match_with_0_1_relative_error",
    "multiple_choice_grade",
    "sequence_f1",
}


@functools.cache
def expected(shared):
    with gzip.open(shared / "bigbench_oracle" / "expected.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


@functools.cache
def synthetic_tasks(shared):
    return json.loads((shared / "bigbench_oracle" / "synthetic_tasks.json").read_bytes())


def raw_task(folder):
    task = json.loads((folder / "task.json").read_bytes())
    if "examples" not in task:
        files = sorted(folder.glob("*/task.json"))
        task["subtasks"] = [json.loads(file.read_bytes()) for file in files]
    return task


def digest(value):
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


class RecordingModel(Model):
    """HashModel as a model of lmeval that writes down each call as the reference does."""

    def __init__(self, raw=None, ties=0):
        self.calls = []
        self._model = HashModel(build_lookup(raw or {}), ties=ties)

    def model_data(self):
        return ModelData("HashModel", "hash")

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        texts = self._model.generate_text(inputs, max_length, stop_string, output_regex)
        wishes = {
            "max_length": max_length,
            "stop_string": stop_string,
            "output_regex": output_regex,
        }
        self._record("generate_text", inputs, wishes, outputs=digest(texts))
        return texts

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        wishes = {"absolute_normalization": absolute_normalization}
        self._record("cond_log_prob", inputs, wishes, targets=digest(targets))
        return self._model.cond_log_prob(inputs, targets, absolute_normalization)

    def _record(self, function, inputs, wishes, **digests):
        given = {name: value for name, value in wishes.items() if value is not None}
        inputs = [str(text) for text in inputs]
        self.calls.append(
            {"fn": function, "n": len(inputs), "inputs": digest(inputs), **digests, **given}
        )


def differences(entry, task, raw, ties=0):
    """What differs between the reference `entry` and the evaluation of `task`, as texts."""
    model = RecordingModel(raw, ties)
    scores = task.evaluate_model(model)
    # An empty regex, which two tasks have, is none.
    wanted_calls = [
        {k: v for k, v in call.items() if k not in ("task", "shots", "first_input_end") and v != ""}
        for call in entry["calls"]
    ]
    found = [
        f"call {number}: {wanted} became {given}"
        for number, (wanted, given) in enumerate(zip(wanted_calls, model.calls, strict=True))
        if wanted != given
    ]
    for wanted, given in zip(entry["scores"], scores, strict=True):
        found += _score_differences(wanted, given)
    return found + _detail_differences(entry["details"], task)


def _score_differences(wanted, given):
    place = f"{wanted['subtask_description']} at {wanted['number_of_shots']} shots"
    found = []
    for field in ("preferred_score", "number_of_shots", "subtask_description"):
        if wanted[field] != getattr(given, field):
            found.append(f"{place}: {field}: {wanted[field]} became {getattr(given, field)}")
    for field in ("low_score", "high_score"):
        if not math.isclose(wanted[field], getattr(given, field), abs_tol=1e-12):
            found.append(f"{place}: {field}: {wanted[field]} became {getattr(given, field)}")
    names = {*wanted["score_dict"], *given.score_dict} - NOT_COMPARABLE
    if wanted["preferred_score"] == "bleurt":
        names.discard("normalized_aggregate_score")
    for name in sorted(names):
        if name.endswith("_corrected") and name not in wanted["score_dict"]:
            continue
        before, now = wanted["score_dict"].get(name), given.score_dict.get(name)
        tolerance = 1e-12 if name in EXACT else 1e-9
        if before is None or now is None or abs(before - now) > tolerance:
            found.append(f"{place}: {name}: {before} became {now}")
    return found


def _detail_differences(wanted, task):
    details = attrs.asdict(task.get_task_details())
    details["description"] = digest(details["description"])
    return [f"{k}: {wanted[k]} became {v}" for k, v in details.items() if wanted[k] != v]
