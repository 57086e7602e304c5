# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from lmeval.api.code_exec import check_extras, code_exec, judge_rows
from lmeval.api.errors import MetricError, UsageError
from lmeval.api.metrics import find_metric
from lmeval.sandbox import Limits, Sandbox

PAIRS = {"io_pairs": [[1, 2], [3, 6]]}
DOUBLE = "def f(x):\n    return x * 2\n"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(Limits(cpu_s=1, wall_s=3), workers=1) as sandbox:
        yield sandbox


# ---- the three ways to be judged


@pytest.mark.parametrize(
    ("prediction", "extras", "score"),
    [
        (DOUBLE, PAIRS, 1.0),
        ("def f(x):\n    return 2\n", PAIRS, 0.5),
        ("import os\n" + DOUBLE, PAIRS, 0.0),
        ("import math\n" + DOUBLE, PAIRS, 1.0),
        (f"Here it is:\n```python\n{DOUBLE}```\nf(3) is 6.", PAIRS, 1.0),
        ("    def f(x):\n        return x * 2", PAIRS, 1.0),
        ("    return x * 2", {**PAIRS, "prepend_prompt": True}, 1.0),
        (f"```\n{DOUBLE}```\n```\ndef f(x): return 0\n```", {**PAIRS, "extract": "last"}, 0.0),
        (f"```\n{DOUBLE}```", {**PAIRS, "extract": "none"}, 0.0),
        ("def f(x):\n    print(x)", {"mode": "stdout", "io_pairs": [[1, "1"], [2, "3"]]}, 0.5),
        (
            "print(int(input()) + 1)",
            {"mode": "stdout", "program": True, "io_pairs": [["1", "2\n"], ["8", "9"]]},
            1.0,
        ),
        ("print('ok')", {"mode": "stdout"}, 1.0),
        ("print(input())", {"mode": "stdout", "stdin": "fine\n"}, 1.0),
        ("print('wrong')", {"mode": "stdout"}, 0.0),
        (DOUBLE, {"tests": "assert f(1) == 2"}, 1.0),
        (DOUBLE, {"tests": "assert f(1) == 3"}, 0.0),
        ("    return x * 2", {"tests": "assert f(1) == 2", "prepend_prompt": True}, 1.0),
    ],
)
def test_scores(sandbox, prediction, extras, score):
    targets = ["ok", "fine"]
    assert check_extras(extras, targets) is None
    given = code_exec(prediction, targets, extras, sandbox=sandbox, prompt="def f(x):\n")
    assert given == score


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("    return x + 1", 1.0),
        ("\treturn x + 1", 1.0),
        # an honest IndentationError: one blank too many after the docstring's line
        ("     return x + 1", 0.0),
        # stripped: the body is no longer in the function
        ("return x + 1", 0.0),
        ("```python\n    return x + 1\n```", 1.0),
        ("```python\ndef f(x):\n    return x + 1\n```", 1.0),
        ("    return x + 1\n```\nDone.", 1.0),
    ],
)
def test_a_completion_continues_the_prompt_to_the_letter(sandbox, completion, score):
    prompt = 'def f(x):\n    """The next number."""\n'
    if completion.startswith("\t"):
        prompt = prompt.replace("    ", "\t")
    extras = {"tests": "assert f(1) == 2", "prepend_prompt": True}
    assert code_exec(completion, ["ok"], extras, sandbox=sandbox, prompt=prompt) == score


def test_a_prompt_that_ends_within_a_line_is_continued_there(sandbox):
    extras = {**PAIRS, "prepend_prompt": True}
    assert code_exec("x * 2", ["ok"], extras, sandbox=sandbox, prompt="f = lambda x: ") == 1.0


@pytest.mark.parametrize(
    "prediction",
    [
        "    return 0",
        "    return (",
        "    pass",
        "    import sys\n    sys.exit(0)",
        "    import sys\n    sys.modules['os']._exit(0)",
        "    print('ALL TESTS PASSED')\n    raise SystemExit(0)",
        "    return 0\n\ndef check(candidate):\n    pass\n",
        "    return 0\n\nraise SystemExit(0)",
    ],
)
def test_what_must_never_pass(sandbox, prediction):
    tests = "def check(candidate):\n    assert candidate(1, 2) == 3\n\ncheck(add)\ncheck(undefined)"
    for text in (tests, tests.replace("\ncheck(undefined)", "")):
        extras = {"tests": text, "prepend_prompt": True}
        prompt = "def add(a, b):\n"
        assert code_exec(prediction, ["ok"], extras, sandbox=sandbox, prompt=prompt) == 0.0


@pytest.mark.parametrize(
    ("body", "outcomes"),
    [
        ("import sys\n    sys.modules['os'].fork()", {"forbidden"}),
        ("return 'x' * 200_000_000", {"output_limit", "memory"}),
        ("return bytearray(20_000_000_000)", {"memory"}),
        ("return input()", {"error"}),
        (
            "while True:\n        try:\n            while True: pass\n"
            "        except BaseException: pass",
            {"timeout"},
        ),
    ],
)
def test_limits_are_labelled(sandbox, body, outcomes):
    row = judge_rows([f"def f(x):\n    {body}"], [["ok"]], [PAIRS], [""], sandbox)[0]
    assert row.score == 0.0
    assert row.details["outcome"] in outcomes


