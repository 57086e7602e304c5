# SPDX-License-Identifier: Apache-2.0
"""The registry, and the three metrics over short strings."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api import metrics
from lmeval.api.errors import MetricError
from lmeval.api.metrics import (
    exact_match,
    find_metric,
    get_metric,
    metric,
    metric_names,
    multiple_choice,
    normalize_answer,
    register_metric,
    rows_metric,
    substring_contains,
)

texts = st.text(max_size=30)
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=30)
TEXT_METRICS = [exact_match, substring_contains, multiple_choice]


@pytest.fixture(autouse=True)
def _own_registry():
    """What a test registers is forgotten with it; built-in metrics stay, as their modules do."""
    before = set(metrics._registered)
    yield
    for name in set(metrics._registered) - before - set(metrics._BUILT_IN_MODULES):
        del metrics._registered[name]


def _define(file: str, name: str = "shared_name", body: str = "return 0.5"):
    source = f"@metric({name!r})\ndef {name}(prediction, targets, extras):\n    {body}\n"
    exec(compile(source, file, "exec"), {"metric": metric, "__name__": "metrics_of_a_task"})


# --- The registry ---


def test_a_decorated_function_stays_an_ordinary_function():
    @metric("always_half")
    def always_half(prediction, targets, extras):
        """Half a point for everybody.

        More words.
        """
        return 0.5

    assert always_half("x", ["y"], {}) == 0.5
    assert get_metric("always_half") is always_half
    assert find_metric("always_half").kind == "example"
    assert find_metric("always_half").description == "Half a point for everybody."
    assert "always_half" in metric_names()


def test_a_metric_without_docstring_has_an_empty_description():
    metric("undescribed")(lambda prediction, targets, extras: 1.0)

    assert find_metric("undescribed").description == ""


def test_a_rows_metric_has_its_kind_and_range():
    @rows_metric("count_rows", high_score=1000.0)
    def count_rows(predictions, targets, extras):
        return float(len(predictions))

    found = find_metric("count_rows")
    assert (found.kind, found.low_score, found.high_score) == ("rows", 0.0, 1000.0)


@pytest.mark.parametrize("resamples", [1, -1])
def test_a_standard_error_needs_two_resamples(resamples):
    with pytest.raises(MetricError, match="resamples must be 0, or 2 and more"):
        rows_metric("odd", resamples=resamples)


def test_a_row_check_is_kept():
    @metric("picky", check_row=lambda targets, extras: "never")
    def picky(prediction, targets, extras):
        return 0.0

    assert find_metric("picky").check_row(["x"], {}) == "never"


def test_loading_the_same_file_again_replaces_its_metric():
    _define("/tasks/a/metrics.py", body="return 0.25")
    _define("/tasks/a/metrics.py", body="return 0.75")

    assert get_metric("shared_name")("x", ["x"], {}) == 0.75


def test_two_files_cannot_share_a_name():
    _define("/tasks/a/metrics.py")

    with pytest.raises(MetricError, match=r"/tasks/b/metrics\.py.*/tasks/a/metrics\.py"):
        _define("/tasks/b/metrics.py")


@pytest.mark.parametrize("name", ["exact_match", "rouge_l", "code_exec"])
def test_a_built_in_name_is_taken_even_before_its_module_is_loaded(name, monkeypatch):
    monkeypatch.delitem(metrics._registered, name, raising=False)

    with pytest.raises(MetricError, match="already defined in"):
        _define("/tasks/a/metrics.py", name=name)


def test_a_notebook_cell_can_be_run_again():
    for cell in ("<cell 1>", "<cell 2>"):
        source = "@metric('in_notebook')\ndef f(prediction, targets, extras):\n    return 1.0\n"
        exec(compile(source, cell, "exec"), {"metric": metric, "__name__": "__main__"})

    assert find_metric("in_notebook").origin == "the module __main__"


def test_the_decorator_without_a_name_says_how_to_write_it():
    with pytest.raises(MetricError, match=r'@metric\("my_metric"\)'):

        @metric
        def forgot_the_name(prediction, targets, extras):
            return 0.0


def test_an_unknown_name_offers_close_ones():
    with pytest.raises(MetricError, match="did you mean exact_match"):
        get_metric("exactmatch")


def test_an_unknown_name_far_from_all_lists_all():
    with pytest.raises(MetricError, match=r"the known ones are .*bleu, .*token_f1"):
        find_metric("zzz")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("exact_match", "example"),
        ("substring_contains", "example"),
        ("multiple_choice", "example"),
        ("rouge_l", "example"),
        ("token_f1", "example"),
        ("numeric_match", "example"),
        ("bleu", "rows"),
        ("macro_f1", "rows"),
        ("choice_likelihood", "choices"),
        ("code_exec", "sandbox"),
    ],
)
def test_built_in_metrics_are_found_by_name(name, kind):
    found = find_metric(name)

    assert (found.name, found.kind) == (name, kind)
    assert found.description


def test_importing_the_registry_loads_no_other_metric():
    script = (
        "import sys, lmeval.api.metrics\n"
        "heavy = {'numpy', 'sacrebleu', 'decimal', 'difflib',"
        " 'lmeval.api.rouge', 'lmeval.api.answers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stderr


def test_any_kind_can_be_registered():
    @register_metric("runs_code", kind="sandbox")
    def runs_code(*arguments):
        return []

    assert find_metric("runs_code").kind == "sandbox"


# --- exact_match (section C) ---


@pytest.mark.parametrize(
    ("target", "prediction", "score"),
    [
        ("A", "A", 1),  # P024: no article is dropped, so nothing becomes empty
        ("A", "zebra", 0),
        ("A", "", 0),
        ("The", "The", 1),
        ("Panama Canal", "Pm Cl", 0),  # P025
        ("The Beatles", "Beatles", 0),
        ("Annabel", "Annabel, Kim", 0),  # P027
        ("Annabel", "An", 0),
        ("Annabel", "", 0),
        ("10", "1.0", 0),  # P028: text is compared, not value; see numeric_match
        ("3.14", "314", 0),
        ("1.0", "1", 0),
        ("3.14", "(3.14)", 0),
        ("1,000", "1000", 0),
        ("hello world", "world hello", 0),  # P030
        ("hello", "hello hello", 0),
        ("New York", "  new\t\n YORK ", 1),
        ("5", "-5", 0),
        ("Straße", "STRASSE", 0),  # lower case, not case folding
        ("МОСКВА", "москва", 1),
        ("", "", 1),  # equal is equal; no loaded row has such a target
        ("", "x", 0),
        ("", "   ", 1),
    ],
)
def test_exact_match(target, prediction, score):
    assert exact_match(prediction, [target], {}) == score


def test_exact_match_takes_any_target():
    assert exact_match("two", ["one", "two"], {}) == 1
    assert exact_match("three", ["one", "two"], {}) == 0


# --- substring_contains (section C) ---


@pytest.mark.parametrize(
    ("target", "prediction", "score"),
    [
        ("A", "A", 1),  # P024
        ("A", "", 0),
        ("The", "The", 1),
        ("Panama Canal", "Pm Cl", 0),  # P025
        ("The Beatles", "Beatles", 0),
        ("Annabel", "Annabel, Kim", 1),  # P027
        ("Annabel", "An", 0),
        ("Annabel", "", 0),
        ("new york", "I love New\n  York!", 1),
        ("5", "25", 1),  # words have no borders
        ("", "anything", 0),  # P011: nothing contains an empty gold
        ("  ", "anything", 0),
        ("", "", 0),
    ],
)
def test_substring_contains(target, prediction, score):
    assert substring_contains(prediction, [target], {}) == score


@pytest.mark.parametrize(
    ("target", "prediction", "score"),
    [
        ("A", "A", 1),  # P024
        ("A", "zebra", 0),
        ("A", "", 0),
        ("5", "25", 0),
        ("5", "25 or 5.", 1),
        ("11", "711 and 11", 1),
        ("new york", "(New York)", 1),
        ("book", "books", 0),
    ],
)
def test_substring_contains_of_whole_words(target, prediction, score):
    assert substring_contains(prediction, [target], {"whole_words": True}) == score


def test_whole_words_is_true_or_false():
    assert "whole_words" in find_metric("substring_contains").check_row(
        ["a"], {"whole_words": "yes"}
    )


def test_substring_contains_takes_any_target():
    assert substring_contains("a small cat", ["dog", "cat"], {}) == 1


@pytest.mark.parametrize("name", ["exact_match", "substring_contains"])
@pytest.mark.parametrize("targets", [[""], ["  \t"], ["Paris", ""], ""])
def test_a_blank_target_is_refused_when_a_task_is_loaded(name, targets):
    assert "empty" in find_metric(name).check_row(targets, {})


def test_a_target_of_text_is_not_refused():
    assert find_metric("substring_contains").check_row(["Paris"], {}) is None


# --- multiple_choice ---


@pytest.mark.parametrize(
    ("targets", "prediction", "score"),
    [
        (["B"], "B", 1),
        (["B"], "b) Paris", 1),
        (["B"], "B. Paris", 1),
        (["B"], "  \nB", 1),
        (["B"], "A", 0),
        (["B"], "", 0),
        (["B"], "   ", 0),
        (["B"], "(B)", 0),  # the first character is a bracket: switch on answer extraction
        (["A", "C"], "c", 1),
        (["b) Paris"], "B", 1),
        (["1"], "1", 1),
        (["Б"], "б", 1),
    ],
)
def test_multiple_choice(targets, prediction, score):
    assert multiple_choice(prediction, targets, {}) == score


@pytest.mark.parametrize("target", ["(B)", "", "  ", "**B**", "-"])
def test_multiple_choice_refuses_targets_that_begin_with_no_letter(target):
    # Every answer in brackets would match "(B)".
    assert "first characters" in find_metric("multiple_choice").check_row([target], {})


# --- All three ---


@pytest.mark.parametrize("function", TEXT_METRICS)
def test_a_bare_string_is_one_target(function):
    # P010: "cat" is not the letters c, a, t.
    assert function("cat", "cat", {}) == 1
    if function is not multiple_choice:  # which compares first characters only
        assert function("c", "cat", {}) == 0


@pytest.mark.parametrize("function", TEXT_METRICS)
@given(prediction=texts, targets=st.lists(texts, max_size=3))
def test_scores_are_zero_or_one_for_any_text(function, prediction, targets):
    assert function(prediction, targets, {}) in (0.0, 1.0)


@given(texts, texts)
def test_an_exact_match_is_contained_too(prediction, target):
    if target.strip() and exact_match(prediction, [target], {}):
        assert substring_contains(prediction, [target], {}) == 1


@given(ascii_texts, ascii_texts, ascii_texts)
def test_a_target_with_text_around_it_is_contained(before, target, after):
    contained = substring_contains(f"{before} {target} {after}", [target], {})
    assert contained == bool(target.strip())


@given(texts)
def test_normalisation_never_empties_a_text_with_something_in_it(text):
    assert bool(normalize_answer(text)) == bool(text.strip())


@given(texts)
def test_normalisation_of_the_normal_form_changes_nothing(text):
    once = normalize_answer(text)
    assert normalize_answer(once) == once
