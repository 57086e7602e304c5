# SPDX-License-Identifier: Apache-2.0
"""`lmeval compare` from files to text, Markdown, JSON and exit code."""

import io
import json
import math
import re
import shutil
from pathlib import Path

import pytest
from absl import flags

from lmeval.api.errors import ResultsError, UsageError
from lmeval.api.leaderboard_file import write_leaderboard
from lmeval.api.model import ModelData
from lmeval.api.results import Leaderboard, task_results
from lmeval.api.task import ExampleScore, ScoreData
from lmeval.cli import compare

RIGHT_THEN_WRONG = ([1.0] * 30, [1.0] * 18 + [0.0] * 12)


def rows_of(scores, predictions=None):
    return tuple(
        ExampleScore(
            id=f"q{index}",
            score=score,
            prompt=f"ask {index}",
            prediction=predictions[index] if predictions else ("4" if score else "5"),
            targets=("4",),
        )
        for index, score in enumerate(scores)
    )


def write(
    path, scores, predictions=None, name="t", rows=True, sha256="same", shots=0, more=(), **fields
):
    mean = math.fsum(scores) / len(scores)
    data = ScoreData(
        {"exact_match": mean}, "exact_match", shots, 0.0, 1.0, "", rows_of(scores, predictions)
    )
    board = Leaderboard(
        adapter=fields.pop("adapter", "model"),
        model=ModelData(model_family="test", model_name="test"),
        fingerprint=None,
        tasks=tuple(task_results(each, data, sha256)[0] for each in (name, *more)),
        **fields,
    )
    write_leaderboard(board, path, include_per_example=rows)
    return str(path)


def run(*arguments):
    values = flags.FlagValues()
    compare.define_flags(values)
    positional = values(["lmeval compare", *arguments])[1:]
    out = io.StringIO()
    code = compare.run(positional, values, out)
    return code, out.getvalue()


@pytest.fixture
def worse_pair(tmp_path):
    before, after = RIGHT_THEN_WRONG
    return (
        write(tmp_path / "a.json", before, adapter="old"),
        write(tmp_path / "b.json", after, adapter="new"),
    )


def test_the_table_says_what_moved_by_how_much_and_whether_it_is_chance(worse_pair):
    code, text = run(*worse_pair)
    assert code == 0
    assert text.startswith(f"A: old ({worse_pair[0]})\nB: new ({worse_pair[1]})\n")
    line = next(line for line in text.splitlines() if line.startswith("t "))
    # 12 of 30 lost: p = 2 / 2^12; stderr = sqrt(0.4 * 0.6 / 29).
    for shown in ["1.0000", "0.6000", "-0.4000", "± 0.0910", "30", "mcnemar exact", "0.0005"]:
        assert shown in line
    assert line.endswith("worse")
    assert "1 worse, 0 better, 0 without a clear change, 0 not tested" in text


def test_flips_show_both_answers_and_their_number_is_limited(worse_pair):
    _, text = run(*worse_pair, "--flips", "2")
    assert "flips in t: 12 worse in B, 0 better; the first 2" in text
    assert "  q18: 1 → 0\n    target: 4\n    A:      4\n    B:      5\n" in text
    assert text.count("→") == 2
    assert "flips in" not in run(*worse_pair, "--flips=0")[1]


def test_a_regression_fails_only_on_request(worse_pair):
    assert run(*worse_pair)[0] == 0
    assert run(*worse_pair, "--fail_on_regression")[0] == 1


def test_an_improvement_or_a_change_that_may_be_chance_does_not_fail(worse_pair, tmp_path):
    assert run(*reversed(worse_pair), "--fail_on_regression")[0] == 0
    slightly = write(tmp_path / "c.json", [1.0] * 28 + [0.0] * 2)
    assert run(worse_pair[0], slightly, "--fail_on_regression")[0] == 0


def test_the_level_decides(worse_pair):
    assert run(*worse_pair, "--fail_on_regression", "--alpha=0.0001")[0] == 0


def test_a_task_that_is_not_in_b_does_not_pass_the_gate(worse_pair, tmp_path):
    both = write(tmp_path / "both.json", [1.0] * 30, more=["u"])
    assert run(both, worse_pair[0])[0] == 0
    assert run(both, worse_pair[0], "--fail_on_regression")[0] == 1
    assert run(worse_pair[0], both, "--fail_on_regression")[0] == 0


def test_runs_without_a_common_task_say_so(worse_pair, tmp_path):
    code, text = run(worse_pair[0], write(tmp_path / "c.json", [1.0], name="other"))
    assert code == 0
    assert "Nothing could be compared" in text
    assert "0 worse" not in text


