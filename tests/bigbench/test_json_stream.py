# SPDX-License-Identifier: Apache-2.0
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from lmeval.api.errors import TaskFileError
from lmeval.bigbench import json_stream
from lmeval.bigbench.json_stream import EXAMPLES, LIST_BEGINS, read_at, read_members


def members_of(path):
    return [(key, value) for key, value, _ in read_members(path)]


def write(tmp_path, text):
    path = tmp_path / "task.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_examples_are_given_one_by_one_and_all_else_whole(tmp_path):
    path = write(tmp_path, ' {"name": "x", "examples": [{"input": "a"}, 2], "keywords": ["k"]} \n')
    assert members_of(path) == [
        ("name", "x"),
        (EXAMPLES, LIST_BEGINS),
        (EXAMPLES, {"input": "a"}),
        (EXAMPLES, 2),
        ("keywords", ["k"]),
    ]


def test_an_empty_list_of_examples_shows(tmp_path):
    assert members_of(write(tmp_path, '{"examples": []}')) == [(EXAMPLES, LIST_BEGINS)]


def test_a_null_among_the_examples_is_no_beginning(tmp_path):
    path = write(tmp_path, '{"examples": [null]}')
    assert members_of(path) == [(EXAMPLES, LIST_BEGINS), (EXAMPLES, None)]


def test_a_key_of_the_file_may_stand_twice(tmp_path):
    assert members_of(write(tmp_path, '{"a": "false", "a": true}')) == [("a", "false"), ("a", True)]


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbf" + '{"examples": ["é"]}'.encode())
    ((_, _, _), (_, value, place)) = read_members(path)
    with path.open("rb") as file:
        assert value == read_at(file, place) == "é"


@pytest.mark.parametrize(
    ("example", "reason"),
    [
        (r'{"input": "a\ud800b"}', "half a surrogate pair"),
        (r'{"input": "a\uDC00"}', "half a surrogate pair"),
        ('{"input": "a", "target_scores": {"b": 1e999}}', "1e999 is no finite number"),
    ],
)
def test_what_strict_json_has_not_is_refused_where_it_stands(tmp_path, example, reason):
    with pytest.raises(TaskFileError, match=rf"line 2, column \d+: .*{reason}"):
        members_of(write(tmp_path, '{"examples": [\n' + example + "]}"))


@pytest.mark.parametrize("text", [r'"\ud83d\ude00"', r'"\uD83D\uDE00"', r'"\\ud800"'])
def test_whole_surrogate_pairs_are_text(tmp_path, text):
    assert members_of(write(tmp_path, f'{{"name": {text}}}')) == [("name", json.loads(text))]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    examples=st.lists(values, max_size=8),
    other=st.dictionaries(texts.filter(lambda key: key != EXAMPLES), values, max_size=3),
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_every_value_is_read_and_read_again(
    tmp_path_factory, examples, other, chunk, indent, ascii_only
):
    path = tmp_path_factory.mktemp("stream") / "task.json"
    data = {**other, EXAMPLES: examples}
    path.write_text(
        json.dumps(data, indent=indent, ensure_ascii=ascii_only), encoding="utf-8", newline="\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "_CHUNK", chunk)
        found = list(read_members(path))
    assert {key: value for key, value, _ in found if key != EXAMPLES} == other
    assert [value for key, value, _ in found if key == EXAMPLES][1:] == examples
    with path.open("rb") as file:
        for _, value, place in found:
            if value is not LIST_BEGINS:
                assert read_at(file, place) == value


FAULTS = [
    ('{"examples": [{"input": "a"},\n ]}', 1, 29, "trailing comma"),
    ('{"examples": [{"input": "a",\n }]}', 1, 28, "trailing comma"),
    ('{"name": "x",\n}', 1, 13, "trailing comma"),
    ('{"examples": [{"input": "a"}\n {"input": "b"}]}', 2, 2, "',' delimiter"),
    ('{"examples": [{"input" "a"}]}', 1, 24, "':' delimiter"),
    ("{'name': 1}", 1, 2, "double quotes"),
    ('{"examples": [{"input": "a', 1, 25, "unterminated string"),
    ('{"examples": [{"input": "a"}', 1, 29, "the end"),
    ('{"examples": [NaN]}', 1, 15, "NaN"),
    ('{"examples": [{"é": 1,\n "é": 2}]}', 2, 2, "twice"),
    ('{"examples": ["a\nb"]}', 1, 17, "control character"),
    ('{"examples": []} more', 1, 18, "after the end"),
    ("[1]", 1, 1, "one JSON object"),
    ("", 1, 1, "found the end"),
]


@pytest.mark.parametrize(("text", "line", "column", "reason"), FAULTS)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_faults_name_line_column_and_reason(
    tmp_path, monkeypatch, text, line, column, reason, chunk
):
    monkeypatch.setattr(json_stream, "_CHUNK", chunk)
    with pytest.raises(TaskFileError, match=reason) as caught:
        members_of(write(tmp_path, text))
    assert caught.value.line == line
    assert caught.value.column in (column, None)


def test_examples_that_are_no_list_are_refused(tmp_path):
    with pytest.raises(TaskFileError, match=r"line 2, column 13: 'examples' must be a list"):
        members_of(write(tmp_path, '{"é": 1,\n"examples": {"input": "a"}}'))


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    with pytest.raises(TaskFileError, match="UTF-8"):
        members_of(write(tmp_path, b'{"examples": ["\xff"]}'))


def test_deep_nesting_is_refused(tmp_path):
    with pytest.raises(TaskFileError, match="nested too deeply"):
        members_of(write(tmp_path, '{"a": ' + "[" * 100_000 + "}"))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(TaskFileError, match="No such file"):
        members_of(tmp_path / "task.json")


def test_a_fault_far_from_the_end_is_found_without_reading_on(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "_CHUNK", 100)
    path = write(tmp_path, '{"examples": [{"input" "a"},' + '{"input": "a"},' * 1000)
    read = []
    opened = path.open("rb")

    class Counting:
        def __getattr__(self, name):
            return getattr(opened, name)

        def read(self, size):
            read.append(size)
            return opened.read(size)

    with pytest.raises(TaskFileError), opened:
        list(json_stream._Reader(path, Counting()).members())
    assert sum(read) < 1000
