# SPDX-License-Identifier: Apache-2.0
"""Reading JSONL task files: section A of the public cases, and files broken at random."""

import gzip
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval.api.errors import LmevalError, TaskFileError
from lmeval.api.example import read_examples
from lmeval.api.loading import read_rows

ROW = {"id": "q1", "prompt": "2 + 2?", "targets": ["4"], "metric": "exact_match"}


def row(**changes):
    """A valid row with changes; None takes a key out."""
    merged = {**ROW, **changes}
    return json.dumps({key: value for key, value in merged.items() if value is not None})


def write(tmp_path, content, name="task.jsonl"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(tmp_path, content, name="task.jsonl"):
    return list(read_examples(write(tmp_path, content, name)))


def test_a_row_becomes_an_example(tmp_path):
    (example,) = read(tmp_path, row(extras={"cluster": "a"}))
    assert (example.id, example.prompt, example.targets) == ("q1", "2 + 2?", ("4",))
    assert (example.metric, example.extras, example.line) == ("exact_match", {"cluster": "a"}, 1)


def test_comments_and_blank_lines_are_skipped(tmp_path):
    examples = read(tmp_path, f"# note\n\n   \n  # note\n{row()}\n")
    assert [example.line for example in examples] == [5]


@pytest.mark.parametrize("before", [b"", b"# note\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, before):  # P001
    examples = read(tmp_path, b"\xef\xbb\xbf" + before + row().encode())
    assert [example.id for example in examples] == ["q1"]


def test_text_survives_a_locale_that_is_not_utf8(tmp_path):  # P002
    path = write(tmp_path, row(prompt="naïve 東京 🙂"))
    program = (
        "import sys; from lmeval.api.example import read_examples\n"
        f"print(ascii(next(read_examples({str(path)!r})).prompt))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == ascii("naïve 東京 🙂")


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_line_feeds_end_a_line(tmp_path, mark):  # P003
    line = json.dumps({**ROW, "prompt": f"one{mark}two"}, ensure_ascii=False)
    if mark < " ":
        line = line.replace(mark, f"\\u{ord(mark):04x}")
    (example,) = read(tmp_path, line)
    assert example.prompt == f"one{mark}two"


def test_carriage_returns_before_line_feeds_do_not_count(tmp_path):
    assert [e.id for e in read(tmp_path, f"{row()}\r\n{row(id='q2')}\r\n")] == ["q1", "q2"]


def test_gzip_is_unpacked(tmp_path):
    examples = read(tmp_path, gzip.compress(row().encode()), "task.jsonl.gz")
    assert examples[0].id == "q1"


@pytest.mark.parametrize("cut", [5, 12, 40])
def test_damaged_gzip_is_said(tmp_path, cut):
    packed = gzip.compress(row().encode() * 20)
    with pytest.raises(TaskFileError, match="gzip data is damaged"):
        read(tmp_path, packed[:-cut], "task.jsonl.gz")


def test_a_syntax_error_names_line_column_and_reason(tmp_path):  # P005
    content = f'# c\n\n{row()}\n{{"prompt":"2+2?","targets":["4"],}}\n'
    with pytest.raises(TaskFileError, match=r"line 4, column 33: trailing comma") as caught:
        read(tmp_path, content)
    assert (caught.value.line, caught.value.column) == (4, 33)


@pytest.mark.parametrize(
    "content", [json.dumps(ROW, indent=1), json.dumps([ROW, ROW]), json.dumps([ROW], indent=1)]
)
def test_what_is_no_object_per_line_is_said(tmp_path, content):  # P005
    with pytest.raises(TaskFileError, match="one JSON object per line expected"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt":"q","targets":["a"],"targets":["b"],"metric":"exact_match"}',
        '{"prompt":"q","targets":["a"],"metric":"exact_match","extras":{"x":{"y":1,"y":2}}}',
        '{"prompt":"q","pro\\u006dpt":"q","targets":["a"],"metric":"exact_match"}',
    ],
)
def test_a_key_that_stands_twice_is_refused_at_any_depth(tmp_path, line):  # P007
    with pytest.raises(TaskFileError, match=r"line 1, column \d+: the key .* stands twice"):
        read(tmp_path, line)


@pytest.mark.parametrize("second", ["q1", 1])
def test_ids_are_unique(tmp_path, second):  # P008
    first = row(id="q1" if second == "q1" else "1")
    with pytest.raises(TaskFileError, match=r"line 2: the id '.*' stands in line 1 already"):
        read(tmp_path, f"{first}\n{row(id=second)}")


def test_an_id_may_be_left_out(tmp_path):
    assert [e.id for e in read(tmp_path, f"{row(id=None)}\n# c\n{row(id=None)}")] == [
        "row-1",
        "row-2",
    ]


def test_a_bare_target_is_one_target(tmp_path):  # P010
    assert read(tmp_path, row(targets="cat"))[0].targets == ("cat",)


@pytest.mark.parametrize(
    "line",
    [
        '{"prompt":"q","target":"Paris","metric":"substring_contains"}',
        '{"prompt":"q","metric":"substring_contains"}',
        row(targets=[]),
        row(targets=[""]),
        row(targets=["  "]),
        row(targets=[4]),
        row(targets=["a", None]),
        row(targets={"a": 1}),
    ],
)
def test_a_missing_or_blank_target_is_refused(tmp_path, line):  # P011
    with pytest.raises(TaskFileError, match=r"line 1, column \d+: .*target|line 1: .*target"):
        read(tmp_path, line)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_are_finite(tmp_path, literal):  # P012
    line = row().replace('"4"]', f'"4"], "extras": {{"weight": {literal}}}')
    with pytest.raises(TaskFileError, match=r"line 1, column \d+: .*no finite number"):
        read(tmp_path, line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (row(prompt=None), "'prompt' must be a string, found nothing"),
        (row(prompt=7), "'prompt' must be a string, found 7"),
        (row(id=True), "'id' must be a string or an integer"),
        (row(id=""), "'id' must be a string or an integer"),
        (row(metric=3), "'metric' must be the name of a metric"),
        (row(extras=[1]), "'extras' must be an object"),
        (row(promt="q"), "unknown key 'promt'; did you mean 'prompt'"),
        (row(category="x"), "unknown key 'category'; put what the metric needs under 'extras'"),
        ('"text"', "one JSON object per line expected, found 'text'"),
        (row() + " x", "text after the end of the JSON value"),
        (row(prompt="\ud800"), "half a surrogate pair"),
        ("[" * 100_000, "nested too deeply|does not end"),
        (row().replace('"4"]', '"4"], "extras": {"n": ' + "9" * 5000 + "}"), "too many digits"),
    ],
)
def test_other_faults_name_line_and_reason(tmp_path, line, reason):
    with pytest.raises(TaskFileError, match=rf"task\.jsonl, line 1.*({reason})"):
        read(tmp_path, line)


def test_columns_count_leading_blanks(tmp_path):
    with pytest.raises(TaskFileError, match="line 1, column 3: "):
        read(tmp_path, "  x")


def test_one_metric_a_file(tmp_path):
    content = f"{row()}\n{row(id='q2', metric='rouge_l')}"
    with pytest.raises(TaskFileError, match=r"line 2: metric 'rouge_l' after 'exact_match'"):
        read(tmp_path, content)


def test_bytes_that_are_no_utf8_name_their_place(tmp_path):
    with pytest.raises(TaskFileError, match=r"line 2, column 13: the byte 0xff is not UTF-8"):
        read(tmp_path, f"{row()}\n".encode() + b'{"prompt": "\xff"}')


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(TaskFileError, match="cannot be read: No such file"):
        list(read_examples(tmp_path / "none.jsonl"))


def test_an_unknown_metric_is_said_with_close_names(tmp_path):
    path = write(tmp_path, row(metric="exact_mach"))
    with pytest.raises(TaskFileError, match=r"line 1: .*exact_mach.*exact_match"):
        read_rows(path)


def test_a_file_without_examples_is_said(tmp_path):
    with pytest.raises(TaskFileError, match="holds no example"):
        read_rows(write(tmp_path, "# nothing\n"))


def test_rows_beyond_the_limit_are_not_read(tmp_path):
    path = write(tmp_path, f"{row()}\nnot JSON")
    assert len(read_rows(path, limit=1)) == 1


VALID = "".join(
    json.dumps(
        {
            "id": f"r{number}",
            "prompt": f"naïve {number} 東京",
            "targets": ["4", "four"],
            "metric": "exact_match",
            "extras": {"cluster": "a", "weight": 0.5, "tags": [1, None, True]},
        },
        ensure_ascii=False,
    )
    + "\n"
    for number in range(4)
).encode()


@st.composite
def mutated_files(draw):
    content = bytearray(VALID)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["flip", "cut", "insert", "swap_line"]))
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        if kind == "flip" and content:
            content[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del content[at : at + draw(st.integers(1, 60))]
        elif kind == "insert":
            content[at:at] = draw(
                st.sampled_from(
                    [b"\n", b'"', b"{", b"]", b",", b"null", b"NaN", b"\\ud800", b"\x00"]
                )
            )
        else:
            lines = bytes(content).split(b"\n")
            content = bytearray(b"\n".join(lines[1:] + lines[:1]))
    return bytes(content)


TYPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def loads_or_names_its_fault(path):
    try:
        rows = read_rows(path)
    except LmevalError as error:
        assert type(error) is TaskFileError, error
        assert str(path) in str(error)
        assert error.line is not None or "holds no example" in error.reason
        assert "Traceback" not in str(error)
    else:
        assert all(row.targets and row.prompt is not None for row in rows)


@settings(max_examples=300, deadline=None)
@given(content=mutated_files())
def test_a_broken_file_loads_or_gives_one_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("broken") / "task.jsonl"
    path.write_bytes(content)
    loads_or_names_its_fault(path)


@settings(max_examples=200, deadline=None)
@given(key=st.sampled_from(["id", "prompt", "targets", "metric", "extras"]), value=TYPES)
def test_a_value_of_another_type_loads_or_gives_one_error(tmp_path_factory, key, value):
    path = tmp_path_factory.mktemp("typed") / "task.jsonl"
    path.write_text(json.dumps({**ROW, key: value}), encoding="utf-8")
    loads_or_names_its_fault(path)
