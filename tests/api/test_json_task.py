# SPDX-License-Identifier: Apache-2.0
"""JsonTask: what is asked, what is scored, and what failures do to the score."""

import math
import random

import pytest

from lmeval import BatchModel, Completion, Example, JsonTask, ModelData, TaskOptions
from lmeval.api.errors import ExampleError, MetricError, TaskError, UsageError
from lmeval.api.metrics import Metric, metric, rows_metric
from lmeval.api.model import LogProbs
from lmeval.api.scoring import Answer, AnswerReader, score_answers
from lmeval.api.settings import TaskSettings
from lmeval.api.task import ScoreData


class Scripted(BatchModel):
    """Gives prepared answers in order, or the same one to all."""

    def __init__(self, *answers):
        self.answers = answers
        self.prompts = []

    def model_data(self):
        return ModelData("test", "scripted")

    def complete(self, prompts, max_length, stops):
        self.prompts += prompts
        return list(self.answers) if len(self.answers) > 1 else list(self.answers) * len(prompts)

    def score(self, contexts, targets):
        self.prompts += contexts
        self.continuations = targets
        return [self.answers[0]] * len(contexts) if len(self.answers) == 1 else list(self.answers)


def rows(*targets, metric_name="exact_match", **extras):
    return [
        Example(f"r{number}", f"question {number}", (target,), metric_name, extras)
        for number, target in enumerate(targets, 1)
    ]


def test_the_score_is_the_mean_over_rows():
    score = JsonTask("t", rows("a", "b", "c", "d")).evaluate_model(Scripted("a", "b", "x", "y"))
    assert score.score == 0.5
    assert [row.score for row in score.per_example] == [1, 1, 0, 0]
    assert [row.id for row in score.per_example] == ["r1", "r2", "r3", "r4"]


def test_failed_answers_stay_in_the_denominator():  # P082, theme 3
    failed = [Completion("", error="error: gone"), Completion("", error="timeout")]
    answers = ["a"] * 2 + ["x"] * 4 + failed
    score = JsonTask("t", rows(*["a"] * 8)).evaluate_model(Scripted(*answers))
    assert score.score == 0.25
    assert [row.error for row in score.per_example][-2:] == ["error: gone", "timeout"]


def test_a_failed_answer_scores_nothing_even_if_its_text_is_right():
    score = JsonTask("t", rows("a")).evaluate_model(Scripted(Completion("a", error="timeout")))
    assert score.score == 0.0


@pytest.mark.parametrize(
    ("settings", "text", "prediction"),
    [
        ({}, " 4 \n", " 4 \n"),
        ({"stop_string": ["\n"]}, "4\nQ: 5", "4"),
        ({"stop_string": ["Q:", "\n"]}, "4\nQ: 5", "4"),
        ({"stop_string": ["\n"]}, "\n4", ""),
        ({"output_regex": r"is (.*?)\.?$"}, "So it is 4.", "4"),
        ({"output_regex": r"\d+"}, "none", ""),
        ({"stop_string": ["."], "output_regex": r"\d+"}, "no. 4", ""),
        ({"answer_extraction": "number"}, "So it is 1,234.", "1234"),
        ({"answer_extraction": "letter", "metric": "multiple_choice"}, "The answer is (B).", "B"),
        ({"max_length": 2}, "4567", "45"),
    ],
)
def test_the_answer_is_read_out_of_the_text(settings, text, prediction):
    target = "B" if "metric" in settings else "4"
    task = JsonTask("t", rows(target), TaskSettings(**settings))
    (row,) = task.evaluate_model(Scripted(text)).per_example
    assert row.prediction == prediction
    assert (row.raw_prediction or row.prediction) == text


def test_no_answer_found_is_wrong_and_marked():  # P041
    task = JsonTask("t", rows("A"), TaskSettings(answer_extraction="letter"))
    (row,) = task.evaluate_model(Scripted("I don't know")).per_example
    assert (row.score, row.no_answer) == (0.0, True)


def test_a_target_that_extraction_cannot_find_is_refused():
    with pytest.raises(ExampleError, match=r"example 'r2': .*'1,234'"):
        JsonTask("t", rows("4", "1,234"), TaskSettings(answer_extraction="number"))


def test_the_command_line_goes_before_the_settings():
    settings = TaskSettings(output_regex="x", stop_string=("y",))
    options = TaskOptions(output_regex=r"\d", stop_string=";", answer_extraction="number")
    task = JsonTask("t", rows("4"), settings, options)
    assert task.settings.output_regex == r"\d"
    assert task.settings.stop_string == (";",)
    assert task.settings.answer_extraction == "number"


