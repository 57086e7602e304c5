# SPDX-License-Identifier: Apache-2.0
"""Judging bytes that foreign code wrote."""

import json
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmeval.sandbox import OUTCOMES, Limits, _wire
from lmeval.sandbox._judge import HarnessFailure, judge
from lmeval.sandbox._process import Reply

END = b'{"end":1}\n'
EXIT_0 = 0


def verdict(lines, accepted=((2,), (6,)), mode="value", ending=_wire.ENDED_ITSELF, status=EXIT_0):
    return judge(Reply(ending, status, b"ready\n" + lines), mode, accepted, Limits())


@pytest.mark.parametrize(
    ("lines", "outcome", "pairs"),
    [
        (b'{"i":0,"v":2}\n{"i":1,"v":6}\n' + END, "ok", ("matched", "matched")),
        (b'{"i":1,"v":6}\n{"i":0,"v":2}\n' + END, "ok", ("matched", "matched")),
        (b'{"i":0,"v":3}\n{"i":1,"v":6}\n' + END, "ok", ("mismatch", "matched")),
        (b'{"i":0,"v":2.0}\n{"i":1,"v":6}\n' + END, "ok", ("matched", "matched")),
        # the first answer counts
        (b'{"i":0,"v":3}\n{"i":0,"v":2}\n{"i":1,"v":6}\n' + END, "ok", ("mismatch", "matched")),
        (b'{"i":0,"u":["set","TypeError"]}\n' + END, "ok", ("unencodable", "no_answer")),
        (b'{"i":0,"e":["error","ValueError","",""]}\n' + END, "error", ("error", "no_answer")),
        (b'{"i":0,"e":["memory","","",""]}\n' + END, "memory", ("error", "no_answer")),
        (b'{"i":0,"e":["forbidden","","",""]}\n' + END, "forbidden", ("error", "no_answer")),
        # a child can't claim what only the kernel or the worker can know
        (b'{"i":0,"e":["timeout","","",""]}\n' + END, "error", ("error", "no_answer")),
        (b'{"i":0,"e":["ok","","",""]}\n' + END, "error", ("error", "no_answer")),
        (b'{"load":["error","SyntaxError","bad","line 1"]}\n' + END, "error", ("no_answer",) * 2),
        # no last word
        (b'{"i":0,"v":2}\n', "error", ("matched", "no_answer")),
        (b"", "error", ("no_answer", "no_answer")),
        # an unfinished line is no answer
        (b'{"i":0,"v":2}', "error", ("no_answer", "no_answer")),
        # pairs that do not exist, or are no whole numbers
        (b'{"i":-1,"v":2}\n{"i":2,"v":6}\n{"i":true,"v":6}\n' + END, "ok", ("no_answer",) * 2),
        (b'{"i":"0","v":2}\n{"i":0.0,"v":2}\n{"i":[0],"v":2}\n' + END, "ok", ("no_answer",) * 2),
        (b'[]\n1\n"i"\nnull\n' + END, "ok", ("no_answer", "no_answer")),
    ],
)
def test_lines(lines, outcome, pairs):
    judged = verdict(lines)
    assert (judged.outcome, judged.pairs) == (outcome, pairs)


@pytest.mark.parametrize(
    ("got", "right", "same"),
    [
        ("true", 1, True),
        ("4.0", 4, True),
        ("-0.0", 0, True),
        ('{"1":"a"}', {"1": "a"}, True),
        ("[1,[2]]", [1, [2]], True),
        ("NaN", float("nan"), False),
        ("[NaN]", json.loads("[NaN]"), False),
        ("[NaN]", [None], False),
        ("Infinity", float("inf"), True),
        ("Infinity", None, False),
        ("1" * 5000, 1, False),
        ('"1"', 1, False),
        ("null", None, True),
        ("[" * 100_000, [], False),
        ("[" * 400 + "]" * 400, 1, False),
        ('"\\ud800"', "x", False),
    ],
)
def test_values_compare_as_json_by_pythons_equality(got, right, same):
    judged = verdict(b'{"i":0,"v":' + got.encode() + b"}\n" + END, accepted=((right,),))
    assert (judged.score == 1.0) is same