def test_other_shots_are_compared_on_request(tmp_path):
    zero, two = (
        write(tmp_path / "0.json", [1.0, 0.0]),
        write(tmp_path / "2.json", [1.0] * 2, shots=2),
    )
    _, text = run(zero, two)
    assert "only in A: t with 0 shots (the other has 2; --any_shots compares them)" in text
    _, text = run(zero, two, "--any_shots")
    assert "t: A has 0 shots, B 2" in text
    assert "+0.5000" in text


def test_unpaired_runs_show_their_rows(tmp_path):
    a = write(tmp_path / "a.json", [1.0, 0.0], rows=False)
    b = write(tmp_path / "b.json", [1.0] * 1200, rows=False)
    assert "2 / 1,200" in run(a, b)[1]
    task = json.loads(run(a, b, "--format", "json")[1])["tasks"][0]
    assert (task["rows_a"], task["rows_b"]) == (2, 1200)


def test_a_gate_that_could_test_nothing_does_not_open(tmp_path):
    a = write(tmp_path / "a.json", [1.0, 0.0], sha256="old")
    b = write(tmp_path / "b.json", [1.0, 0.0], sha256="new")
    code, text = run(a, b)
    assert code == 0
    assert "left out: t: the task's content differs" in text
    with pytest.raises(ResultsError, match="no task"):
        run(a, b, "--fail_on_regression")
    assert run(a, b, "--fail_on_regression", "--allow_changed_tasks")[0] == 0


def test_without_rows_it_says_that_the_comparison_is_unpaired(tmp_path):
    a = write(tmp_path / "a.json", RIGHT_THEN_WRONG[0], rows=False)
    b = write(tmp_path / "b.json", RIGHT_THEN_WRONG[1], rows=False)
    _, text = run(a, b)
    assert "unpaired fisher exact" in text
    assert "t: unpaired, taken as independent: A and B hold no rows" in text


def test_a_standard_error_of_zero_is_never_shown(tmp_path):
    a = write(tmp_path / "a.json", [1.0] * 20)
    _, text = run(a, a)
    assert "± 0.0000" not in text
    assert "[-0.1260, +0.1260]" in text  # 1.95996 * sqrt(2) / 22


def test_the_names_of_files_do_not_matter(worse_pair, tmp_path):
    copy = tmp_path / "another name.json"
    shutil.copyfile(worse_pair[1], copy)
    first, second = run(*worse_pair)[1], run(worse_pair[0], str(copy))[1]
    assert first.splitlines()[2:] == second.splitlines()[2:]


def test_settings_that_differ_are_warned_of(tmp_path):
    a = write(tmp_path / "a.json", [1.0, 0.0], seed=1, flags={"max_examples": None})
    b = write(tmp_path / "b.json", [1.0, 0.0], seed=1, flags={"max_examples": 2})
    assert "warning: --max_examples is not set in A and 2 in B" in run(a, b)[1]


def test_missing_and_extra_rows_are_listed_a_few_by_name(tmp_path):
    a = write(tmp_path / "a.json", [1.0] * 20)
    b = write(tmp_path / "b.json", [1.0] * 10)
    text = run(a, b)[1]
    assert "t: rows only in A: 10 (q10, q11, q12, q13, q14, …)" in text
    assert "compared on the 10 rows that both have" in text


def test_hostile_text_cannot_move_the_cursor_or_break_the_line(tmp_path):
    evil = "\x1b[2J\r\n\u202eabc\x00"
    a = write(tmp_path / "a.json", [1.0], ["4"])
    b = write(tmp_path / "b.json", [0.0], [evil], adapter="evil\x1b[0m\n")
    for form in ("text", "markdown"):
        _, text = run(a, b, f"--format={form}")
        assert "\\x1b[2J\\r\\n\\u202eabc\\x00" in text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_long_answers_lose_their_middle(tmp_path):
    a = write(tmp_path / "a.json", [1.0], ["4"])
    b = write(tmp_path / "b.json", [0.0], ["start " + "x" * 1_000_000 + " end"])
    _, text = run(a, b)
    line = next(line for line in text.splitlines() if line.startswith("    B:"))
    assert line.startswith("    B:      start xxx")
    assert line.endswith("xxx end")
    assert "…" in line
    assert len(line) < 200


def test_a_failed_answer_shows_its_error(tmp_path):
    a = write(tmp_path / "a.json", [1.0, 1.0])
    b = tmp_path / "b.json"
    data = json.loads(Path(write(b, [1.0, 0.0])).read_text())
    data["tasks"][0]["per_example"][1] |= {"error": "timeout", "prediction": ""}
    b.write_text(json.dumps(data))
    assert "    B:      [timeout]" in run(a, str(b))[1]


def test_an_answer_in_which_nothing_was_found_shows_the_raw_text(tmp_path):
    a = write(tmp_path / "a.json", [1.0])
    b = tmp_path / "b.json"
    data = json.loads(Path(write(b, [0.0])).read_text())
    data["tasks"][0]["per_example"][0] |= {"raw_prediction": "I think so.", "prediction": ""}
    b.write_text(json.dumps(data))
    assert "    B:      (empty)\n    B raw:  I think so.\n" in run(a, str(b))[1]


