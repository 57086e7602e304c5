# SPDX-License-Identifier: Apache-2.0
"""The tasks that make up their examples: right answers, levels, seeds and reading of answers."""

import importlib
import random
import re

import pytest

from lmeval.api.errors import InvalidValueError, TaskError
from lmeval.api.model import Completion
from lmeval.tasks import generated
from lmeval.testing import FailingModel, RuleModel, mute_model


def make(name, **settings):
    module = importlib.import_module(f"lmeval.tasks.{name}.task")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    return getattr(module, class_name)(**settings)


def last_question(prompt):
    return prompt.rpartition("Q: ")[2].removesuffix("\nA:")


def solve_sum(prompt):
    first, second = last_question(prompt).split(" + ")
    return str(int(first) + int(second))


def solve_expression(prompt):
    question = last_question(prompt)
    assert re.fullmatch(r"(True|False|and|or|not|[() ])+", question)
    return str(eval(question))


def find_code(prompt):
    place = re.search(r"access code of the (\w+) archive\?", prompt)[1]
    return re.search(rf"access code of the {place} archive is (\d+)\.", prompt)[1]


SOLVERS = {
    "simple_arithmetic": solve_sum,
    "boolean_expressions_generated": solve_expression,
    "needle_retrieval": find_code,
}
NAMES = (*SOLVERS, "list_functions_generated")


@pytest.mark.parametrize("name", SOLVERS)
def test_a_model_that_can_do_it_scores_1(name):
    scores = make(name).evaluate_model(RuleModel("solver", SOLVERS[name]))
    assert [score.score for score in scores] == [1.0] * len(make(name).levels)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_real_model_writes_is_read(name):
    """The right answer after a blank, followed by a next question made up by the model."""

    def answer(prompt):
        return f" {targets[str(prompt)]}\n\nQ: and now?\nA: 7, [7], True, 12345\nQuestion: more?"

    task = make(name)
    asked = [example for level in task.levels for example in task.examples(level, 50, seed=0)]
    targets = {example.prompt: example.target for example in asked}
    scores = task.evaluate_model(RuleModel("solver", answer))
    assert [score.score for score in scores] == [1.0] * len(task.levels)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_the_examples(name):
    task = make(name)
    level = next(iter(task.levels))
    assert task.examples(level, 5, seed=1) == make(name).examples(level, 5, seed=1)
    assert task.examples(level, 5, seed=1) != task.examples(level, 5, seed=2)
    assert task.examples(level, 5, seed=1)[:2] == task.examples(level, 2, seed=1)


@pytest.mark.parametrize("name", NAMES)
def test_a_level_has_no_example_twice(name):
    task = make(name)
    for level in task.levels:
        prompts = {example.prompt for example in task.examples(level, 50, seed=3)}
        assert len(prompts) == 50


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_no_longer_than_stated(name):
    task = make(name)
    for score in task.evaluate_model(mute_model()):
        assert max(len(row.prompt.split()) for row in score.per_example) <= task.longest_prompt


@pytest.mark.parametrize("name", NAMES)
def test_requests_say_which_task_and_example_they_are(name):
    seen = []
    model = RuleModel("recorder", lambda prompt: seen.append(prompt) or "")
    scores = make(name).evaluate_model(model, max_examples=3)
    assert [prompt.task for prompt in seen] == [name] * 3
    assert [prompt.id for prompt in seen] == [row.id for each in scores for row in each.per_example]


def test_all_requests_go_out_in_one_call():
    calls = []

    class Counting(RuleModel):
        def complete(self, prompts, max_length, stops):
            calls.append(len(prompts))
            return super().complete(prompts, max_length, stops)

    make("simple_arithmetic").evaluate_model(Counting("counting", str))
    assert calls == [250]


@pytest.mark.parametrize(
    ("max_examples", "expected"),
    [(None, [9, 9, 9]), (6, [2, 2, 2]), (7, [3, 2, 2]), (2, [1, 1, 0]), (1, [1, 0, 0])],
)
def test_examples_are_shared_out_among_levels(max_examples, expected):
    assert generated.share_out(max_examples, 3, 9) == expected


def test_no_level_gets_more_than_it_has():
    assert generated.share_out(100, 3, 9) == [9, 9, 9]


@pytest.mark.parametrize("max_examples", [0, -1])
def test_no_examples_are_refused(max_examples):
    with pytest.raises(InvalidValueError, match="at least 1"):
        make("simple_arithmetic").evaluate_model(mute_model(), max_examples=max_examples)


