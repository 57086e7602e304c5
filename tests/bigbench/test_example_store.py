# SPDX-License-Identifier: Apache-2.0
import os

import pytest

from lmeval.api.errors import TaskError
from lmeval.bigbench.example_store import FactsCollector, FileExamples, fault_in
from lmeval.bigbench.json_stream import LIST_BEGINS, read_members


def facts_of(examples):
    collector, kept = FactsCollector(), []
    for example in examples:
        if collector.add(example, kept.__getitem__):
            kept.append(example)
    return collector.facts(), kept


def test_what_is_written_alike_is_kept_once():
    examples = [{"input": "a", "target": "x"}, {"input": "b", "target": "x"}]
    facts, kept = facts_of([examples[0], examples[1], dict(examples[0])])
    assert kept == examples
    assert (facts.n_distinct, facts.n_duplicates, facts.twins) == (2, 1, {})


def test_another_order_of_keys_makes_another_example():
    facts, _ = facts_of([{"input": "a", "target": "x"}, {"target": "x", "input": "a"}])
    assert (facts.n_distinct, facts.twins) == (2, {})


TWINS = [
    ({"input": "a", "target": "x"}, {"input": "a", "target": ["x"]}),
    ({"input": "a", "target_scores": {"x": 1}}, {"input": "a", "target_scores": {"x": 1.0}}),
    (
        {"input": "a", "target_scores": {"x": 1, "y": 0}},
        {"input": "a", "target_scores": {"x": 1, "y": 0}, "target": "x"},
    ),
]


@pytest.mark.parametrize("pair", TWINS)
def test_what_means_the_same_is_kept_but_known_as_twins(pair):
    facts, kept = facts_of([{"input": "other", "target": "x"}, *pair])
    assert len(kept) == 3
    assert facts.twins == {1: (1, 2), 2: (1, 2)}


def test_three_of_a_kind_know_each_other():
    facts, _ = facts_of(
        [{"input": "a", "target_scores": {"x": v}, "target": "x"} for v in (1, 1.0, True)]
    )
    assert facts.twins == dict.fromkeys(range(3), (0, 1, 2))


def test_examples_of_one_hash_are_still_told_apart(monkeypatch):
    monkeypatch.setattr("lmeval.bigbench.example_store.hash", lambda value: 7, raising=False)
    examples = [{"input": str(i % 5), "target": "x"} for i in range(10)]
    facts, kept = facts_of(examples)
    assert kept == examples[:5]
    assert (facts.n_duplicates, facts.twins) == (5, {})


def test_guessing_scores_the_mean_over_examples_of_their_mean_choice_score():
    facts, _ = facts_of(
        [
            {"input": "a", "target_scores": {"x": 1, "y": 0}},
            {"input": "b", "target_scores": {"x": 0.5, "y": 0.4, "z": 0, "w": 0.1}},
        ]
    )
    assert facts.mean_choice_score == (0.5 + 0.25) / 2


def test_the_first_example_of_each_kind_is_named():
    facts, _ = facts_of(
        [
            {"input": "0", "target": "x"},
            {"input": "1", "target_scores": {"x": 1, "y": 1, "z": 0}},
            {"input": "2", "target": ["x", "y"]},
            {"input": "3", "target": [" \n"]},
            {"input": "4", "target": ""},
        ]
    )
    assert facts.without_target_scores == 0
    assert facts.without_target == 1
    assert facts.without_single_right_choice == 1
    assert facts.with_several_targets == 2
    assert facts.with_blank_target == 3


GOOD = [
    {"input": "", "target_scores": {"X because Y": 1, "Y because X": 0}},
    {"input": "q", "target": ""},
    {"input": "q", "target": "a", "meta": {"id": [1]}},
    {"input": "q", "target_scores": {"a": -1, "b": 0.5}},
    {"input": "q", "target": "a", "target_scores": {"b": 0, "c": 0}},
]
BAD = [
    ("text", "must be an object"),
    ({"target": "a"}, "has no 'input'"),
    ({"input": 3, "target": "a"}, "'input' must be a text"),
    ({"input": "q"}, "neither"),
    ({"input": "q", "target": 0}, "found 0"),
    ({"input": "q", "target": None}, "found null"),
    ({"input": "q", "target": []}, "empty list"),
    ({"input": "q", "target": ["a", 1.5]}, "holds 1.5"),
    ({"input": "q", "target_scores": {}}, "a number for each choice"),
    ({"input": "q", "target_scores": ["a"]}, "a number for each choice"),
    ({"input": "q", "target_scores": {"a": "1"}}, "choice 'a'"),
    ({"input": "q", "target_scores": {"a": 1e999, "b": 0}}, "too large"),
    ({"input": "q", "target_scores": {"a": 10**400, "b": 0}}, "too large"),
    ({"input": "q", "target_scores": {"a": 1, "b": 1}}, "no choice"),
    ({"input": "q", "target_scores": {"a": 0}}, "no choice"),
]


@pytest.mark.parametrize("example", GOOD)
def test_examples_as_bigbench_has_them_are_accepted(example):
    assert fault_in(example) is None


@pytest.mark.parametrize(("example", "reason"), BAD)
def test_examples_that_cannot_be_asked_or_scored_are_refused(example, reason):
    assert reason in fault_in(example)


def test_a_file_that_changes_is_not_read_on(tmp_path):
    path = tmp_path / "task.json"
    path.write_text('{"examples": [{"input": "a"}]}')
    store = FileExamples(path)
    for _, value, place in read_members(path):
        if value is not LIST_BEGINS:
            store.add(0, place)
    with store.opened() as read:
        assert read(0) == {"input": "a"}
    os.utime(path, ns=(1, 1))
    with pytest.raises(TaskError, match="was changed"), store.opened():
        pass