def test_markdown_is_a_table_that_answers_cannot_break(tmp_path):
    a = write(tmp_path / "a.json", [1.0], ["4"], name="a_b|c")
    b = write(tmp_path / "b.json", [0.0], ["``` | <b>x</b> `y`"], name="a_b|c")
    _, text = run(a, b, "--format=markdown")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 3
    bars = [len(re.findall(r"(?<!\\)\|", line)) for line in table]
    assert bars[0] == bars[1] == bars[2]
    assert "| a\\_b\\|c |" in table[2]
    assert "  - B: ```` ``` | <b>x</b> `y` ````" in text


def test_json_holds_the_same_numbers_unrounded(worse_pair):
    code, text = run(*worse_pair, "--format=json", "--flips=1", "--fail_on_regression")
    value = json.loads(text)
    assert code == 1
    assert value["schema"] == "comparison.v1"
    assert value["b"] == {"path": worse_pair[1], "adapter": "new"}
    (task,) = value["tasks"]
    assert (task["paired"], task["n"], task["verdict"]) == (True, 30, "worse")
    assert task["p_value"] == pytest.approx(2 / 2**12, rel=1e-12)
    assert task["stderr"] == pytest.approx(math.sqrt(0.24 / 29), rel=1e-12)
    assert task["flip_count"] == 12
    (flip,) = task["flips"]
    assert (flip["id"], flip["prediction_a"], flip["prediction_b"]) == ("q18", "4", "5")


def test_json_has_null_where_nothing_is_defined(tmp_path):
    a = write(tmp_path / "a.json", [1.0])
    (task,) = json.loads(run(a, a, "--format=json")[1])["tasks"]
    assert (task["stderr"], task["ci95"]) == (None, None)


def test_the_permutation_test_follows_seed_and_resamples(tmp_path):
    scores = [index / 40 for index in range(40)]
    a = write(tmp_path / "a.json", scores)
    b = write(tmp_path / "b.json", [1.0 if score > 0.1 else 0.0 for score in scores])

    def p_value(*arguments):
        return json.loads(run(a, b, "--format=json", *arguments)[1])["tasks"][0]["p_value"]

    assert p_value("--resamples=1000") == 1 / 1001
    assert p_value("--seed=5") == p_value("--seed=5")


@pytest.mark.parametrize("arguments", [(), ("a.json",), ("a.json", "b.json", "c.json")])
def test_other_than_two_files_are_wrong_usage(arguments):
    with pytest.raises(UsageError, match=f"found {len(arguments)} arguments"):
        run(*arguments)


def test_an_impossible_level_is_wrong_usage(worse_pair):
    with pytest.raises(UsageError, match="--alpha"):
        run(*worse_pair, "--alpha=1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "a.json"),
        ("{", "line 1"),
        ('{"schema": "leaderboard.v1", "tasks": [], "seed": NaN}', "NaN"),
        ('{"schema": "other"}', "other"),
        ('{"schema": "leaderboard.v1", "tasks": []}', "missing"),
    ],
)
def test_a_file_that_is_no_leaderboard_is_named(tmp_path, worse_pair, content, message):
    path = tmp_path / "broken" / "a.json"
    if content is not None:
        path.parent.mkdir()
        path.write_text(content)
    with pytest.raises(ResultsError, match=message):
        run(str(path), worse_pair[1])


def test_two_tasks_get_a_mean_over_tasks(tmp_path):
    def both(path, first, second):
        one = ScoreData({"m": sum(first) / 4}, "m", 0, 0.0, 1.0, "", rows_of(first))
        two = ScoreData({"m": sum(second) / 4}, "m", 0, 0.0, 1.0, "", rows_of(second))
        board = Leaderboard(
            adapter="x",
            model=ModelData(model_family="test", model_name="test"),
            fingerprint=None,
            tasks=(*task_results("one", one, "s"), *task_results("two", two, "s")),
        )
        write_leaderboard(board, path, include_per_example=True)
        return str(path)

    a = both(tmp_path / "a.json", [0, 0, 0, 0], [1, 0, 0, 0])
    b = both(tmp_path / "b.json", [1, 1, 0, 0], [1, 0, 0, 0])
    said = run(a, b)[1]
    assert "mean over 2 tasks: B - A = +0.2500" in said
    assert "weighted by rows (8): B - A = +0.2500" in said
    assert "mean over 2 tasks: B - A = +0.0000, 95% interval [-" in run(a, a)[1]
    micro = json.loads(run(a, b, "--format=json")[1])["overall_micro"]
    assert (micro["difference"], len(micro["ci95"])) == (0.25, 2)
