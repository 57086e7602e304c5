# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from bigbench_data import TableModel, choice_data, task_data

from lmeval.api.model import Completion, LogProbs
from lmeval.api.options import TaskOptions
from lmeval.api.task import ScoreData
from lmeval.bigbench.leaf_settings import DEFAULT_OUTPUT_REGEX
from lmeval.bigbench.loading import LoadSettings, load_task_dict


def make(data, **options):
    return load_task_dict(data, LoadSettings(options=TaskOptions(**options)))


def cuts(data, **options):
    model = TableModel()
    make(data, **options).evaluate_model(model)
    return model.calls[0][2:]


@pytest.mark.parametrize(
    ("changes", "options", "expected"),
    [
        ({}, {}, (None, None, DEFAULT_OUTPUT_REGEX)),
        ({"stop_string": "#"}, {}, (None, "#", None)),
        ({"output_regex": "a"}, {}, (None, None, "a")),
        ({"output_regex": "", "stop_string": ""}, {}, (None, None, None)),
        ({}, {"max_length": 9, "stop_string": "#"}, (9, "#", None)),
        ({"output_regex": "a"}, {"stop_string": "#"}, (None, "#", "a")),
        ({"stop_string": "#"}, {"output_regex": "b"}, (None, "#", "b")),
        ({"output_regex": "a"}, {"answer_extraction": "number"}, (None, None, None)),
        ({}, {"answer_extraction": "number", "output_regex": "b"}, (None, None, "b")),
    ],
)
def test_how_answers_are_cut(changes, options, expected):
    assert cuts(task_data(**changes), **options) == expected


def test_shots_are_also_given_as_turns_of_a_chat():
    data = task_data(task_prefix="Add.", few_shot_example_separator="|")
    question = make(data, shots=(1,)).questions(1)[0]
    shown, target, asked = (text for _, text in question.prompt.messages)
    assert [role for role, _ in question.prompt.messages] == ["user", "assistant", "user"]
    assert shown.startswith("Add.\nQ: ")
    assert question.prompt == f"{shown}{target}|{asked}"
    assert (question.prompt.task, question.prompt.id) == ("sums", question.id)


def test_without_shots_there_are_no_turns():
    assert make(task_data()).questions(0)[0].prompt.messages == ()


def test_another_seed_draws_other_examples():
    def ids(seed):
        return [question.id for question in make(task_data(), seed=seed).questions(1)]

    assert ids(None) == ids(42) != ids(1)


def test_each_answer_is_kept_with_its_score():
    model = TableModel({"0 + 1": Completion("1", raw="1.\nQ:", latency_ms=5.0)})
    (score,) = make(task_data()).evaluate_model(model)
    assert score.score_dict == {"exact_str_match": 0.25, "normalized_aggregate_score": 25.0}
    row = score.per_example[0]
    assert (row.id, row.score, row.prompt) == ("0", 1.0, "\nQ: 0 + 1\nA: ")
    assert (row.prediction, row.raw_prediction, row.targets) == ("1", "1.\nQ:", ("1",))
    assert row.latency_ms == 5.0
    assert [row.score for row in score.per_example] == [1, 0, 0, 0]


def test_ids_are_places_in_the_file_with_duplicates_counted():
    examples = [{"input": word, "target": "x"} for word in ("a", "a", "b")]
    (score,) = make(task_data(examples=examples)).evaluate_model(TableModel())
    assert [row.id for row in score.per_example] == ["0", "2"]


def test_a_failed_answer_scores_zero_and_is_counted():
    examples = [{"input": "a", "target": ""}, {"input": "b", "target": ""}]
    model = TableModel({"a": Completion("", error="timeout"), "b": Completion("")})
    (score,) = make(task_data(examples=examples)).evaluate_model(model)
    assert score.score == 0.5
    assert [row.error for row in score.per_example] == ["timeout", None]


def test_choices_are_kept_in_the_files_order_with_their_numbers():
    model = TableModel(log_probs={"Pick 0": [-1.0, -3.0], "Pick 1": [-3.0, -1.0]})
    (score,) = make(choice_data()).evaluate_model(model)
    rows = score.per_example
    assert [row.prediction for row in rows[:2]] == ["right 0", "wrong 1"]
    assert rows[1].targets == ("right 1",)
    assert rows[0].details["choices"] == ["right 0", "wrong 0"]
    assert rows[0].details["log_probs"] == [-1.0, -3.0]
    assert math.isclose(score.score, sum(row.score for row in rows) / 3)
    assert math.isclose(
        rows[0].scores["calibration_multiple_choice_brier_score"],
        (1 / (1 + math.exp(2))) ** 2,
    )


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (LogProbs.failed(2, "timeout"), "timeout"),
        (LogProbs([math.nan, -1.0]), "error: the model gave no log-probability above"),
    ],
)
def test_choices_without_numbers_are_wrong_and_counted(answer, error):
    (score,) = make(choice_data()).evaluate_model(TableModel(log_probs={"Pick 0": answer}))
    row = score.per_example[0]
    assert (row.score, row.prediction) == (0.0, "")
    assert row.error.startswith(error)
    assert row.details["log_probs"] is None


