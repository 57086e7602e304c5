# SPDX-License-Identifier: Apache-2.0
"""What predictions can do, what they cannot, and what they are told."""

import os
import sys

import pytest

from lmeval.sandbox import Job, Limits, Sandbox, SandboxUnavailable
from lmeval.sandbox._admission import CANARIES, check_canaries, check_platform, check_walls
from lmeval.sandbox._types import Verdict

RIGHT = Job("def f(x):\n    return x * 2\n", [1, 3], [[2], [6]])
WRONG = Job("def f(x):\n    return 0\n", [1, 3], [[2], [6]])


def run(sandbox, code, *pairs, mode="value"):
    inputs, answers = zip(*pairs, strict=True)
    return sandbox.evaluate([Job(code, inputs, [[a] for a in answers], mode=mode)])[0]


def answer_of(sandbox, code, argument=None):
    """What f answers, read from the text of a mismatch."""
    verdict = run(sandbox, code, (argument, "no such answer"))
    assert verdict.pairs == ("mismatch",), verdict
    return verdict.detail.removeprefix("got ").removesuffix(', expected "no such answer"')


# ---- values and outcomes


@pytest.mark.parametrize(
    ("code", "outcome", "detail"),
    [
        ("import os", "forbidden", "importing 'os' is not allowed (line 1)"),
        ("import numpy", "forbidden", "importing 'numpy' is not allowed"),
        ("def f(x):\n    open('/etc/passwd')", "forbidden", "files are not available"),
        ("def f(x)\n    return 1", "error", "SyntaxError"),
        ("def g(x): pass", "error", "the code defines no f"),
        ("def f(x):\n    raise ValueError('a\\nb')", "error", "ValueError: a b (line 2)"),
        ("def f(x):\n    raise PermissionError('my own')", "error", "my own"),
        ("def f(x):\n    input()", "error", "EOFError"),
        ("f = 3", "error", "TypeError"),
        ("def f(x):\n    raise SystemExit", "error", "SystemExit"),
        ("def f(x):\n    return 'a' * 10**10", "memory", "MemoryError"),
        ("x = 'a' * 10**10\ndef f(x): pass", "memory", "MemoryError"),
        ("def f(x):\n    return 'a' * 3_000_000", "output_limit", "1048576 bytes"),
        ("import threading", "forbidden", "threading"),
        ("import _thread\n", "forbidden", "_thread"),
        (
            "import sys\ndef f(x):\n    sys.modules['_thread'].start_new_thread(print, ())",
            "forbidden",
            "system call",
        ),
    ],
)
def test_outcomes(sandbox, code, outcome, detail):
    verdict = run(sandbox, code, (1, 1))
    assert verdict.outcome == outcome, verdict
    assert detail in verdict.detail
    assert verdict.score == 0.0


def test_wrong_answers_are_shown(sandbox):
    verdict = run(sandbox, "def f(x):\n    return [x]", (1, [1]), (2, 3))
    assert verdict.outcome == "ok"
    assert verdict.detail == "pair 2: got [2], expected 3"


def test_an_endless_loop_is_stopped_by_its_cpu_time():
    # Much more wall time: on a busy machine a second of CPU time can take a while.
    with Sandbox(Limits(cpu_s=1.0, wall_s=60.0), workers=1) as sandbox:
        verdict = run(sandbox, "def f(x):\n    while x: pass\n    return 1", (0, 1), (1, 1), (0, 1))
    assert verdict.outcome == "timeout"
    assert verdict.pairs == ("matched", "no_answer", "no_answer")
    assert verdict.detail == "stopped after 1 s of CPU time"