def test_levels_without_examples_are_left_out():
    scores = make("simple_arithmetic").evaluate_model(mute_model(), max_examples=2)
    assert [score.subtask_description for score in scores] == ["1-digit numbers", "2-digit numbers"]


def test_failed_requests_score_0_and_say_why():
    (score,) = make("simple_arithmetic").evaluate_model(FailingModel(), max_examples=1)
    (row,) = score.per_example
    assert (row.score, row.error, row.no_answer) == (0.0, "timeout", False)


def test_a_text_that_came_with_an_error_is_not_scored():
    model = RuleModel("late", lambda prompt: Completion(solve_sum(prompt), error="timeout"))
    (score,) = make("simple_arithmetic").evaluate_model(model, max_examples=1)
    assert score.score == 0.0


def test_silence_is_reported_as_no_answer():
    (score,) = make("simple_arithmetic").evaluate_model(mute_model(), max_examples=1)
    assert score.per_example[0].no_answer


def test_running_out_of_different_examples_is_an_error():
    class Narrow(type(make("simple_arithmetic"))):
        def draw(self, level, rng):
            return generated.GeneratedExample(f"coin {rng.randrange(2)}", "0")

    with pytest.raises(TaskError, match="has no 3 examples"):
        Narrow().examples("1-digit numbers", 3, seed=0)


@pytest.mark.parametrize(
    ("name", "text", "answer"),
    [
        ("simple_arithmetic", "39", "39"),
        ("simple_arithmetic", " 34 + 5 = 39\nbecause 4 + 5 = 9", "39"),
        ("simple_arithmetic", "The sum is:\n\n1,039.", "1039"),
        ("simple_arithmetic", "**39**", "39"),
        ("simple_arithmetic", "-39", "-39"),
        ("simple_arithmetic", "39.5", "39.5"),
        ("simple_arithmetic", "thirty-nine", ""),
        ("simple_arithmetic", "", ""),
        ("boolean_expressions_generated", " true.", "True"),
        ("boolean_expressions_generated", "not True is **False**\nTrue", "False"),
        ("boolean_expressions_generated", "It is untrue", ""),
        ("list_functions_generated", "[1,2,  -3]", "[1, 2, -3]"),
        ("list_functions_generated", "[3, 1] becomes [1, 3]\n[7]", "[1, 3]"),
        ("list_functions_generated", "[]", "[]"),
        ("list_functions_generated", "1, 2, 3", ""),
        ("list_functions_generated", "[-, 5--3]", "[5, -3]"),
        ("needle_retrieval", "The code is 58213.", "58213"),
        ("needle_retrieval", "Sure!\n58213, I repeat, 58213", "58213"),
        ("needle_retrieval", "58213 or 10293", "58213 10293"),
        ("needle_retrieval", "582134", ""),
    ],
)
def test_reads_answers(name, text, answer):
    assert make(name).read_answer(text) == answer


@pytest.mark.parametrize("name", NAMES)
def test_hostile_answers_are_read_in_time_and_peace(name):
    task = make(name)
    for text in ("[" * 100_000, "1" * 100_000, "-" * 100_000, "[1," * 50_000, "1,." * 50_000):
        task.read_answer(text)


def test_numbers_have_the_digits_of_their_level():
    rng = random.Random(5)
    task = make("simple_arithmetic")
    for digits in task.levels.values():
        for _ in range(50):
            numbers = last_question(task.draw(digits, rng).prompt).split(" + ")
            assert [len(number) for number in numbers] == [digits, digits]


def test_expressions_have_the_operators_of_their_level_and_are_true_as_often_as_not():
    rng = random.Random(5)
    task = make("boolean_expressions_generated")
    for operators in task.levels.values():
        examples = [task.draw(operators, rng) for _ in range(300)]
        assert 100 < sum(example.target == "True" for example in examples) < 200
        for example in examples:
            words = re.findall(r"\b(?:and|or|not)\b", last_question(example.prompt))
            assert len(words) == operators


def test_list_rules_are_determined_by_their_examples():
    module = importlib.import_module("lmeval.tasks.list_functions_generated.task")
    reverse, ascending = module.OPERATIONS[0], module.OPERATIONS[1]
    palindromes = [[1, 2, 1], [3, 3]]
    assert not module._leaves_one_answer([reverse], [[3, 2, 1], [2, 1]], [1, 3, 2])
    assert module._leaves_one_answer([reverse], [[3, 1, 2, 5], [1, 9, 4, 4, 7]], [1, 3, 2, 6])
    assert not module._changes_a_list([reverse], palindromes)
    assert module._changes_a_list([ascending], [*palindromes, [2, 1]])


