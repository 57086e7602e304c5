# SPDX-License-Identifier: Apache-2.0
"""HumanModel: what it shows, what it takes and what it does at the end of the input."""

import io
import math

import pytest

from lmeval.api.errors import UnsupportedByModel
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings
from lmeval.models.human import HumanModel
from lmeval.testing import ModelTestMixin


def human(typed):
    shown = io.StringIO()
    return HumanModel(input_stream=io.StringIO(typed), output_stream=shown), shown


class TestHumanModel(ModelTestMixin):
    scores_text = True
    repeatable = False

    def make_model(self):
        return human("1\n" * 1000)[0]


def test_asks_for_each_prompt_and_gives_the_lines():
    model, shown = human("four\n fünf \r\n\n")
    assert model.generate_text(["2 + 2?", "2 + 3?", "Hm?"]) == ["four", " fünf ", ""]
    text = shown.getvalue()
    assert text.index("2 + 2?") < text.index("2 + 3?") < text.index("Hm?")
    assert text.count("Your answer: ") == 3


def test_behind_the_engine_a_person_is_asked_in_the_tasks_order():
    model, shown = human("four\nseven\n")
    with Engine(model, EngineSettings(batch_size=model.preferred_batch_size)) as engine:
        assert engine.generate_text(["2 + 2?", "2 + 2 + 3?"]) == ["four", "seven"]
    assert shown.getvalue().index("2 + 2?") < shown.getvalue().index("2 + 2 + 3?")


def test_a_last_line_without_newline_is_an_answer():
    assert human("four")[0].generate_text("2 + 2?") == "four"


def test_the_picked_choice_has_log_prob_0_and_the_others_none():
    model, shown = human("2\n")
    assert model.cond_log_prob("Sky?", ["red", "blue", "green"]) == [-math.inf, 0.0, -math.inf]
    assert "  1. red\n  2. blue\n  3. green\n" in shown.getvalue()


@pytest.mark.parametrize("mistyped", ["0", "4", "-1", "blue", "", "1.0", "9" * 5000])
def test_asks_again_until_the_number_is_one_of_the_choices(mistyped):
    model, shown = human(f"{mistyped}\n 3 \n")
    assert model.cond_log_prob("Sky?", ["red", "blue", "green"])[2] == 0.0
    assert shown.getvalue().count("Please enter a number from 1 to 3: ") == 1


@pytest.mark.parametrize("typed", ["", "one\n"])
def test_the_end_of_the_input_is_a_clear_error(typed):
    with pytest.raises(UnsupportedByModel, match="input ended before all questions"):
        human(typed)[0].generate_text(["a", "b"])


def test_nothing_is_asked_twice_when_the_input_ends():
    model, shown = human("one\n")
    with Engine(model) as engine, pytest.raises(UnsupportedByModel, match="input ended"):
        engine.generate_text(["a", "b", "c"])
    assert shown.getvalue().count("Your answer: ") == 2


def test_the_end_of_the_input_ends_a_choice_too():
    with pytest.raises(UnsupportedByModel, match="input ended"):
        human("9\n")[0].cond_log_prob("a", ["b", "c"])


def test_a_single_target_is_refused_before_anything_is_asked():
    model, shown = human("1\n")
    with pytest.raises(UnsupportedByModel, match="human"):
        model.cond_log_prob(["a", "b"], [["c", "d"], ["e"]])
    assert shown.getvalue() == ""


def test_input_that_cannot_be_decoded_is_a_clear_error():
    typed = io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8")
    model = HumanModel(input_stream=typed, output_stream=io.StringIO())
    with pytest.raises(UnsupportedByModel, match="cannot be decoded"):
        model.generate_text("a")


def test_a_terminal_that_lacks_characters_shows_their_escapes():
    raw = io.BytesIO()
    shown = io.TextIOWrapper(raw, encoding="ascii")
    HumanModel(input_stream=io.StringIO("x\n"), output_stream=shown).generate_text("日本 \ud800")
    assert b"\\u65e5\\u672c \\ud800" in raw.getvalue()
