# SPDX-License-Identifier: Apache-2.0
"""task.json of JSONL tasks: defaults, and faults that name file and setting."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api.errors import InvalidValueError, TaskFileError
from lmeval.api.settings import SETTING_NAMES, TaskSettings, read_settings, settings_from_json


def test_by_default_the_prompt_is_sent_as_it_is():
    settings = TaskSettings()
    assert settings.task_prefix == ""
    assert settings.example_input_prefix == ""
    assert settings.example_output_prefix == ""


def test_lists_become_tuples():
    settings = settings_from_json({"keywords": ["a"], "stop_string": ["x", "y"]})
    assert (settings.keywords, settings.stop_string) == (("a",), ("x", "y"))


def test_one_stop_string_needs_no_list():
    assert settings_from_json({"stop_string": "x"}).stop_string == ("x",)


def test_notes_for_readers_are_allowed():
    assert settings_from_json({"canary": "…", "comment": 1}) == TaskSettings()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("descripton", "x", "unknown setting 'descripton'; did you mean 'description'"),
        ("zzz", "x", "unknown setting 'zzz'; known are"),
        ("name", 7, "'name' must be a string"),
        ("keywords", "word", "'keywords' must be a list of strings"),
        ("output_regex", "(", "no regular expression"),
        ("output_regex", "(a)(b)", "has 2 groups"),
        ("output_regex", 7, "'output_regex' must be a string"),
        ("stop_string", [""], "'stop_string' must be free of empty strings"),
        ("stop_string", 7, "'stop_string' must be a list of strings"),
        ("max_length", 0, "'max_length' must be a whole number of at least 1"),
        ("max_length", True, "'max_length' must be a whole number"),
        ("answer_extraction", "word", "'answer_extraction' must be one of 'letter', 'number'"),
        ("answer_extraction", [], "'answer_extraction' must be one of"),
        ("low_score", "0", "'low_score' must be a number"),
        ("low_score", 10**400, "'low_score' must be a number"),
        ("num_samples", 0, "'num_samples' must be a whole number of at least 1"),
        ("pass_at_k", [5], r"numbers from 1 to num_samples \(1\)"),
        ("pass_at_k", 5, "'pass_at_k' must be a list"),
    ],
)
def test_wrong_settings_are_named(key, value, reason):
    with pytest.raises(InvalidValueError, match=reason):
        settings_from_json({key: value})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"name": "a",\n "name": "b"}', r"task\.json, line 2, column 2: the key"),
        ('{"name": "a",\n}', r"line 1, column 13: trailing comma"),
        ("[]", "one JSON object expected"),
        ('{"keywords": 3}', r"task\.json: 'keywords' must be"),
        ("", "line 1, column 1: no valid JSON"),
    ],
)
def test_faults_name_the_file(tmp_path, content, reason):
    path = tmp_path / "task.json"
    path.write_text(content)
    with pytest.raises(TaskFileError, match=reason):
        read_settings(path)


def test_bytes_that_are_no_text_are_said(tmp_path):
    path = tmp_path / "task.json"
    path.write_bytes(b'{"name": "\xff"}')
    with pytest.raises(TaskFileError, match="byte at position 10 is not UTF-8"):
        read_settings(path)


def test_a_byte_order_mark_is_allowed(tmp_path):
    path = tmp_path / "task.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"name": "a"}).encode())
    assert read_settings(path).name == "a"


@given(
    key=st.sampled_from(SETTING_NAMES),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    ),
)
def test_any_value_is_taken_or_refused_by_name(key, value):
    try:
        settings_from_json({key: value})
    except InvalidValueError as error:
        assert key in str(error) or "regular expression" in str(error) or "groups" in str(error)
