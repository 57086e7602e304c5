# SPDX-License-Identifier: Apache-2.0
"""The shipped tasks: the contract of each, and rows worth asking."""

import collections
import re

import pytest

from lmeval.api.example import read_examples
from lmeval.api.options import TaskOptions
from lmeval.api.registry import built_in_folder, find_sources, load_task, source_of
from lmeval.models.toy import ToyModel
from lmeval.models.toy_rules import answer_by_rule
from lmeval.sandbox import Sandbox, SandboxUnavailable
from lmeval.testing import TaskTestMixin, echo_model

ROW_TASKS = (
    *("arithmetic", "code-exec", "generation", "multiple-choice", "ngram_overlap", "summary"),
)
PROGRAMS = (
    *("boolean_expressions_generated", "list_functions_generated", "needle_retrieval"),
    *("simple_arithmetic", "twenty_questions_numbers"),
)
FIXTURES_WITHOUT_CODE = tuple(name for name in ROW_TASKS if name != "code-exec")


def load(name, **options):
    return load_task(source_of(built_in_folder() / name), TaskOptions(**options))


def rows_of(name):
    return list(read_examples(built_in_folder() / name / "task.jsonl"))


class ShippedTask(TaskTestMixin):
    name = ""

    def make_task(self):
        return load(self.name)


class TestArithmetic(ShippedTask):
    name = "arithmetic"


class TestBooleanExpressionsGenerated(ShippedTask):
    name = "boolean_expressions_generated"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as made:
        try:
            made.start()
        except SandboxUnavailable as reason:
            pytest.skip(str(reason))
        yield made


class TestCodeExec(ShippedTask):
    name = "code-exec"

    @pytest.fixture(autouse=True)
    def _sandbox(self, sandbox):
        self.sandbox = sandbox

    def make_task(self):
        return load(self.name, sandbox=self.sandbox)

    @pytest.mark.parametrize("shots", [0, 3])
    def test_the_toy_model_solves_the_fixture(self, shots):
        task = load(self.name, sandbox=self.sandbox, shots=(shots,))
        assert task.evaluate_model(ToyModel()).score == 1.0


class TestGeneration(ShippedTask):
    name = "generation"


class TestListFunctionsGenerated(ShippedTask):
    name = "list_functions_generated"


class TestMultipleChoice(ShippedTask):
    name = "multiple-choice"


class TestNeedleRetrieval(ShippedTask):
    name = "needle_retrieval"


class TestNgramOverlap(ShippedTask):
    name = "ngram_overlap"


class TestSimpleArithmetic(ShippedTask):
    name = "simple_arithmetic"


class TestSummary(ShippedTask):
    name = "summary"


class TestTwentyQuestionsNumbers(ShippedTask):
    name = "twenty_questions_numbers"


def test_every_shipped_task_is_known_here():
    found = [source.name for source in find_sources(built_in_folder())]
    assert found == sorted(ROW_TASKS + PROGRAMS)


@pytest.mark.parametrize("name", FIXTURES_WITHOUT_CODE)
@pytest.mark.parametrize("shots", [0, 3])
def test_the_toy_model_solves_the_fixture(name, shots):
    assert load(name, shots=(shots,)).evaluate_model(ToyModel()).score == 1.0


def test_the_toy_model_writes_right_programs():
    for row in rows_of("code-exec"):
        names = {}
        exec(answer_by_rule(row.prompt), names)
        for given, expected in row.extras["io_pairs"]:
            result = names["f"](given)
            assert (result, type(result)) == (expected, type(expected)), row.prompt


@pytest.mark.parametrize("name", ROW_TASKS)
def test_rows_are_many_and_different(name):
    rows = rows_of(name)
    assert len(rows) >= 25
    assert len({row.prompt for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ROW_TASKS + PROGRAMS)
def test_a_task_is_named_as_its_folder(name):
    assert load(name).get_task_details().name == name


def test_keywords_md_lists_every_keyword_with_the_tasks_that_use_it():
    text = (built_in_folder().parents[1] / "keywords.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- ([^:]+): (?:.*?\S)(?: \(([^()]*)\))?$", text, re.MULTILINE)
    users = collections.defaultdict(list)
    for name in sorted(ROW_TASKS + PROGRAMS):
        for keyword in load(name).get_task_details().keywords:
            users[keyword].append(name)
    assert {keyword: tasks.split(", ") for keyword, tasks in listed if tasks} == users
    assert len(dict(listed)) == len(listed)


def test_repeating_a_prompt_of_generation_never_holds_its_target():
    for row in rows_of("generation"):
        assert all(target.lower() not in row.prompt.lower() for target in row.targets)


def test_right_letters_are_spread_over_the_options():
    letters = collections.Counter(row.targets[0] for row in rows_of("multiple-choice"))
    assert sorted(letters) == ["A", "B", "C", "D"]
    assert max(letters.values()) - min(letters.values()) <= 1


def test_an_unedited_copy_scores_the_low_score_of_ngram_overlap():
    task = load("ngram_overlap")
    copies = [
        task.metric.function(row.prompt.rpartition(": ")[2], row.targets, {})
        for row in task.examples
    ]
    assert sum(copies) / len(copies) == pytest.approx(0.75, abs=0.01)
    assert task.evaluate_model(echo_model()).low_score == 0.75


@pytest.mark.parametrize(
    ("prediction", "target", "expected"),
    [
        ("a b c d", "a b c d", 1.0),
        ("", "a b", 0.0),
        ("a", "a b", 0.0),  # no word pair
        ("x y", "a b", 0.0),
        ("b a", "a b", 0.0),  # the words, but not the pair
        ("a b c", "a b d", (2 / 3 * 1 / 2) ** 0.5),
        ("a b a b", "a b", (2 / 4 * 1 / 3) ** 0.5),  # clipped: each counts once
        ("a b", "a b c d", 0.36787944117144233),  # exp(1 - 4/2)
    ],
)
def test_ngram_overlap_by_hand(prediction, target, expected):
    metric = load("ngram_overlap").metric
    assert metric.function(prediction, [target], {}) == pytest.approx(expected, abs=1e-12)
    assert metric.function(prediction, ["q r s", target], {}) == pytest.approx(expected, abs=1e-12)