def test_inputs_are_fresh_for_each_job_and_pairs_share_a_module(sandbox):
    job = Job(
        "n = []\ndef f(x):\n    n.append(x.pop())\n    return n", [[1], [2]], [[[1]], [[1, 2]]]
    )
    assert [verdict.score for verdict in sandbox.evaluate([job, job])] == [1.0, 1.0]
    assert job.inputs == [[1], [2]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(x):\n    return __name__", '"prediction"'),
        ("import math\ndef f(x):\n    import math as m\n    return m.floor(math.pi)", "3"),
        ("from collections import abc\ndef f(x):\n    return abc.Sized.__name__", '"Sized"'),
        ("import collections.abc\ndef f(x):\n    return len(x)", "2"),
        (
            "from dataclasses import dataclass\nfrom typing import get_type_hints\n@dataclass\n"
            "class P:\n    a: 'int'\ndef f(x):\n    return [P(1).a, len(get_type_hints(P))]",
            "[1, 1]",
        ),
        ("def f(x):\n    return 'é'", '"é"'),
        (
            "import datetime\ndef f(x):\n    return str(datetime.datetime.strptime('2', '%d'))",
            '"1900-01-02 00:00:00"',
        ),
        ("import hashlib\ndef f(x):\n    return hashlib.md5(b'').hexdigest()[:4]", '"d41d"'),
        ("def f(x):\n    return 'a'.encode('utf-16-le').hex()", '"6100"'),
        ("try:\n    import os\nexcept ImportError:\n    pass\ndef f(x):\n    return 1", "1"),
        ("try:\n    import os\nexcept ModuleNotFoundError:\n    f = lambda x: 2", "2"),
        ("import random\ndef f(x):\n    return random.random()", "0.8444218515250481"),
        ("def f(x):\n    return list({'a', 'b', 'c'}) == list({'a', 'b', 'c'})", "true"),
        ("import time\ndef f(x):\n    time.sleep(0.01)\n    return time.time() > 1e9", "true"),
        ("import warnings\ndef f(x):\n    warnings.warn('w')\n    return 1", "1"),
        ("import traceback\ndef f(x):\n    return traceback.format_exc()", '"NoneType: None\\n"'),
        ("class A:\n    pass\ndef f(x):\n    return A.__module__", '"prediction"'),
        ("def f(x):\n    import sys\n    return sys.argv", '["prediction.py"]'),
        ("import calendar\ndef f(x):\n    return calendar.month_name[1]", '"January"'),
        ("import inspect\ndef f(x):\n    return str(inspect.signature(f))", '"(x)"'),
        ("import secrets\ndef f(x):\n    return len(secrets.token_hex(4))", "8"),
        ("def f(x):\n    return eval('x + [1]', {'x': x})", "[1, 2, 1]"),
    ],
)
def test_honest_code_finds_a_familiar_python(sandbox, code, expected):
    assert answer_of(sandbox, code, [1, 2]) == expected


@pytest.mark.parametrize(
    ("code", "score"),
    [
        ("def f(x):\n    print(x)", 1.0),
        ("def f(x):\n    print(x, end=' \\n\\n')", 1.0),
        ("import sys\ndef f(x):\n    sys.stdout.write(str(x))", 1.0),
        ("import sys\ndef f(x):\n    print(x, file=sys.stderr)", 0.0),
        ("import sys\ndef f(x):\n    print(x)\n    sys.stdout.close()", 1.0),
        ("def f(x):\n    print(x)\n    return 'ignored'", 1.0),
        (
            "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')\n"
            "def f(x):\n    print(x)",
            1.0,
        ),
        (
            "import codecs, sys\nsys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach())\n"
            "def f(x):\n    print(x)",
            1.0,
        ),
        ("import sys\nsys.stdout = None\ndef f(x):\n    print(x)", 0.0),
        ("def f(x):\n    return x", 0.0),
        (
            "import io\nfrom contextlib import redirect_stdout\ndef f(x):\n"
            "    with redirect_stdout(io.StringIO()):\n        print('hidden')\n    print(x)",
            1.0,
        ),
    ],
)
def test_printed_text_is_compared(sandbox, code, score):
    assert run(sandbox, code, (7, "7"), mode="stdout").score == score


def test_text_beyond_the_limit_ends_the_job(sandbox):
    code = "def f(x):\n    print('a' * x)"
    verdict = run(sandbox, code, (9, "a" * 9), (10**6, ""), (9, "a" * 9), mode="stdout")
    assert (verdict.outcome, verdict.pairs) == (
        "output_limit",
        ("matched", "error", "no_answer"),
    )
    assert "65536 bytes" in verdict.detail


