# SPDX-License-Identifier: Apache-2.0
import pytest

from lmeval.bigbench.prompt_style import PromptStyle, targets_of

DEFAULT = PromptStyle()
BARE = PromptStyle(input_prefix="", output_prefix="", choice_prefix="|")


def test_the_default_prefixes_are_those_of_bigbench():
    assert DEFAULT.question({"input": "1 + 1", "target": "2"}) == "\nQ: 1 + 1\nA: "


def test_choices_are_shown_behind_the_input():
    question = DEFAULT.question({"input": "Pick", "target_scores": {"a": 1, "b": 0}})
    assert question == "\nQ: Pick\n  choice: b\n  choice: a\nA: "


@pytest.mark.parametrize(
    ("choices", "shown"), [("ba", "|b|a"), ("cab", "|a|b|c"), ("dbca", "|b|d|a|c"), ("x", "|x")]
)
def test_the_order_of_choices_depends_on_their_number_alone(choices, shown):
    assert BARE.question({"input": "", "target_scores": dict.fromkeys(choices, 0)}) == shown


def test_another_seed_gives_another_order():
    example = {"input": "", "target_scores": dict.fromkeys("abcd", 0)}
    assert BARE.question(example, choice_seed=0) == "|c|d|b|a"


def test_choices_can_be_left_out():
    style = PromptStyle(append_choices=False)
    assert style.question({"input": "x", "target_scores": {"a": 1}}) == "\nQ: x\nA: "


@pytest.mark.parametrize(
    ("example", "targets"),
    [
        ({"target": "a"}, ["a"]),
        ({"target": ["a", "b"]}, ["a", "b"]),
        ({"target_scores": {"a": 0.2, "b": 0.9, "c": 0.9}}, ["b"]),
        ({"target": "Yes. It is common.", "target_scores": {"Yes": 1, "No": 0}}, None),
    ],
)
def test_targets_are_the_target_or_the_first_best_choice(example, targets):
    assert targets_of(example) == (targets or [example["target"]])