def test_one_score_for_each_number_of_shots():
    task = JsonTask("t", rows("a", "a", "a"), options=TaskOptions(shots=(0, 2)))
    model = Scripted("a")
    scores = task.evaluate_model(model)
    assert [score.number_of_shots for score in scores] == [0, 2]
    assert [prompt.count("question") for prompt in model.prompts] == [1, 1, 1, 3, 3, 3]


def test_no_prompt_holds_its_own_answer():  # theme 6
    task = JsonTask("t", rows("ant", "bee", "cat", "dog"), options=TaskOptions(shots=(3,)))
    model = Scripted("x")
    task.evaluate_model(model)
    for prompt, example in zip(model.prompts, task.examples, strict=True):
        assert example.targets[0] not in prompt
        assert prompt.count(example.prompt) == 1


def test_too_many_shots_name_the_task():
    task = JsonTask("sums", rows("a", "b"), options=TaskOptions(shots=(2,)))
    with pytest.raises(TaskError, match="The task sums: 2 shots asked for"):
        task.evaluate_model(Scripted("a"))


def test_shots_do_not_depend_on_how_many_rows_are_evaluated():
    pool = rows(*"abcdef")
    options = TaskOptions(shots=(2,), seed=5)
    full = JsonTask("t", pool, options=options).prompts(2)
    short = JsonTask("t", pool[:2], options=options, shot_pool=pool).prompts(2)
    assert short == full[:2]


def test_samples_of_one_prompt_are_averaged():
    task = JsonTask("t", rows("a", "b"), TaskSettings(num_samples=2, pass_at_k=(1, 2)))
    model = Scripted("a", "x", "x", "x")
    score = task.evaluate_model(model)
    assert [row.sample for row in score.per_example] == [0, 1, 0, 1]
    assert model.prompts == ["question 1", "question 1", "question 2", "question 2"]
    assert score.score_dict == {"exact_match": 0.25, "pass@1": 0.25, "pass@2": 0.5}


def test_the_error_of_pass_at_k_is_over_examples():
    task_settings = TaskSettings(num_samples=2, pass_at_k=(2,), preferred_score="pass@2")
    answers = ["a", "x", "x", "x", "x", "x", "a", "a"]
    task = JsonTask("t", rows(*"aaaa"), task_settings)
    score = task.evaluate_model(Scripted(*answers))
    # 1, 0, 0, 1: the sample standard deviation is sqrt(1/3), over sqrt(4).
    assert (score.score, score.stderr) == (0.5, pytest.approx(math.sqrt(1 / 3) / 2))
    assert score.ci95 == (
        pytest.approx(0.1500, abs=5e-5),
        pytest.approx(0.8500, abs=5e-5),
    )  # Wilson


def test_the_error_of_pass_at_k_minds_clusters():
    task_settings = TaskSettings(num_samples=2, pass_at_k=(2,), preferred_score="pass@2")
    examples = [
        Example(id, f"question {id}", ("a",), "exact_match", {"cluster": id[0]})
        for id in ("p1", "p2", "q1", "q2")
    ]
    answers = ["a", "a", "a", "x", "x", "x", "x", "x"]
    score = JsonTask("t", examples, task_settings).evaluate_model(Scripted(*answers))
    assert (score.score, score.stderr) == (0.5, pytest.approx(0.5))  # rows 1, 1 | 0, 0


def test_a_score_over_all_rows_has_a_bootstrap_error():
    generator = random.Random(1)
    labels = [generator.choice("ab") for _ in range(200)]
    answers = [label if generator.random() < 0.8 else "a" for label in labels]
    score = JsonTask("t", rows(*labels, metric_name="macro_f1")).evaluate_model(Scripted(*answers))
    low, high = score.ci95
    assert low < score.score < high
    # An accuracy of this size has an error of 0.021 over 200 rows; F1 has about the same.
    assert 0.015 < score.stderr < 0.03
    assert high - low == pytest.approx(2 * 1.96 * score.stderr, rel=0.15)


def test_the_bootstrap_does_not_depend_on_the_order_of_rows():
    labels, answers = "aabbab" * 5, "abbbaa" * 5
    examples = rows(*labels, metric_name="macro_f1")
    forward = JsonTask("t", examples).evaluate_model(Scripted(*answers))
    backward = JsonTask("t", examples[::-1]).evaluate_model(Scripted(*answers[::-1]))
    assert (forward.stderr, forward.ci95) == (backward.stderr, backward.ci95)


def test_the_preferred_score_may_be_another_of_a_metric_over_all_rows():
    examples = rows(*"aabb", metric_name="macro_f1")
    settings = TaskSettings(preferred_score="macro_f1_target_labels")
    score = JsonTask("t", examples, settings).evaluate_model(Scripted(*"axbb"))
    assert score.ci95[0] <= score.score <= score.ci95[1]
    assert score.score == score.score_dict["macro_f1_target_labels"] != score.score_dict["macro_f1"]