def test_absolute_normalization_grades_the_numbers_as_they_are():
    model = TableModel(log_probs={"Pick 0": [-1.0, -3.0]})
    (plain,) = make(choice_data()).evaluate_model(model)
    (absolute,) = make(choice_data(absolute_normalization=True)).evaluate_model(model)
    name = "calibration_multiple_choice_brier_score"
    assert math.isclose(plain.score_dict[name], absolute.score_dict[name])


def test_a_task_may_ask_for_choices_text_and_likelihood():
    metrics = ["multiple_choice_grade", "exact_str_match", "log_likelihood"]
    examples = [{"input": "q", "target": "a", "target_scores": {"a": 1, "b": 0}}]
    task = make(choice_data(metrics=metrics, examples=examples))
    model = TableModel({"q": "a"}, {"q": [-0.5, -2.0]})
    (score,) = task.evaluate_model(model)
    assert [call[0] for call in model.calls] == ["cond_log_prob", "generate_text", "cond_log_prob"]
    assert task.get_task_details().max_queries == 3
    row = score.per_example[0]
    assert (row.prediction, row.details["text"]) == ("a", "a")
    assert row.scores["exact_str_match"] == 1.0


def test_the_target_of_a_text_metric_may_be_no_choice():
    example = {
        "input": "Frost?",
        "target": "Yes. Frost is common then.",
        "target_scores": {"Yes": 1, "No": 0},
    }
    data = choice_data(metrics=["multiple_choice_grade", "exact_str_match"], examples=[example])
    model = TableModel({"Frost?": "Yes. Frost is common then."}, {"Frost?": [-1.0, -2.0]})
    (score,) = make(data).evaluate_model(model)
    assert score.score_dict["multiple_choice_grade"] == 1.0
    assert score.score_dict["exact_str_match"] == 1.0


def test_a_row_that_the_signed_error_lets_pass_carries_a_warning():
    metric = "numeric_match_with_0_1_relative_error"
    examples = [{"input": "a", "target": "-4"}, {"input": "b", "target": "4"}]
    data = task_data(metrics=[metric], preferred_score=metric, examples=examples)
    (score,) = make(data).evaluate_model(TableModel({"a": "999", "b": "4"}))
    assert score.score_dict[metric] == 1.0
    assert score.score_dict[f"{metric}_corrected"] == 0.5
    assert "-4" in score.per_example[0].details["warning"]
    assert "warning" not in score.per_example[1].details


def test_answers_may_be_extracted():
    model = TableModel({"0 + 1": "So the answer is 1.", "1 + 1": "I do not know."})
    (score,) = make(task_data(), answer_extraction="number").evaluate_model(model)
    assert [row.prediction for row in score.per_example[:2]] == ["1", ""]
    assert [row.no_answer for row in score.per_example[:2]] == [False, True]


def test_metadata_states_bigbenchs_length_and_the_true_one_is_known():
    task = make(choice_data(), shots=(0, 2))
    assert task.longest_question == 10  # Q Pick 0 choice wrong 0 choice right 0 A
    assert task.get_task_details().max_input_length_per_query == 2 * task.longest_question
    assert make(choice_data()).get_task_details().max_input_length_per_query == 0


def whole_score(metric):
    data = choice_data(metrics=[metric])
    data["preferred_score"] = metric
    sure_and_right, sure_and_wrong = [-0.01, -5.0], [-5.0, -0.01]
    model = TableModel(log_probs={"Pick 0": sure_and_right, "Pick 1": sure_and_wrong})
    (score,) = make(data).evaluate_model(model)
    return score


def test_a_score_over_all_rows_brings_its_error():
    score = whole_score("macro_f1")
    low, high = score.ci95
    assert 0 <= low < score.score < high <= 1
    assert 0 < score.stderr < high - low


def test_the_calibration_error_has_none():
    assert type(whole_score("expected_calibration_error")) is ScoreData
