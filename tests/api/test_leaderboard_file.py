# SPDX-License-Identifier: Apache-2.0
"""leaderboard.json: strict, complete, read back equal, never half written."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
from fractions import Fraction

import attrs
import numpy as np
import pytest

from lmeval import ExampleScore, ModelData, ScoreData, read_leaderboard, write_leaderboard
from lmeval.api.errors import ResultsError
from lmeval.api.leaderboard_file import check_writable, leaderboard_to_json, without_times
from lmeval.api.results import Leaderboard, task_results


def example(number, **facts):
    values = {"score": 1.0, "prompt": "naïve 東京 🙂", "prediction": "a", **facts}
    return ExampleScore(id=f"q{number}", targets=("a",), **values)


@pytest.fixture
def board():
    rows = (example(1), example(2, score=0.0, error="timeout", latency_ms=3.0, cluster="c"))
    score = ScoreData({"m": 0.5, "n": np.float64(2)}, "m", 0, 0, 1, "", rows)
    return Leaderboard(
        adapter="toy",
        model=ModelData("f", "toy", decoding_params={"temperature": 0}),
        fingerprint="toy-1",
        tasks=tuple(task_results("t", score, "hash", latency_ms=5.0)),
        seed=3,
        flags={"shots": ["0"]},
        environment={"python": "3.11"},
        timestamp="2026-01-01T00:00:00+00:00",
        timing={"seconds": 0.1},
    )


def test_it_is_a_superset_of_the_first_format(board):
    value = leaderboard_to_json(board, include_per_example=True)
    assert value["schema"] == "leaderboard.v1"
    assert {"schema", "timestamp", "overall_score", "adapter", "tasks"} <= set(value)
    (task,) = value["tasks"]
    assert {"task", "metric", "score", "correct", "total", "latency_ms", "per_example"} <= set(task)
    assert (task["correct"], task["total"], task["timeouts"], task["errors"]) == (1, 2, 1, 0)


def test_it_reads_back_equal(board, tmp_path):
    path = tmp_path / "board.json"
    write_leaderboard(board, path, include_per_example=True)
    assert read_leaderboard(path) == board


def test_rows_are_left_out_unless_wanted(board):
    assert "per_example" not in leaderboard_to_json(board)["tasks"][0]


def test_text_is_utf8_and_readable(board, tmp_path):
    path = tmp_path / "board.json"
    write_leaderboard(board, path, include_per_example=True)
    assert "naïve 東京 🙂" in path.read_bytes().decode()


def test_lone_surrogates_of_a_model_are_written_as_escapes(board, tmp_path):
    row = example(1, prediction="\ud800")
    (task,) = task_results("t", ScoreData({"m": 1.0}, "m", 0, 0, 1, "", (row,)), "hash")
    path = tmp_path / "board.json"
    write_leaderboard(attrs.evolve(board, tasks=(task,)), path, include_per_example=True)
    written = json.loads(path.read_bytes().decode())
    assert written["tasks"][0]["per_example"][0]["prediction"] == "\ud800"
    assert read_leaderboard(path).tasks[0].per_example[0][1].prediction == "\ud800"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -np.inf, np.float32("nan")])
def test_what_is_not_finite_becomes_null_with_a_reason(board, value):  # P012
    (task,) = task_results("t", ScoreData({"m": 1.0, "x": value}, "m", 0, 0, 1), "hash")
    written = leaderboard_to_json(attrs.evolve(board, tasks=(task,)))
    json.dumps(written, allow_nan=False)
    (part,) = written["tasks"][0]["subtasks"]
    assert part["score_dict"]["x"] is None
    assert set(part["undefined_scores"]) == {"x"}


def test_odd_entries_of_score_dict_are_written(board):
    entries = {"m": 1.0, 7: np.int64(3), "by": {"a": {1, 2}}, "array": np.array([1.0, 2.0])}
    (task,) = task_results("t", ScoreData(entries, "m", 0, 0, 1), "hash")
    written = leaderboard_to_json(attrs.evolve(board, tasks=(task,)))["tasks"][0]["score_dict"]
    assert written == {"m": 1.0, "7": 3, "by": {"a": [1, 2]}, "array": [1.0, 2.0]}


def test_times_can_be_taken_out(board):
    later = attrs.evolve(board, timestamp="later", timing={"seconds": 9})
    assert leaderboard_to_json(board) != leaderboard_to_json(later)
    assert without_times(leaderboard_to_json(board)) == without_times(leaderboard_to_json(later))


def test_the_same_run_may_be_written_again(board, tmp_path):
    path = tmp_path / "board.json"
    write_leaderboard(board, path)
    write_leaderboard(attrs.evolve(board, timestamp="later"), path)
    assert read_leaderboard(path).timestamp == "later"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"adapter": "other"}, "adapter"),
        ({"fingerprint": "toy-2"}, "fingerprint"),
        ({"seed": 4}, "seed"),
        ({"flags": {"shots": ["2"]}}, "--shots"),
    ],
)
def test_another_run_is_not_overwritten_silently(board, tmp_path, change, named):
    path = tmp_path / "board.json"
    write_leaderboard(board, path)
    other = attrs.evolve(board, **change)
    with pytest.raises(ResultsError, match=rf"differs in {named}; .*--overwrite"):
        write_leaderboard(other, path)
    assert read_leaderboard(path) == attrs.evolve(
        board, tasks=(attrs.evolve(board.tasks[0], per_example=()),)
    )
    write_leaderboard(other, path, overwrite=True)


def test_a_changed_task_is_another_run(board, tmp_path):
    path = tmp_path / "board.json"
    write_leaderboard(board, path)
    changed = attrs.evolve(board, tasks=(attrs.evolve(board.tasks[0], sha256="other"),))
    with pytest.raises(ResultsError, match="differs in the content of t"):
        write_leaderboard(changed, path)


def test_a_file_that_is_no_leaderboard_is_not_overwritten(board, tmp_path):
    path = tmp_path / "board.json"
    path.write_text("my notes")
    with pytest.raises(ResultsError, match="exists and is no leaderboard"):
        write_leaderboard(board, path)
    assert path.read_text() == "my notes"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "line 1, column 2"),
        ('{"schema": "v0"}', "no leaderboard of the schema"),
        ("[]", "no leaderboard of the schema"),
        ('{"schema": "leaderboard.v1"}', "model is missing"),
        ('{"schema": "leaderboard.v1", "tasks": [], "x": NaN}', "no finite number"),
    ],
)
def test_a_faulty_file_is_one_sentence(tmp_path, content, reason):
    path = tmp_path / "board.json"
    path.write_text(content)
    with pytest.raises(ResultsError, match=reason):
        read_leaderboard(path)


def changed(value, *path, to):
    *parents, last = path
    for step in parents:
        value = value[step]
    value[last] = to


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("adapter",), 5),
        (("model",), None),
        (("flags",), 3),
        (("tasks",), {}),
        (("tasks", 0), 3),
        (("tasks", 0, "task"), []),
        (("tasks", 0, "score"), "x"),
        (("tasks", 0, "score"), None),
        (("tasks", 0, "ci95"), []),
        (("tasks", 0, "high_score"), None),
        (("tasks", 0, "errors"), None),
        (("tasks", 0, "total"), 1.5),
        (("tasks", 0, "subtasks"), None),
        (("tasks", 0, "subtasks", 0, "score_dict"), []),
        (("tasks", 0, "subtasks", 0, "preferred_score"), "none"),
        (("tasks", 0, "per_example"), 5),
        (("tasks", 0, "per_example", 0), 3),
        (("tasks", 0, "per_example", 0, "sample"), []),
        (("tasks", 0, "per_example", 0, "prediction"), 5),
        (("tasks", 0, "per_example", 0, "targets"), [5]),
        (("failed_tasks",), [1]),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(board, tmp_path, path, to):
    value = leaderboard_to_json(board, include_per_example=True)
    changed(value, *path, to=to)
    file = tmp_path / "board.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(
        ResultsError, match=str(path[-1] if isinstance(path[-1], str) else path[-2])
    ):
        read_leaderboard(file)


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ResultsError, match="cannot be read: No such file"):
        read_leaderboard(tmp_path / "none.json")


def test_a_folder_that_is_gone_is_one_sentence(board, tmp_path):
    with pytest.raises(ResultsError, match="cannot be written: No such file"):
        write_leaderboard(board, tmp_path / "none" / "board.json")


WRITE_TWICE = """
    import resource, sys
    from lmeval.api.leaderboard_file import write_json
    write_json({"old": True}, sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        write_json({"new": "x" * 100_000}, sys.argv[1])
    except Exception as error:
        print(type(error).__name__, error)
"""


def run_program(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "board.json"
    program = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + textwrap.dedent(
        WRITE_TWICE
    )
    done = run_program(program, path)
    assert "ResultsError" in done.stdout
    assert "cannot be written: File too large" in done.stdout
    assert json.loads(path.read_text()) == {"old": True}
    assert os.listdir(tmp_path) == ["board.json"]


KILL_AT = """
    import builtins, os, signal, sys
    from lmeval.api import leaderboard_file, strict_json
    path, step = sys.argv[1], int(sys.argv[2])
    leaderboard_file.write_json({"old": True}, path)
    calls = 0
    def counted(function):
        def call(*args, **kwargs):
            global calls
            calls += 1
            if calls == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return call
    class Killing:
        def __init__(self, file): self.file = file
        def __enter__(self): return self
        def __exit__(self, *exc): counted(self.file.close)()
        def write(self, data):
            half = len(data) // 2
            counted(self.file.write)(data[:half]); counted(self.file.flush)()
            counted(self.file.write)(data[half:])
        def flush(self): counted(self.file.flush)()
        def fileno(self): return self.file.fileno()
    real_open = builtins.open
    leaderboard_file.open = lambda *a: Killing(counted(real_open)(*a))
    os.fsync, os.replace = counted(os.fsync), counted(os.replace)
    leaderboard_file.write_json({"new": "x" * 100_000}, path)
    counted(lambda: None)()
    print(calls)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_kill_between_any_two_steps_leaves_a_whole_file(tmp_path):
    path = tmp_path / "board.json"
    steps = int(run_program(KILL_AT, path, 0).stdout)
    assert steps >= 8
    for step in range(1, steps + 1):
        done = run_program(KILL_AT, path, step)
        assert done.returncode == -signal.SIGKILL
        assert set(json.loads(path.read_text())) in ({"old"}, {"new"})


@pytest.mark.parametrize(
    "path",
    [
        ("tasks", 0, "score"),
        ("tasks", 0, "total"),
        ("tasks", 0, "stderr"),
        ("tasks", 0, "ci95", 0),
        ("tasks", 0, "latency_ms"),
        ("tasks", 0, "subtasks", 0, "score_dict", "m"),
        ("tasks", 0, "per_example", 0, "score"),
    ],
)
def test_a_number_beyond_floats_is_named(board, tmp_path, path):
    value = leaderboard_to_json(board, include_per_example=True)
    value["tasks"][0] |= {"stderr": 0.1, "ci95": [0.0, 1.0]}
    changed(value, *path, to=10**400)
    file = tmp_path / "board.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    named = "preferred_score" if path[-1] == "m" else str([p for p in path if p != 0][-1])
    with pytest.raises(ResultsError, match=named):
        read_leaderboard(file)


@pytest.mark.parametrize("seed", [2**128 - 1, -1, None])
def test_long_seeds_read_back(board, tmp_path, seed):
    path = tmp_path / "board.json"
    write_leaderboard(attrs.evolve(board, seed=seed), path)
    assert read_leaderboard(path).seed == seed


@pytest.mark.parametrize(
    "value", [10**400, 10**5000, Fraction(10**400)], ids=["long", "longer", "ratio"]
)
def test_a_score_beyond_floats_becomes_null_with_a_reason(board, value):
    (task,) = task_results("t", ScoreData({"m": 1.0, "x": value}, "m", 0, 0, 1), "hash")
    (part,) = leaderboard_to_json(attrs.evolve(board, tasks=(task,)))["tasks"][0]["subtasks"]
    assert part["score_dict"]["x"] is None
    assert set(part["undefined_scores"]) == {"x"}


def test_other_decoding_settings_are_another_run(board, tmp_path):
    path = tmp_path / "board.json"
    write_leaderboard(board, path)
    warmer = attrs.evolve(board.model, decoding_params={"temperature": 1})
    with pytest.raises(ResultsError, match=r"differs in model; .*--overwrite"):
        write_leaderboard(attrs.evolve(board, model=warmer), path)


def test_answers_are_not_discarded_silently(board, tmp_path):
    path = tmp_path / "board.json"
    write_leaderboard(board, path, include_per_example=True)
    with pytest.raises(ResultsError, match=r"every answer .*would be lost; .*--overwrite"):
        write_leaderboard(board, path)
    assert read_leaderboard(path) == board
    write_leaderboard(board, path, include_per_example=True)
    write_leaderboard(board, path, overwrite=True)
    assert read_leaderboard(path).tasks[0].per_example == ()


def unfit_places(folder):
    """Where no leaderboard can be, each with the reason."""
    os.mkfifo(folder / "fifo")
    (folder / "device").symlink_to(os.devnull)
    (folder / "pipe").symlink_to("fifo")
    (folder / "loop").symlink_to("loop")
    (folder / "file").write_text("")
    yield "", "is empty"
    yield folder, "is a folder"
    yield folder / "fifo", "device or a pipe"
    yield folder / "pipe", "device or a pipe"
    yield folder / "device", "device or a pipe"
    yield os.devnull, "device or a pipe"
    yield folder / "loop", "cannot be written"
    yield folder / "none" / "x.json", "cannot be written: No such file"
    yield folder / "file" / "x.json", "cannot be written: Not a directory"
    yield folder / ("x" * 300), "cannot be written: File name too long"


@pytest.mark.skipif(sys.platform == "win32", reason="needs fifos and links")
@pytest.mark.parametrize("overwrite", [True, False])
def test_what_cannot_be_a_file_is_refused_and_left_alone(board, tmp_path, overwrite):
    for place, reason in unfit_places(tmp_path):
        with pytest.raises(ResultsError, match=reason):
            check_writable(place)
        with pytest.raises(ResultsError, match=reason):
            write_leaderboard(board, place, overwrite=overwrite)
    assert stat.S_ISFIFO(os.stat(tmp_path / "fifo").st_mode)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert sorted(os.listdir(tmp_path)) == ["device", "fifo", "file", "loop", "pipe"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_written_through(board, tmp_path, there):
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    if there:
        write_leaderboard(attrs.evolve(board, timestamp="old"), target)
    link.symlink_to("real.json")
    check_writable(link)
    write_leaderboard(board, link)
    assert link.is_symlink()
    assert read_leaderboard(target).timestamp == board.timestamp


def test_finding_out_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "board.json")
    assert os.listdir(tmp_path) == []


def test_a_write_protected_file_is_left_alone(board, tmp_path, monkeypatch):
    path = tmp_path / "board.json"
    write_leaderboard(board, path)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(ResultsError, match="is write-protected"):
        write_leaderboard(board, path, overwrite=True)