# ---- rows


def test_rows_keep_their_order_and_carry_details(sandbox):
    rows = judge_rows(
        [DOUBLE, "import os", "def f(x):\n    return {x}"],
        [["ok"]] * 3,
        [PAIRS] * 3,
        [""] * 3,
        sandbox,
    )
    assert [row.score for row in rows] == [1.0, 0.0, 0.0]
    assert [row.details["outcome"] for row in rows] == ["ok", "forbidden", "ok"]
    assert rows[0].details == {"outcome": "ok", "pairs": ["matched", "matched"], "detail": ""}
    assert rows[2].details["pairs"] == ["unencodable", "unencodable"]
    json.dumps([dict(row.details) for row in rows])


def test_no_rows_still_start_the_sandbox():
    with Sandbox(workers=1) as sandbox:
        assert judge_rows([], [], [], [], sandbox) == []
        assert sandbox.report()["started"] is True


def test_it_is_registered():
    metric = find_metric("code_exec")
    assert (metric.kind, metric.function) == ("sandbox", judge_rows)
    assert metric.check_row(["ok"], {}) is not None


# ---- refusals


def test_without_a_sandbox_nothing_runs():
    with pytest.raises(UsageError, match="--allow_code_exec"):
        code_exec(DOUBLE, ["ok"], PAIRS)


def test_an_unavailable_sandbox_is_a_usage_error():
    with Sandbox(python="/no/such/python") as sandbox, pytest.raises(UsageError, match="no/such"):
        judge_rows([], [], [], [], sandbox)


def test_extras_that_say_nothing_are_refused(sandbox):
    with pytest.raises(MetricError, match="io_pairs"):
        code_exec(DOUBLE, ["ok"], {}, sandbox=sandbox)


@pytest.mark.parametrize(
    ("extras", "targets", "reason"),
    [
        ({}, ["ok"], "io_pairs"),
        ({"mode": "value"}, ["ok"], "io_pairs"),
        ({"mode": "values", **PAIRS}, ["ok"], "mode"),
        ({"mode": "tests", **PAIRS}, ["ok"], "mode"),
        ({"io_pairs": []}, ["ok"], "at least one pair"),
        ({"io_pairs": {"1": 2}}, ["ok"], "list"),
        ({"io_pairs": [[1, 2], [3]]}, ["ok"], "pair 2"),
        ({"io_pairs": [[1, 2], "ab"]}, ["ok"], "pair 2"),
        ({"io_pairs": [[1, 2]], "mode": "stdout"}, ["ok"], "text"),
        ({"io_pairs": [[1, "2"]], "mode": "stdout", "program": True}, ["ok"], "standard input"),
        ({"io_pairs": [["1", "2"]], "program": True}, ["ok"], "stdout"),
        ({"io_pairs": [["1", "2"]], "mode": "stdout", "stdin": "1"}, ["ok"], "exclude"),
        ({"mode": "stdout", "stdin": 1}, ["ok"], "stdin"),
        ({"mode": "stdout"}, [], "target"),
        ({"mode": "stdout"}, [" "], "target"),
        ({"tests": "assert f(1) == 2", **PAIRS}, ["ok"], "exclude"),
        ({"tests": "assert f(1) == 2", "mode": "value"}, ["ok"], "exclude"),
        ({"tests": " "}, ["ok"], "statements"),
        ({"tests": ["assert f(1)"]}, ["ok"], "statements"),
        ({"tests": "assert f(1"}, ["ok"], "no Python"),
        ({"tests": "\x00"}, ["ok"], "no Python"),
        ({"tests": "assert f(1)", "prepend_prompt": "yes"}, ["ok"], "prepend_prompt"),
        ({**PAIRS, "extract": "second"}, ["ok"], "extract"),
    ],
)
def test_extras_that_cannot_be_judged(extras, targets, reason):
    assert reason in check_extras(extras, targets)


# ---- HumanEval


@pytest.mark.parametrize(("answers", "passed"), [("canonical", 164), ("pass_statement", 0)])
def test_humaneval(shared, answers, passed):
    def read(path):
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    rows = read(shared / "data/humaneval/task.jsonl")
    given = read(shared / f"data/humaneval_predictions/{answers}.jsonl")
    predictions = {row["id"]: row["prediction"] for row in given}
    assert all(check_extras(row["extras"], row["targets"]) is None for row in rows)
    with Sandbox() as sandbox:
        scores = judge_rows(
            [predictions[row["id"]] for row in rows],
            [row["targets"] for row in rows],
            [row["extras"] for row in rows],
            [row["prompt"] for row in rows],
            sandbox,
        )
    assert len(scores) == 164
    assert sum(row.score for row in scores) == passed
