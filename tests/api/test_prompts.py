# SPDX-License-Identifier: Apache-2.0
"""Prompts and shots: exact texts, and draws that depend on seed and row alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval import Example
from lmeval.api.errors import TaskError
from lmeval.api.fewshot import draw_shots
from lmeval.api.model import chat_messages
from lmeval.api.prompts import PromptFormat


def example(name, prompt=None, target="t"):
    return Example(name, prompt or f"question {name}", (target,), "exact_match")


QUESTION = example("q", "2 + 2", "4")
SHOT = example("s", "1 + 1", "2")


@pytest.mark.parametrize(
    ("settings", "shots", "expected"),
    [
        ({}, [], "2 + 2"),
        ({}, [SHOT], "1 + 1\n2\n\n2 + 2"),
        ({"example_input_prefix": "Q: ", "example_output_prefix": "\nA:"}, [], "Q: 2 + 2\nA:"),
        (
            {"example_input_prefix": "Q: ", "example_output_prefix": "\nA:"},
            [SHOT],
            "Q: 1 + 1\nA: 2\n\nQ: 2 + 2\nA:",
        ),
        ({"example_output_prefix": " = "}, [SHOT], "1 + 1 = 2\n\n2 + 2 = "),
        ({"task_prefix": "Add.\n"}, [SHOT], "Add.\n1 + 1\n2\n\n2 + 2"),
        ({"few_shot_example_separator": "; "}, [SHOT, SHOT], "1 + 1\n2; 1 + 1\n2; 2 + 2"),
    ],
)
def test_prompt_text(settings, shots, expected):
    assert PromptFormat(**settings).prompt(QUESTION, shots) == expected


def test_shots_are_turns_of_a_chat():
    style = PromptFormat(task_prefix="Add. ", example_output_prefix=" =")
    assert chat_messages(style.prompt(QUESTION, [SHOT])) == (
        ("user", "Add. 1 + 1 ="),
        ("assistant", "2"),
        ("user", "2 + 2 ="),
    )


def test_a_prompt_knows_its_task_and_row():
    prompt = PromptFormat().prompt(QUESTION, task="sums")
    assert (prompt.task, prompt.id) == ("sums", "q")


POOL = [example(str(number)) for number in range(12)]


@given(st.integers(0, 11), st.integers(0, 11), st.integers())
def test_shots_are_others_and_each_once(position, count, seed):
    shots = draw_shots(POOL, POOL[position], count, seed)
    ids = [shot.id for shot in shots]
    assert len(set(ids)) == count
    assert POOL[position].id not in ids


@given(st.integers(0, 11), st.integers(1, 11))
def test_fewer_shots_are_the_first_of_more(position, count):
    more = draw_shots(POOL, POOL[position], 11, seed=3)
    assert draw_shots(POOL, POOL[position], count, seed=3) == more[:count]


def test_the_draw_depends_on_the_seed_and_the_row():
    draws = {tuple(s.id for s in draw_shots(POOL, POOL[0], 5, seed)) for seed in range(20)}
    assert len(draws) > 15
    rows = {tuple(s.id for s in draw_shots(POOL, row, 5, 0) if s.id in "3456") for row in POOL[:3]}
    assert len(rows) > 1


def test_every_row_is_drawn_about_as_often():
    stranger = [example(f"x{number}") for number in range(600)]
    counts = dict.fromkeys((row.id for row in POOL), 0)
    for row in stranger:
        for shot in draw_shots(POOL, row, 3, seed=0):
            counts[shot.id] += 1
    assert all(100 <= count <= 200 for count in counts.values())  # 150 expected, sd 10.6


def test_a_copy_of_the_question_is_never_a_shot():
    pool = [example("a", "same"), example("b", "same"), example("c", "other")]
    assert [s.id for s in draw_shots(pool, pool[0], 1, 0)] == ["c"]


def test_too_few_examples_are_an_error():
    pool = [example("a"), example("b")]
    with pytest.raises(TaskError, match="2 shots asked for, but only 1 examples can be shown"):
        draw_shots(pool, pool[0], 2, 0)