PROGRAM = "import sys\nn = int(input())\nprint(n * 2)\n"


@pytest.mark.parametrize(
    ("code", "score"),
    [
        (PROGRAM, 1.0),
        ("if __name__ == '__main__':\n    print(2 * int(input()))", 1.0),
        (PROGRAM + "sys.exit()", 1.0),
        (PROGRAM + "exit()", 1.0),
        (PROGRAM + "quit(0)", 1.0),
        (PROGRAM + "raise SystemExit(0)", 1.0),
        (PROGRAM + "sys.exit(1)", 0.0),
        (PROGRAM + "input()", 0.0),
        ("import sys\nfor line in sys.stdin:\n    print(2 * int(line))", 1.0),
        ("import sys\nprint(int(sys.stdin.buffer.read()) * 2)", 1.0),
        ("try:\n    n\nexcept NameError:\n    n = 2\n    print(n * int(input()))", 1.0),
        ("print(8)", 0.5),
    ],
)
def test_programs_read_standard_input(sandbox, code, score):
    assert run(sandbox, code, ("3\n", "6"), ("4", "8"), mode="program").score == score


# ---- tests mode: success needs a token

TESTS = "def check(g):\n    assert g(2) == 4\n    assert g(3) == 6\ncheck(f)\n"


def run_tests(sandbox, code, tests=TESTS):
    return sandbox.evaluate([Job(code, mode="tests", tests=tests)])[0]


@pytest.mark.parametrize(
    ("code", "score", "outcome"),
    [
        ("def f(x): return x * 2", 1.0, "ok"),
        ("def f(x): return 4", 0.0, "ok"),
        ("def f(x) return", 0.0, "error"),
        ("def g(x): return x * 2", 0.0, "error"),
        ("import sys; sys.exit(0)", 0.0, "error"),
        ("def f(x):\n    raise SystemExit(0)", 0.0, "error"),
        ("import sys\ndef f(x):\n    sys.modules['os']._exit(0)", 0.0, "error"),
        ("def f(x):\n    print('ALL TESTS PASSED'); raise SystemExit", 0.0, "error"),
        ("def check(g): pass\ndef f(x): return 0", 0.0, "ok"),
        ("exec = compile = lambda *a, **k: None\ndef f(x): return 0", 0.0, "ok"),
        ("__builtins__['exec'] = lambda *a: None\ndef f(x): return 0", 0.0, "ok"),
        ("def f(x):\n    while True: pass", 0.0, "timeout"),
    ],
)
def test_tests_pass_only_by_running_to_their_end(sandbox, code, score, outcome):
    verdict = run_tests(sandbox, code)
    assert (verdict.score, verdict.outcome) == (score, outcome), verdict


FORGERIES = {
    "a guess": 'os.write(3, b\'{"i":0,"v":true}\\n{"end":1}\\n\'); os._exit(0)',
    "echo of all that can be read": (
        "for fd in range(64):\n"
        "        try: data = os.read(fd, 100)\n"
        "        except OSError: continue\n"
        "        for out in range(64):\n"
        '            line = b\'{"i":0,"v":"%s"}\\n{"end":1}\\n\' % data.hex().encode()\n'
        "            for text in (data, line):\n"
        "                try: os.write(out, text)\n"
        "                except OSError: pass\n"
        "    os._exit(0)"
    ),
}


@pytest.mark.parametrize("attack", FORGERIES.values(), ids=FORGERIES)
def test_success_is_not_forged_by_writing_to_descriptors(sandbox, attack):
    code = f"import sys\nos = sys.modules['os']\ndef f(x):\n    {attack}\n"
    assert run_tests(sandbox, code).score == 0.0


def test_the_line_of_the_failed_assertion_is_told(sandbox):
    verdict = run_tests(sandbox, "def f(x): return 4")
    assert verdict.detail == "AssertionError (line 3 of the tests)"
    verdict = run_tests(sandbox, "\ndef f(x):\n    return x / 0")
    assert verdict.detail == "ZeroDivisionError: division by zero (line 3)"