def test_rows_have_no_score_where_the_preferred_one_is_over_all_rows():
    settings = TaskSettings(metrics=("macro_f1",), preferred_score="macro_f1")
    score = JsonTask("t", rows("a", "b"), settings).evaluate_model(Scripted("a", "a"))
    assert [row.score for row in score.per_example] == [None, None]
    assert [row.scores for row in score.per_example] == [{"exact_match": 1}, {"exact_match": 0}]


def test_samples_of_one_example_are_redrawn_together():
    labels, answers = "abab" * 5, "abaa" * 5
    once = JsonTask("t", rows(*labels, metric_name="macro_f1"))
    five_times = JsonTask("t", once.examples, TaskSettings(num_samples=5))
    repeated = [answer for answer in answers for _ in range(5)]
    error = once.evaluate_model(Scripted(*answers)).stderr
    assert five_times.evaluate_model(Scripted(*repeated)).stderr == pytest.approx(error)


def test_a_users_metric_over_all_rows_has_an_error_too():
    @rows_metric("share_of_a")
    def share_of_a(predictions, targets, extras):
        return sum(prediction == "a" for prediction in predictions) / len(predictions)

    examples = rows(*"a" * 100, metric_name="share_of_a")
    score = JsonTask("t", examples).evaluate_model(Scripted(*"ab" * 50))
    assert score.stderr == pytest.approx(0.05, rel=0.1)


def test_a_metric_that_cannot_score_every_resample_states_no_error():
    @rows_metric("only_whole")
    def only_whole(predictions, targets, extras):
        if len(set(predictions)) < 3:
            raise ZeroDivisionError
        return 0.5

    score = JsonTask("t", rows(*"abc", metric_name="only_whole")).evaluate_model(Scripted(*"abc"))
    assert (score.score, score.stderr, score.ci95) == (0.5, None, None)


def test_a_metric_without_resamples_is_called_once():
    calls = []

    @rows_metric("slow", resamples=0)
    def slow(predictions, targets, extras):
        calls.append(len(predictions))
        return 0.5

    score = JsonTask("t", rows(*"abc", metric_name="slow")).evaluate_model(Scripted(*"abc"))
    assert (calls, type(score)) == ([3], ScoreData)


def test_further_metrics_are_reported_beside_the_rows_own():
    task = JsonTask("t", rows("a b", "c"), TaskSettings(metrics=("token_f1", "macro_f1")))
    score = task.evaluate_model(Scripted("a b", "c d"))
    assert {"exact_match", "token_f1", "macro_f1"} <= set(score.score_dict)
    assert score.preferred_score == "exact_match"
    assert score.per_example[1].scores["token_f1"] == pytest.approx(2 / 3)


def test_the_preferred_score_may_be_a_further_metric():
    task = JsonTask("t", rows("a"), TaskSettings(metrics=("token_f1",), preferred_score="token_f1"))
    assert task.evaluate_model(Scripted("a")).preferred_score == "token_f1"


def test_a_preferred_score_that_is_not_given_is_said():
    with pytest.raises(TaskError, match=r"prefers the score 'bleurt', but gives only 'exact"):
        JsonTask("t", rows("a"), TaskSettings(preferred_score="bleurt"))


def test_rows_carry_the_preferred_score():
    settings = TaskSettings(metrics=("exact_match",), preferred_score="exact_match")
    task = JsonTask("t", rows("a b", metric_name="token_f1"), settings)
    score = task.evaluate_model(Scripted("a"))
    (row,) = score.per_example
    assert score.score == row.score == 0.0
    assert row.scores == {"token_f1": pytest.approx(2 / 3), "exact_match": 0.0}


@pytest.mark.parametrize(
    ("example", "settings", "reason"),
    [
        (Example("1", "q", ("",), "exact_match"), {}, "a target is empty"),
        (Example("1", "q", (), "exact_match"), {}, "at least one string"),
        (Example("1", "q", "Paris", "exact_match"), {}, "sequence of at least one string"),
        (Example("1", "q", ("(B)",), "exact_match"), {"metrics": ("multiple_choice",)}, "begin"),
        (Example("1", "q", ("a",), "choice_likelihood"), {}, "choices"),
    ],
)
def test_examples_that_cannot_be_scored_are_refused(example, settings, reason):
    with pytest.raises(ExampleError, match=f"The example '1': .*{reason}"):
        JsonTask("t", [example], TaskSettings(**settings))


def test_one_metric_and_unique_ids_in_python_too():
    with pytest.raises(ExampleError, match="its metric is 'rouge_l', not 'exact_match'"):
        JsonTask("t", [*rows("a"), Example("x", "q", ("a",), "rouge_l")])
    with pytest.raises(ExampleError, match="another example has the same id"):
        JsonTask("t", [*rows("a"), *rows("b")])