@pytest.mark.parametrize("depth", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_the_needle_lies_at_its_depth(depth):
    task = make("needle_retrieval", lengths=(500,), depths=(depth,), examples_per_level=4)
    (level,) = task.levels
    for example in task.examples(level, 4, seed=0):
        text = example.prompt.split("\n\n")[1]
        before, _, after = text.partition(f"is {example.target}.")
        needle = len("The access code of the Pellworm archive")
        share = max(0, len(before) - needle) / (len(before) - needle + len(after))
        assert share == pytest.approx(depth, abs=0.03)


@pytest.mark.parametrize("words", [1, 200, 1000])
def test_the_haystack_is_as_long_as_asked(words):
    task = make("needle_retrieval", lengths=(words,), depths=(0.5,), examples_per_level=1)
    (level,) = task.levels
    (example,) = task.examples(level, 1, seed=0)
    facts, slack = 4 * 8, 15
    assert words + facts <= len(example.prompt.split("\n\n")[1].split()) <= words + facts + slack


def test_a_decoy_is_no_answer():
    def decoy(prompt):
        codes = re.findall(r"archive is (\d+)\.", prompt)
        return next(code for code in codes if code != find_code(prompt))

    scores = make("needle_retrieval").evaluate_model(RuleModel("decoy", decoy), max_examples=15)
    assert [score.score for score in scores] == [0.0] * 15


def bisect(prompt):
    low, high = 1, 1000
    for guess, reply in re.findall(r"Guess \d+: (\d+)\nReply: (\w+)", prompt):
        low, high = (int(guess) + 1, high) if reply == "Higher" else (low, int(guess) - 1)
    return f" {(low + high) // 2}\nReply: Higher.\nGuess 2: 1"


def test_halving_the_range_wins_every_game_within_ten_guesses():
    score = make("twenty_questions_numbers").evaluate_model(RuleModel("bisect", bisect))
    assert score.score == 1.0
    assert all(len(row.details["guesses"]) <= 10 for row in score.per_example)
    guesses = [len(row.details["guesses"]) for row in score.per_example]
    assert score.score_dict["mean_guesses"] == pytest.approx(sum(guesses) / 20)


@pytest.mark.parametrize("answer", ["", "?", "7", "9" * 10_000, "0", "\n\n", "\nReply: 5"])
def test_a_game_ends_whatever_the_model_says(answer):
    score = make("twenty_questions_numbers").evaluate_model(
        RuleModel("stubborn", lambda prompt: answer), max_examples=2
    )
    assert [len(row.details["guesses"]) for row in score.per_example] == [20, 20]
    assert score.score_dict == {"found": 0.0, "mean_guesses": 20.0}


def test_fewer_games_are_the_first_of_more():
    task = make("twenty_questions_numbers")
    secrets = [
        [row.targets for row in task.evaluate_model(mute_model(), max_examples=n).per_example]
        for n in (2, 20)
    ]
    assert secrets[0] == secrets[1][:2]
    assert len(set(secrets[1])) == 20


def test_a_failed_request_ends_its_game():
    score = make("twenty_questions_numbers").evaluate_model(FailingModel(), max_examples=2)
    assert [row.error for row in score.per_example] == ["timeout", "timeout"]
    assert [row.details["guesses"] for row in score.per_example] == [[""], [""]]


def test_replies_depend_on_the_guess_and_games_are_chats():
    seen = []
    guesses = iter(["no idea", "1", "01000"])
    model = RuleModel("guesser", lambda prompt: seen.append(prompt) or next(guesses, "7"))
    make("twenty_questions_numbers").evaluate_model(model, max_examples=1)
    assert seen[3].endswith(
        "Guess 1: \nReply: Please guess a number.\nGuess 2: 1\nReply: Higher.\n"
        "Guess 3: 1000\nReply: Lower.\nGuess 4:"
    )
    roles_and_texts = seen[3].messages
    assert roles_and_texts[0][0] == "user"
    assert roles_and_texts[1:] == (
        ("assistant", "?"),
        ("user", "Please guess a number."),
        ("assistant", "1"),
        ("user", "Higher."),
        ("assistant", "1000"),
        ("user", "Lower."),
    )
    assert [prompt.id for prompt in seen[:2]] == ["game-01, guess 1", "game-01, guess 2"]