# ---- nothing gets in, nothing is left


def test_neither_environment_nor_descriptors_of_lmeval_reach_the_child(monkeypatch):
    monkeypatch.setenv("LMEVAL_CANARY", "canary-of-the-parent")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    inherited = [os.dup(os.open(os.devnull, os.O_RDONLY)) for _ in range(40)]
    for descriptor in inherited:
        os.set_inheritable(descriptor, True)
    environment = "import sys\ndef f(x):\n    return sorted(sys.modules['os'].environ)"
    # 9 is EBADF: no such descriptor, or not open for this
    descriptors = (
        "import sys\ndef is_open(call, *args):\n"
        "    try: call(*args)\n"
        "    except OSError as e: return e.errno != 9\n"
        "    return True\n"
        "def f(x):\n    o = sys.modules['os']\n"
        "    return [i for i in range(5000) if is_open(o.read, i, 0) or is_open(o.write, i, b'')]"
    )
    expected = [
        "LC_ALL",
        "MKL_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "PYTHONHASHSEED",
        "TZ",
    ]
    try:
        with Sandbox(workers=1) as sandbox:
            verdicts = sandbox.evaluate(
                [
                    Job(environment, [0], [[expected]]),
                    Job(descriptors, [0], [[[0, 1, 2, 3]]]),
                ]
            )
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    assert [verdict.score for verdict in verdicts] == [1.0, 1.0], verdicts


# Looks through everything that can be reached from its frames for a text of seven letters, of which
# it holds no copy itself. {0} is its codes.
WALK = """
import sys, gc
def f(x):
    seen, found, todo = set(), [], [sys._getframe()]
    todo += gc.get_objects()
    while todo and len(seen) < 200_000:
        thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        kind = type(thing).__name__
        if kind == 'frame':
            todo += [thing.f_back, *thing.f_locals.values()]
        elif kind in ('bytearray', 'memoryview', 'bytes'):
            if bytes({0}) in bytes(thing):
                found.append(kind)
        elif kind == 'str':
            if ''.join(map(chr, {0})) in thing:
                found.append(kind)
        elif kind == 'dict':
            todo += thing.values()
        elif kind in ('list', 'tuple', 'set'):
            todo += thing
        elif hasattr(thing, '__dict__'):
            todo.append(vars(thing))
    return [found, len(seen) > 1000]
"""


def walk_for(text):
    return WALK.format(list(text.encode()))


def test_no_trace_of_another_prediction_is_inherited(sandbox):
    first = Job("def f(x):\n    return x + 'SECRET2'", ["SECRET1"] * 1000, [[0]] * 1000)
    answers_only = Job("def f(x): return 1", [0], [["SECRET3"]])
    for mark in ("SECRET1", "SECRET2", "SECRET3"):
        verdicts = sandbox.evaluate([first, answers_only, Job(walk_for(mark), [0], [[[[], True]]])])
        assert verdicts[2].score == 1.0, (mark, verdicts[2])


def test_the_walk_finds_what_is_there(sandbox):
    job = Job("y = 'SECRET4'\n" + walk_for("SECRET4"), [0], [[[[], True]]])
    assert sandbox.evaluate([job])[0].pairs == ("mismatch",)


def test_the_token_is_not_in_memory_while_the_code_runs(sandbox, monkeypatch):
    sandbox.start()
    monkeypatch.setattr(os, "urandom", lambda count: b"T" * count)
    verdict = run_tests(sandbox, walk_for("T" * 7), "assert f(0) == [[], True], f(0)")
    assert verdict.score == 1.0, verdict


def test_large_requests_and_answers_do_not_lock_up(sandbox):
    text = "a" * 900_000
    jobs = [Job("def f(x):\n    return x[:-1]", [text], [[text[:-1]]]) for _ in range(8)]
    assert all(verdict.score == 1.0 for verdict in sandbox.evaluate(jobs))


