# SPDX-License-Identifier: Apache-2.0
"""Samples while a task runs, and what becomes of them when the run or the disk comes to an end."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.api.errors import InvalidValueError, ResultsError
from lmeval.api.model import ModelData
from lmeval.api.options import TaskOptions
from lmeval.api.task import ExampleScore, ScoreData
from lmeval.engine.samples import SampledRun, find_samples, read_samples
from lmeval.engine.samples_folder import SamplesFolder


def folder_in(path, overwrite=False, **changes):
    facts = {"adapter": "m", "model": ModelData("test", "m"), "fingerprint": "f"}
    run = SampledRun(**{**facts, "options": TaskOptions(), **changes})
    return SamplesFolder(path, run, {"t": "abc"}, overwrite)


def row(number, **fields):
    facts = {"id": str(number), "score": 1.0, "prompt": f"q{number}", "prediction": "a\nb\u2028"}
    return ExampleScore(**{**facts, "targets": ("a",), **fields})


def score_of(*rows, shots=0, description=""):
    return ScoreData({"s": 0.5}, "s", shots, 0.0, 1.0, description, per_example=rows)


def records(path):
    return [json.loads(line) for line in path.read_bytes().decode().split("\n")[:-1]]


def test_rows_are_in_the_file_as_soon_as_they_are_appended(tmp_path):
    with folder_in(tmp_path).start("t") as writer:
        assert list(tmp_path.iterdir()) == []
        writer.append([row(2)])
        first = records(tmp_path / "t.jsonl")
        writer.append([row(0), row(1)], 3, "hard")
        head, *rows = records(tmp_path / "t.jsonl")
    assert first == [head, rows[0]]
    assert (head["schema"], head["task"]) == ("samples.v1", "t")
    assert [record["id"] for record in rows] == ["2", "0", "1"]
    assert [record["number_of_shots"] for record in rows] == [0, 3, 3]
    assert [record.get("subtask") for record in rows] == [None, "hard", "hard"]
    assert all(record["task"] == "t" and "part" not in record for record in rows)


def test_no_rows_make_no_file(tmp_path):
    with folder_in(tmp_path).start("t") as writer:
        writer.append([])
        writer.append(())
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_file_is_read_with_rows_and_without_scores(tmp_path):
    with folder_in(tmp_path).start("t") as writer:
        writer.append([row(1, error="timeout"), row(0)])
    read = read_samples(tmp_path / "t.jsonl")
    assert read.rows == ((None, row(1, error="timeout")), (None, row(0)))
    assert (read.scores, read.task, read.sha256) == ((), "t", "abc")


def test_scores_behind_rows_without_a_part_are_refused(tmp_path):
    with folder_in(tmp_path).start("t") as writer:
        writer.append([row(0)])
    with open(tmp_path / "t.jsonl", "ab") as file:
        file.write(b'{"scores": [], "failures": [0, 0]}\n')
    with pytest.raises(ResultsError, match=r"line 3: .*answers without a part"):
        read_samples(tmp_path / "t.jsonl")


# Rows by position: how each reaches the file before its end, if it does.
appended_rows = st.lists(st.integers(0, 11), unique=True, max_size=12)


@given(order=appended_rows, cuts=st.lists(st.integers(0, 12), max_size=3), split=st.integers(0, 12))
def test_the_finished_file_does_not_depend_on_the_order_of_completion(order, cuts, split):
    rows = [row(n, prediction="x" * n, details={"n": n}) for n in range(12)]
    rows[3] = row(3, prediction="lone \ud800 नमस्ते")
    scores = [score_of(*rows[:split], description="a"), score_of(*rows[split:], shots=2)]
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as grown:
        folder_in(plain).start("t").finish(scores, (1, 2))
        with folder_in(grown).start("t") as writer:
            for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
                writer.append([rows[place] for place in order[start:end]], start, "elsewhere")
            writer.finish(scores, (1, 2))
        assert os.listdir(grown) == os.listdir(plain) == ["t.jsonl"]
        assert Path(grown, "t.jsonl").read_bytes() == Path(plain, "t.jsonl").read_bytes()


def test_a_row_that_was_changed_after_it_was_appended_is_written_as_it_is_returned(tmp_path):
    with folder_in(tmp_path).start("t") as writer:
        writer.append([row(0), row(1)])
        writer.finish([score_of(row(0, score=0.5), row(1))])
    assert [r.score for _, r in read_samples(tmp_path / "t.jsonl").rows] == [0.5, 1.0]


def test_thousands_of_rows_at_once(tmp_path):
    rows = [row(number) for number in range(2500)]
    with folder_in(tmp_path).start("t") as writer:
        writer.append(rows[::-1])
        unfinished = read_samples(tmp_path / "t.jsonl").rows
        writer.finish([score_of(*rows)])
    assert [r for _, r in unfinished] == rows[::-1]
    assert [r for _, r in read_samples(tmp_path / "t.jsonl").rows] == rows


@pytest.mark.parametrize("rows", [row(0), [{"id": "0"}], "rows", None, iter([row(0)])])
def test_what_is_no_list_of_rows_is_refused(tmp_path, rows):
    with (
        folder_in(tmp_path).start("t") as writer,
        pytest.raises(InvalidValueError, match="on_scored takes a list of ExampleScore"),
    ):
        writer.append(rows)
    assert list(tmp_path.iterdir()) == []


def finished(path, prediction):
    with folder_in(path, overwrite=True).start("t") as writer:
        writer.finish([score_of(row(0, prediction=prediction))])
    return (path / "t.jsonl").read_bytes()


def test_a_finished_file_stays_beside_the_unfinished_one_that_follows_it(tmp_path):
    before = finished(tmp_path, "first run")
    for _ in range(2):  # two runs that break off
        with folder_in(tmp_path).start("t") as writer:
            writer.append([row(0, prediction="later run")])
        assert (tmp_path / "t.jsonl.before").read_bytes() == before
        assert [path.name for path in find_samples(tmp_path)] == ["t.jsonl"]
        assert read_samples(tmp_path / "t.jsonl").rows[0][1].prediction == "later run"
    last = finished(tmp_path, "last run")
    assert os.listdir(tmp_path) == ["t.jsonl"]
    assert (tmp_path / "t.jsonl").read_bytes() == last


def test_a_task_without_rows_may_be_finished_and_begun_again(tmp_path):
    folder_in(tmp_path).start("t").finish([score_of()])
    with folder_in(tmp_path).start("t") as writer:
        writer.append([row(0)])
    assert read_samples(tmp_path / "t.jsonl.before").scores == (score_of(),)


def test_an_unfinished_file_belongs_to_its_run_too(tmp_path):
    with folder_in(tmp_path).start("t") as writer:
        writer.append([row(0)])
    folder_in(tmp_path)
    with pytest.raises(ResultsError, match="another run, which differs in fingerprint"):
        folder_in(tmp_path, fingerprint="g")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_write_protected_file_is_not_replaced(tmp_path, monkeypatch, overwrite):
    finished(tmp_path, "kept")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everything
    with pytest.raises(ResultsError, match="is write-protected; choose another folder"):
        folder_in(tmp_path, overwrite=overwrite)


FULL_DISK = """
    import resource, signal, sys
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    from test_samples_folder import folder_in, row, score_of
    from lmeval.api.errors import ResultsError
    path, limit = sys.argv[1], int(sys.argv[2])
    with folder_in(path).start("t") as writer:
        writer.append([row(0)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        rows = [row(0)]
        try:
            for number in range(1, 100):
                rows.append(row(number))
                writer.append(rows[-1:])
            writer.finish([score_of(*rows, row(100, prediction="x" * limit))])
        except ResultsError as error:
            print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_full_disk_is_said_in_one_sentence_and_costs_no_row_that_was_there(tmp_path, at_the_end):
    with folder_in(tmp_path / "whole").start("t") as writer:
        for number in range(100):
            writer.append([row(number)])
    size = (tmp_path / "whole" / "t.jsonl").stat().st_size
    limit = size if at_the_end else size // 2
    program = textwrap.dedent(FULL_DISK)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "full"), str(limit)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])},
    )
    path = tmp_path / "full" / "t.jsonl"
    assert done.stdout == f"{path}: cannot be written: File too large.\n"
    assert done.stderr == ""
    assert os.listdir(tmp_path / "full") == ["t.jsonl"]
    assert path.read_bytes().endswith(b"\n")
    kept = [r for _, r in read_samples(path).rows]
    assert kept == [row(number) for number in range(len(kept))]
    assert len(kept) == 100 if at_the_end else 30 < len(kept) < 70