@pytest.mark.parametrize(
    ("got", "right", "same"),
    [
        ("2\n", "2", True),
        ("2", "2\n\n", True),
        ("a \t\nb  \n\n", "a\nb", True),
        ("a\r\nb\r\n", "a\nb\n", True),
        (" a", "a", False),
        ("\na", "a", False),
        ("a\n\nb", "a\nb", False),
        ("", "\n", True),
        ("é中", "é中", True),
        (2, "2", False),
        (None, "", False),
    ],
)
def test_texts_compare_without_trailing_blanks(got, right, same):
    line = json.dumps({"i": 0, "v": got}).encode() + b"\n"
    assert verdict(line + END, accepted=((right,),), mode="stdout").score == float(same)


def test_any_of_several_accepted_answers_matches():
    line = b'{"i":0,"v":"b"}\n' + END
    assert verdict(line, accepted=(("a", "b"),), mode="stdout").score == 1.0


@pytest.mark.parametrize(
    ("ending", "status", "outcome"),
    [
        (_wire.ENDED_ITSELF, signal.SIGSYS, "forbidden"),
        (_wire.ENDED_BY_OUTPUT, signal.SIGSYS, "forbidden"),
        (_wire.ENDED_BY_CPU_TIME, signal.SIGKILL, "timeout"),
        (_wire.ENDED_BY_WALL_CLOCK, signal.SIGKILL, "timeout"),
        (_wire.ENDED_ITSELF, signal.SIGXCPU, "timeout"),
        (_wire.ENDED_BY_OUTPUT, signal.SIGKILL, "output_limit"),
        (_wire.ENDED_ITSELF, signal.SIGSEGV, "error"),
        (_wire.ENDED_ITSELF, 3 << 8, "error"),
    ],
)
def test_how_it_ended_decides_the_outcome_and_answers_count(ending, status, outcome):
    judged = verdict(b'{"i":0,"v":2}\n', ending=ending, status=int(status))
    assert (judged.outcome, judged.score) == (outcome, 0.5)
    assert judged.detail


def test_the_worst_outcome_wins():
    lines = b'{"i":0,"e":["forbidden","PermissionError","",""]}\n'
    judged = verdict(lines, ending=_wire.ENDED_BY_WALL_CLOCK, status=int(signal.SIGKILL))
    assert judged.outcome == "forbidden"


@pytest.mark.parametrize("output", [b"", b"{}", b"read", b'{"i":0,"v":2}\n'])
def test_a_child_that_never_got_ready_is_the_harness_fault(output):
    with pytest.raises(HarnessFailure):
        judge(Reply(_wire.ENDED_ITSELF, 0, output), "value", ((2,),), Limits())


def test_only_a_few_lines_more_than_pairs_are_read():
    flood = b"{}\n" * 300_000 + b'{"i":0,"v":2}\n'
    assert verdict(flood).score == 0.0


def test_details_are_one_line_of_text_that_can_be_written():
    fault = json.dumps(["error", "E\n", "\x1b[2J\ud800\n" + "x" * 9999, "line 1"]).encode()
    judged = verdict(b'{"i":0,"e":' + fault + b"}\n" + END)
    assert len(judged.detail) <= 300
    judged.detail.encode()
    assert judged.detail.isprintable()


_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
_KEYS = st.sampled_from(["i", "v", "e", "u", "f", "load", "end", "x"])
_LINES = st.dictionaries(_KEYS, _JSON_VALUES | st.integers(-1, 3), max_size=4).map(
    lambda answer: json.dumps(answer).encode()
)


@given(
    st.lists(st.binary(max_size=20) | _LINES, max_size=12),
    st.integers(0, 3),
    st.integers(0, 0xFFFF),
    st.sampled_from(["value", "stdout", "program", "tests"]),
)
def test_any_output_gets_a_verdict_worth_no_more_than_it_says(lines, ending, status, mode):
    accepted = (("secret",), (12345678,), (["secret"],))
    output = b"\n".join(lines) + b"\n"
    judged = verdict(output, accepted=accepted, mode=mode, ending=ending, status=status)
    assert judged.outcome in OUTCOMES
    assert len(judged.pairs) == 3
    spelled_out = output.count(b"secret") + output.count(b"12345678")
    assert judged.pairs.count("matched") <= spelled_out
    assert judged.detail.isprintable()