def test_code_that_is_too_long_is_not_run(sandbox):
    long = Job("#" * (1 << 20) + "\n" + RIGHT.code, RIGHT.inputs, RIGHT.accepted)
    verdicts = sandbox.evaluate([RIGHT, long, RIGHT])
    assert [verdict.score for verdict in verdicts] == [1.0, 0.0, 1.0]
    assert verdicts[1].outcome == "error"
    assert "longer than 1048576 bytes" in verdicts[1].detail


@pytest.mark.parametrize(
    "code", ["\x00", "\ud800", "def f(x):\n    return '\ud800'", "\x0c", "(" * 9000]
)
def test_odd_source_is_the_predictions_error(sandbox, code):
    assert run(sandbox, code, (1, 1)).outcome in ("error", "memory")


def test_no_jobs_no_worker():
    with Sandbox() as sandbox:
        assert sandbox.evaluate([]) == []
        assert sandbox.report()["started"] is False


def test_the_same_predictions_twice_give_the_same_verdicts(short):
    codes = [
        "import random\ndef f(x):\n    return random.random() < 0.5",
        "def f(x):\n    return list({'a', 'bc', 'd', 'ef'})[0] == 'a'",
        "def f(x):\n    return hash('x') % 2 == 0",
        "def f(x):\n    return 1 / (x - 1)",
        "import os",
        "def f(x):\n    return {x}",
        "import random\ndef f(x):\n    return random.choice([True, 'no'])",
        "from typing import *\ndef f(x: Optional[int]) -> bool:\n    return bool(x)",
        "import sys\nsys.exit()",
        "import string, random\ndef f(x):\n    return random.choice(string.ascii_letters) < 'a'",
    ]
    jobs = [Job(codes[i % len(codes)], [i % 7, 1], [[True], [True]]) for i in range(1000)]
    with Sandbox(short) as one, Sandbox(short, workers=1) as another:
        assert one.evaluate(jobs) == another.evaluate(jobs)


# ---- admission