@pytest.mark.parametrize(
    "settings",
    [
        {"output_regex": "x"},
        {"answer_extraction": "letter"},
        {"max_length": 5},
        {"stop_string": ("x",)},
        {"num_samples": 2},
        {"metrics": ("token_f1",)},
    ],
)
def test_settings_of_written_answers_do_not_go_with_choices(settings):
    name = next(iter(settings))
    with pytest.raises(TaskError, match=f"no written answer for the setting '{name}'"):
        JsonTask("t", choice_rows("yes"), TaskSettings(**settings))


def test_pass_at_k_needs_answers_with_scores_of_their_own():
    with pytest.raises(TaskError, match="asks for pass@k, but 'macro_f1'"):
        JsonTask("t", rows("a", metric_name="macro_f1"), TaskSettings(pass_at_k=(1,)))


def test_options_of_written_answers_are_no_fault_of_choices():
    task = JsonTask("t", choice_rows("yes"), options=TaskOptions(output_regex="x"))
    assert "output_regex" in task.ignored_options
    assert task.settings.output_regex is None


@pytest.mark.parametrize("order", [1, -1])
def test_shots_do_not_depend_on_the_order_of_rows(order):
    examples = rows(*"abcdefgh")[::order]
    prompts = JsonTask("t", examples, options=TaskOptions(shots=(3,))).prompts(3)
    in_order = JsonTask("t", rows(*"abcdefgh"), options=TaskOptions(shots=(3,))).prompts(3)
    assert prompts == in_order[::order]


def test_low_and_high_come_from_the_settings_or_the_metric():
    score = JsonTask("t", rows("a"), TaskSettings(low_score=0.25)).evaluate_model(Scripted("a"))
    assert (score.low_score, score.high_score) == (0.25, 1.0)


def choice_rows(*targets):
    return rows(*targets, metric_name="choice_likelihood", choices=["yes", "no"])


def test_choices_are_compared_by_likelihood():
    model = Scripted([-1.0, -2.0])
    score = JsonTask("t", choice_rows("yes", "no")).evaluate_model(model)
    assert score.score_dict["choice_likelihood"] == 0.5
    assert [row.prediction for row in score.per_example] == ["yes", "yes"]
    assert model.continuations[0] == ["\nyes", "\nno"]


def test_ties_share_the_credit():  # P046
    score = JsonTask("t", choice_rows("no")).evaluate_model(Scripted([-1.0, -1.0]))
    assert score.score == 0.5
    assert score.per_example[0].details["tied"]


def test_failed_log_probs_score_nothing():
    failed = LogProbs.failed(2, "timeout")
    score = JsonTask("t", choice_rows("yes", "yes")).evaluate_model(Scripted(failed, [-1.0, -2.0]))
    assert score.score == 0.5
    assert score.per_example[0].error == "timeout"


def test_code_needs_a_sandbox_before_the_model_is_asked():
    task = JsonTask("t", rows("ok", metric_name="code_exec", io_pairs=[[1, 2]]))
    model = Scripted("def f(x): return x + 1")
    with pytest.raises(UsageError, match="--allow_code_exec"):
        task.evaluate_model(model)
    assert model.prompts == []


def test_a_task_needs_examples():
    with pytest.raises(TaskError, match="The task t has no examples"):
        JsonTask("t", [])


def test_a_metric_that_compares_choices_is_no_further_metric():
    with pytest.raises(TaskError, match="lists 'choice_likelihood' under 'metrics'"):
        JsonTask("t", rows("a"), TaskSettings(metrics=("choice_likelihood",)))


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan, "1", None, True])
def test_a_metric_must_give_a_number_from_0_to_1(value):
    odd = Metric("odd", lambda prediction, targets, extras: value, origin="test")
    with pytest.raises(MetricError, match=r"metric 'odd' gave .* for the example 'r1'"):
        score_answers(odd, [Answer(rows("a")[0], "a")])


def test_a_metric_that_fails_names_the_example():
    @metric("dividing")
    def dividing(prediction, targets, extras):
        return 1 / len(prediction)

    task = JsonTask("t", rows("a", metric_name="dividing"))
    with pytest.raises(MetricError, match=r"failed on the example 'r1': .*py, line \d+: ZeroDiv"):
        task.evaluate_model(Scripted(""))


def test_details_count_words_and_queries():
    settings = TaskSettings(
        description="d", keywords=("k",), example_input_prefix="Q: ", num_samples=3
    )
    details = JsonTask("t", rows("a", "b"), settings, TaskOptions(shots=(0, 1))).get_task_details()
    assert (details.name, details.description, details.keywords) == ("t", "d", ["k"])
    assert details.max_input_length_per_query == 6  # "Q: question 1" twice
    assert details.max_queries == 12  # 2 rows, 3 samples, 2 numbers of shots


def test_reader_without_settings_changes_nothing():
    assert AnswerReader().read(" a\n") == " a\n"
