# SPDX-License-Identifier: Apache-2.0
"""Models: post-processing by BIG-bench's rules, one or many inputs, answers that carry facts."""

import copy
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval import BatchModel, Completion, ModelData, Prompt, UnsupportedByModel, postprocess_output
from lmeval.api.errors import InvalidValueError, ModelError
from lmeval.api.model import LogProbs, chat_messages, normalize_log_probs, occurrence_numbers


class Recorder(BatchModel):
    """Answers each prompt with a text made of it, and log-probs from the lengths of targets."""

    def __init__(self, answers=None):
        self.answers = answers
        self.calls = []

    def model_data(self):
        return ModelData("test", "recorder")

    def complete(self, prompts, max_length, stops):
        self.calls.append(list(prompts))
        return self.answers if self.answers is not None else [f"<{p}>" for p in prompts]

    def score(self, contexts, targets):
        return [[-float(len(target)) for target in row] for row in targets]


@pytest.mark.parametrize(
    ("text", "max_length", "stop", "regex", "expected"),
    [
        ("answer: -12 apples", None, None, r"[-+]?\d+", "-12"),
        ("none", None, None, r"[-+]?\d+", ""),
        ("ab#cd", None, "#", None, "ab#"),
        ("#cd", None, "#", None, "#cd"),
        ("#c#d", None, "#", None, "#c#d"),
        ("abcdef", 3, None, None, "abc"),
        ("abcdef", 0, None, None, ""),
        ("ab#cd", 2, "#", None, "ab"),
        ("x=1; y=2", None, ";", r"y=(\d)", ""),
        ("x=1; y=2", None, None, r"y=(\d)", "2"),
        ("The END and more", None, ["END", "nd"], None, "The END"),
        ("ab", None, None, r"a(z)?b", ""),
        ("", None, "#", r"\d", ""),
    ],
)
def test_postprocess_output(text, max_length, stop, regex, expected):
    assert postprocess_output(text, max_length, stop, regex) == expected


def test_several_groups_are_an_error_that_names_the_regex():
    with pytest.raises(InvalidValueError, match=r"\(a\)\(b\).*2 groups"):
        postprocess_output("ab", None, None, "(a)(b)")


def test_a_broken_regex_is_an_error_that_names_it():
    with pytest.raises(InvalidValueError, match=r"'\[' is no regular expression"):
        postprocess_output("ab", None, None, "[")


def test_an_empty_stop_string_is_refused():
    with pytest.raises(InvalidValueError, match="stop_string must not be empty"):
        postprocess_output("ab", None, "", None)


def test_a_string_gives_a_string():
    assert Recorder().generate_text("a") == "<a>"


def test_a_list_gives_a_list_in_order():
    model = Recorder()
    assert model.generate_text(["b", "a"]) == ["<b>", "<a>"]
    assert model.calls == [["b", "a"]]


def test_no_inputs_cost_no_call():
    model = Recorder()
    assert model.generate_text([]) == []
    assert model.cond_log_prob([], []) == []
    assert model.calls == []


def test_a_wrong_number_of_answers_names_both_counts():
    with pytest.raises(ModelError, match=r"recorder gave 1 answers to 2 requests"):
        Recorder(answers=["x"]).generate_text(["a", "b"])


def test_raw_text_survives_cutting():
    answer = Recorder(answers=["12 or 13"]).generate_text("q", output_regex=r"\d+")
    assert (answer, answer.raw) == ("12", "12 or 13")


def test_log_probs_are_absolute_on_demand():
    assert Recorder().cond_log_prob("q", ["a", "bb"], True) == [-1.0, -2.0]


def test_log_probs_are_normalized_by_default():
    values = Recorder().cond_log_prob(["q", "r"], [["a", "bb"], ["ccc"]])
    assert math.fsum(math.exp(value) for value in values[0]) == pytest.approx(1.0)
    assert values[0][0] - values[0][1] == pytest.approx(1.0)
    assert values[1] == [0.0]


def test_inputs_and_target_lists_must_pair_up():
    with pytest.raises(InvalidValueError, match="2 inputs and 1 lists"):
        Recorder().cond_log_prob(["a", "b"], [["x"]])


def test_a_bare_string_is_no_list_of_targets():
    with pytest.raises(InvalidValueError, match="'xy' where a list of targets is due"):
        Recorder().cond_log_prob(["a"], ["xy"])


def test_what_a_model_cannot_do_names_the_model():
    with pytest.raises(UnsupportedByModel, match="recorder cannot score whole texts"):
        Recorder().rolling_log_prob(["a"])


def test_minus_infinity_everywhere_stays():
    assert normalize_log_probs([-math.inf, -math.inf]) == [-math.inf, -math.inf]


@given(st.lists(st.floats(-1e4, 0), min_size=1, max_size=8))
def test_normalized_probabilities_sum_to_one(values):
    total = math.fsum(math.exp(value) for value in normalize_log_probs(values))
    assert total == pytest.approx(1.0)


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_facts_survive_copies(duplicate):
    answer = duplicate(Completion("a", error="timeout", latency_ms=3.0, raw="abc"))
    assert (answer, answer.error, answer.latency_ms, answer.raw) == ("a", "timeout", 3.0, "abc")
    prompt = duplicate(Prompt("q", [("user", "q")], "task", "id"))
    assert (prompt, prompt.messages, prompt.task, prompt.id) == (
        "q",
        (("user", "q"),),
        "task",
        "id",
    )
    scored = duplicate(LogProbs([-1.0], truncated_tokens=2))
    assert (scored, scored.truncated_tokens) == ([-1.0], 2)


def test_occurrences_are_counted_per_request():
    first, other = Prompt("q", task="t", id="1"), Prompt("q", task="t", id="2")
    assert occurrence_numbers(["q", "q", first, other, first]) == [0, 1, 0, 0, 1]


def test_the_engines_number_goes_before_counting():
    assert occurrence_numbers([Prompt.numbered("q", 3), "q", Prompt.numbered("q", 4)]) == [3, 0, 4]


def test_a_numbered_prompt_keeps_what_it_carries():
    prompt = Prompt.numbered(Prompt("q", [("user", "q")], "t", "1"), 2)
    assert (prompt, prompt.messages, prompt.task, prompt.id) == ("q", (("user", "q"),), "t", "1")
    assert pickle.loads(pickle.dumps(prompt)).sample == 2


def test_a_completion_is_its_text():
    assert Completion("yes", error=None) == "yes"
    assert {Completion("yes"): 1}["yes"] == 1


def test_a_plain_prompt_is_one_user_message():
    assert chat_messages("hello") == (("user", "hello"),)
    assert chat_messages(Prompt("hello")) == (("user", "hello"),)


def test_failed_log_probs_give_no_target_any_probability():
    failed = LogProbs.failed(2, "timeout")
    assert failed == [-math.inf, -math.inf]
    assert failed.error == "timeout"