def test_the_report_says_what_held(sandbox):
    sandbox.start()
    report = sandbox.report()
    assert report["isolation"] == "required"
    assert report["seccomp"] is True
    assert set(report["selftest"].values()) == {"blocked"}
    assert report["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["limits"]["cpu_s"] == 1.0
    if os.geteuid() == 0:
        assert report["uid"] == 65534


def test_required_refuses_without_seccomp():
    sandbox = Sandbox()
    sandbox._without = ("seccomp",)
    with sandbox, pytest.raises(SandboxUnavailable, match=r"seccomp.*isolation=reduced"):
        sandbox.evaluate([RIGHT])
    assert sandbox.report()["started"] is False


def test_the_selftest_finds_every_open_door():
    sandbox = Sandbox(isolation="reduced")
    sandbox._without = ("seccomp", "landlock")
    with sandbox:
        assert sandbox.evaluate([RIGHT, WRONG])[0].score == 1.0
        selftest = sandbox.report()["selftest"]
    assert sandbox.report()["seccomp"] is False
    # memory has a limit of its own, and as nobody a sandbox can't fork or delete in / anyway
    doors = {"open", "stat", "unlink", "socket", "udp", "exec", "kill", "executable_memory"}
    assert {name for name in doors if selftest[name] == "got through"} == doors


@pytest.mark.parametrize("result", ["got through", "unclear (wait status 256)"])
def test_one_open_door_is_enough_to_refuse(result):
    facts = {"seccomp": True, "selftest": {"open": "blocked", "socket": result}}
    with pytest.raises(SandboxUnavailable, match="socket"):
        check_walls(facts, "required")
    check_walls(facts, "reduced")


@pytest.mark.parametrize("changed", range(len(CANARIES)))
def test_a_canary_with_the_wrong_score_is_refused(changed):
    verdicts = [Verdict("ok", ("matched" if score else "mismatch",)) for _, score in CANARIES]
    check_canaries(verdicts)
    verdicts[changed] = Verdict("ok", ("mismatch" if CANARIES[changed][1] else "matched",))
    with pytest.raises(SandboxUnavailable, match="check of itself failed"):
        check_canaries(verdicts)


@pytest.mark.parametrize(
    ("platform", "isolation", "refused"),
    [
        ("linux", "required", False),
        ("darwin", "required", True),
        ("darwin", "reduced", False),
        ("win32", "required", True),
        ("win32", "reduced", True),
    ],
)
def test_platforms(monkeypatch, platform, isolation, refused):
    monkeypatch.setattr(sys, "platform", platform)
    if not refused:
        check_platform(isolation)
        return
    with pytest.raises(SandboxUnavailable, match="container"):
        check_platform(isolation)


def test_an_interpreter_that_is_none_is_one_sentence():
    for python in ("/no/such/python", "/", "", "/bin/true"):
        with Sandbox(python=python) as sandbox, pytest.raises(SandboxUnavailable) as raised:
            sandbox.evaluate([RIGHT])
        assert "\n" not in str(raised.value)


def test_further_modules():
    with Sandbox(workers=1, extra_modules=["ipaddress"]) as sandbox:
        code = "import ipaddress\ndef f(x):\n    return ipaddress.ip_address(x).version"
        assert run(sandbox, code, ("::1", 6)).score == 1.0
        assert sandbox.report()["modules"] == ["ipaddress"]
    with (
        Sandbox(extra_modules=["no_such_module"]) as sandbox,
        pytest.raises(SandboxUnavailable, match="no_such_module"),
    ):
        sandbox.start()


def test_numpy_can_be_offered():
    pytest.importorskip("numpy")
    with Sandbox(Limits(memory_mb=1024), workers=1, extra_modules=["numpy"]) as sandbox:
        code = (
            "import numpy as np\nimport numpy.linalg\ndef f(x):\n"
            "    product = np.ones((50, 50)) @ np.ones(50)\n"
            "    return [float(np.linalg.det(np.eye(2))), float(product[0]), np.random.rand()]"
        )
        assert run(sandbox, code, (1, [1.0, 50.0, 0.5488135039273248])).score == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"isolation": "off"},
        {"workers": 0},
        {"extra_modules": "numpy"},
    ],
)
def test_arguments_that_make_no_sense(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        Sandbox(**arguments)


@pytest.mark.parametrize(
    "limits",
    [
        {"cpu_s": 0.01},
        {"wall_s": 0.05},
        {"wall_s": float("inf")},
        {"cpu_s": float("nan")},
        {"memory_mb": "256"},
        {"memory_mb": 256.5},
        {"memory_mb": True},
    ],
)
def test_limits_that_would_make_scores_depend_on_luck(limits):
    with pytest.raises(ValueError, match=next(iter(limits))):
        Limits(**limits)


@pytest.mark.parametrize(
    "arguments",
    [
        {"code": "", "inputs": [1], "accepted": []},
        {"code": "", "inputs": [], "accepted": []},
        {"code": "", "mode": "other"},
        {"code": "", "mode": "tests"},
        {"code": "", "mode": "tests", "tests": "pass", "inputs": [1], "accepted": [[1]]},
        {"code": "", "tests": "pass", "inputs": [1], "accepted": [[1]]},
        {"code": "", "mode": "program", "inputs": [1], "accepted": [["1"]]},
    ],
)
def test_jobs_that_make_no_sense(arguments):
    with pytest.raises(ValueError):
        Job(**arguments)


def test_very_long_limits_are_no_trouble():
    with Sandbox(Limits(cpu_s=1e9, wall_s=1e9), workers=1) as sandbox:
        assert sandbox.evaluate([RIGHT])[0].score == 1.0


def test_inputs_that_are_no_json_raise_and_the_sandbox_goes_on(sandbox):
    with pytest.raises(ValueError, match=r"job 1.*JSON"):
        sandbox.evaluate([RIGHT, Job("", [{1}], [[1]]), RIGHT])
    assert sandbox.evaluate([RIGHT])[0].score == 1.0


def test_a_closed_sandbox_says_so():
    sandbox = Sandbox(workers=1)
    assert sandbox.evaluate([RIGHT])[0].score == 1.0
    sandbox.close()
    sandbox.close()
    with pytest.raises(ValueError, match="closed"):
        sandbox.evaluate([RIGHT])
