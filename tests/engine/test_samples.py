# SPDX-License-Identifier: Apache-2.0
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api.errors import ResultsError
from lmeval.api.model import ModelData
from lmeval.api.options import TaskOptions
from lmeval.api.task import AggregateScore, ExampleScore, ScoreData, ScoreWithError
from lmeval.engine.samples import SampledRun, find_samples, portable_name, read_samples
from lmeval.engine.samples_folder import SamplesFolder

HASHES = {"t": "abc", "other": "def"}


def run_of(**changes):
    options = TaskOptions(shots=(0, 2), seed=7, stop_string="\n")
    settings = {"adapter": "org/model:8b", "model": ModelData("test", "org/model:8b")}
    settings |= {"fingerprint": "f", "options": options, "flags": {"seed": 7}, "timestamp": "now"}
    return SampledRun(**{**settings, **changes})


def row(number, **fields):
    settings = {"id": str(number), "score": 1.0, "prompt": f"q{number}", "prediction": "a"}
    return ExampleScore(**{**settings, "targets": ("a", "b"), **fields})


def score_of(*rows, **fields):
    settings = {"number_of_shots": 0, "low_score": 0.0, "high_score": 1.0, "per_example": rows}
    return ScoreData({"exact_match": 0.5}, "exact_match", **{**settings, **fields})


ROWS = [
    row(0),
    row(1, score=0.0, error="timeout", prediction=""),
    row(2, sample=1, raw_prediction="it is a", latency_ms=1.5, finish_reason="stop"),
    row(3, cluster="c", scores={"f1": 0.25}, details={"choices": ["x"], "log_probs": [-0.5]}),
    row(4, score=None, no_answer=True),
    row(5, prompt="lone \ud800, 😀, \u2028, \0", prediction="नमस्ते\r\n"),
    row(6, prediction="x" * 1_000_000),
]


@pytest.mark.parametrize("example", ROWS, ids=range(len(ROWS)))
def test_a_record_comes_back_as_it_was(tmp_path, example):
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score_of(example)])
    read = read_samples(tmp_path / "t.jsonl")
    assert read.rows == ((0, example),)
    assert read.scores == (score_of(example),)


@pytest.mark.parametrize(("stderr", "ci95"), [(0.1, (0.25, 0.75)), (None, None)])
def test_a_score_keeps_the_error_that_it_brought(tmp_path, stderr, ci95):
    score = ScoreWithError({"bleu": 0.5}, "bleu", 0, 0.0, 1.0, stderr=stderr, ci95=ci95)
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score])
    assert read_samples(tmp_path / "t.jsonl").scores == (score,)


def test_the_head_says_whose_answers_these_are(tmp_path):
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score_of()])
    read = read_samples(tmp_path / "t.jsonl")
    assert (read.task, read.sha256, read.run, read.position) == ("t", "abc", run_of(), 0)


def test_failures_that_no_row_shows_are_kept(tmp_path):
    SamplesFolder(tmp_path, run_of(), HASHES).start("other").finish([score_of()], failures=(2, 1))
    read = read_samples(tmp_path / "other.jsonl")
    assert (read.failures, read.position) == ((2, 1), 1)


def test_each_row_belongs_to_its_own_score_data(tmp_path):
    scores = [
        score_of(row(1), row(2), subtask_description="easy"),
        score_of(row(1), subtask_description="hard", number_of_shots=2),
        AggregateScore({"all": 0.75}, "all", -1, 0.0, 1.0),
    ]
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish(scores)
    read = read_samples(tmp_path / "t.jsonl")
    assert list(read.scores) == scores
    assert [type(score) for score in read.scores] == [ScoreData, ScoreData, AggregateScore]


def test_each_line_is_strict_json_with_task_id_and_sample(tmp_path):
    undefined = row(1, details={"ratio": float("nan")})
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score_of(undefined)])
    text = (tmp_path / "t.jsonl").read_bytes().decode("utf-8")
    record = json.loads(text.splitlines()[1], parse_constant=pytest.fail)
    assert (record["task"], record["id"], record["sample"]) == ("t", "1", 0)


def test_a_cut_off_last_line_is_left_out(tmp_path):
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score_of(row(1), row(2))])
    path = tmp_path / "t.jsonl"
    whole = path.read_bytes()
    places = [found.end() for found in re.finditer(b"\n", whole)]
    for cut in (places[0], places[0] + 5, places[1], places[1] + 9, places[2], places[2] + 30):
        path.write_bytes(whole[:cut])
        read = read_samples(path)
        assert len(read.rows) == sum(place <= cut for place in places[1:3])
        assert read.scores == ()


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (0, b"{}"),
        (0, b'{"schema": "samples.v2"}'),
        (0, b'{"schema": "samples.v1"}'),
        (1, b"no json"),
        (1, b"[1]"),
        (1, b'{"id": "1"}'),
        (1, b'{"scores": 7}'),
        (1, b'{"id": 1, "score": 1, "prompt": "", "prediction": "", "targets": []}'),
        (1, b"\xff"),
    ],
)
def test_a_line_that_is_no_record_is_an_error_with_its_number(tmp_path, line, text):
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score_of(row(1))])
    path = tmp_path / "t.jsonl"
    lines = path.read_bytes().splitlines()
    lines[line] = text
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(ResultsError, match=rf"t\.jsonl(, line {line + 1}|: holds no samples)"):
        read_samples(path)


def test_the_samples_of_another_run_are_not_overwritten(tmp_path):
    SamplesFolder(tmp_path, run_of(), HASHES).start("t").finish([score_of(row(1))])
    SamplesFolder(tmp_path, run_of(timestamp="later", environment={"python": "3"}), HASHES)
    with pytest.raises(ResultsError, match="another run, which differs in fingerprint; choose"):
        SamplesFolder(tmp_path, run_of(fingerprint="g"), HASHES)
    with pytest.raises(ResultsError, match="differs in sha256"):
        SamplesFolder(tmp_path, run_of(), {"t": "changed"})
    SamplesFolder(tmp_path, run_of(fingerprint="g"), HASHES, overwrite=True)
    (tmp_path / "other.jsonl").write_text("{}\n")
    with pytest.raises(ResultsError, match="holds no samples"):
        SamplesFolder(tmp_path, run_of(), HASHES)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot be made a folder of samples"):
        SamplesFolder(tmp_path / "file", run_of(), HASHES)
    with pytest.raises(ResultsError, match="holds no samples; name the folder"):
        find_samples(tmp_path)


@pytest.mark.parametrize("name", ["arithmetic", "bbh.logical_7", "_a-b", "x" * 80])
def test_a_plain_name_stays(name):
    assert portable_name(name) == name


AWKWARD = [
    "org/model:8b",
    "http://h:1/v1",
    "../x",
    "..",
    ".",
    "",
    " ",
    ".hidden",
    "ends.",
    "a/b",
    "a__b",
    "a\\b",
    "A",
    "a",
    "con",
    "nul.txt",
    "a|b",
    "x" * 300,
    "x" * 299,
    "नमस्ते",
    "lone \ud800",
    "a\0b",
    "a-0123456789abcdef",
    portable_name("A"),
    portable_name("a/b"),
]


def test_awkward_names_become_portable_and_stay_apart():
    names = [portable_name(name) for name in AWKWARD]
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}", name)
        assert not name.endswith(".")
        assert name.lower() not in ("con", "nul", "nul.txt")


@given(st.sets(st.text("aA/._-:é0", max_size=6), max_size=30))
def test_no_two_names_meet_even_where_case_does_not_count(names):
    assert len({portable_name(name).lower() for name in names}) == len(names)
