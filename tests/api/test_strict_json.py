# SPDX-License-Identifier: Apache-2.0
"""Strict JSON: the place of each fault, and text that any parser reads back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api import strict_json


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('{"a": 1,\n "b": [1, 2,],\n}', 2, 12, "trailing comma"),
        ('{"a": 1,\n}', 1, 8, "trailing comma"),
        ('{"a": 1,\n "a": 2}', 2, 2, 'the key "a" stands twice'),
        ('{"a": {"b": 1}, "c": {"b": 1, "b": 2}}', 1, 31, 'the key "b" stands twice'),
        ('["a", "a", {"a": "a"}, {"a": 1,\n"a": 1}]', 2, 1, 'the key "a" stands twice'),
        ('{"a": "NaN",\n "b": NaN}', 2, 7, "NaN is no finite number"),
        ("[-Infinity]", 1, 2, "-Infinity is no finite number"),
        ("[1, 1e400]", 1, 5, "1e400 is no finite number"),
        ('["\\ud800"]', 1, 3, "half a surrogate pair"),
        ("[1] 2", 1, 5, "text after the end"),
        ("[1", 1, 3, "found the end"),
    ],
)
def test_faults_have_a_place(text, line, column, reason):
    with pytest.raises(strict_json.JsonFault, match=reason) as caught:
        strict_json.parse(text)
    assert caught.value.line_and_column(text) == (line, column)


def test_pairs_of_surrogates_are_text():
    assert strict_json.parse('"\\ud83d\\ude42"') == "🙂"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_what_is_dumped_is_parsed_back(value):
    assert strict_json.parse(strict_json.dump_bytes(value).decode()) == value


@given(st.text(st.characters(), max_size=20))
def test_lone_surrogates_survive_in_utf8(text):
    hostile = text + "\ud800" + text
    # In JSON, as in UTF-16, a high surrogate before a low one is the letter that the two stand for.
    expected = hostile.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(strict_json.dump_bytes(hostile).decode()) == expected


def test_dumping_refuses_what_is_not_finite():
    with pytest.raises(ValueError, match="not JSON compliant"):
        strict_json.dump_bytes([float("nan")])
