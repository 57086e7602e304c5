# SPDX-License-Identifier: Apache-2.0
"""Tasks that run model-written code.

They mention RestrictedPython, which is how they are known; the ones here run the code without it,
so that only the process's own walls hold.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from bigbench_data import TableModel
from test_program_task import EchoModel, load, write_program

from lmeval.api.errors import TaskError, UsageError
from lmeval.api.model import Model, ModelData
from lmeval.api.options import TaskOptions
from lmeval.bigbench import load_program_task
from lmeval.bigbench.isolated_task import IsolatedTask
from lmeval.sandbox import Limits, Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")

RUNNING = """
# RestrictedPython
import socket
class Codes(task.Task):
    def get_task_details(self):
        return DETAILS
    def evaluate_model(self, model, max_examples=None, random_seed=None):
        import bigbench.benchmark_tasks.codes.late as late
        scores = {}
        for number in range(max_examples or 2):
            code = model.generate_text(f"write {number}", late.LENGTH)
            names = {}
            try:
                exec(code, names)
                scores[f"s{number}"] = float(names["f"]())
            except Exception as error:
                scores[f"s{number}"] = -1.0
        return result(**scores)
"""
PLAIN = RUNNING.replace("# RestrictedPython", "")


class CodeModel(Model):
    def __init__(self, *codes):
        self.codes = codes
        self.asked = []

    def model_data(self):
        return ModelData("code", "code")

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        self.asked.append((inputs, max_length))
        return self.codes[(len(self.asked) - 1) % len(self.codes)]

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        return [-1.0] * len(targets)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(Limits(cpu_s=0.5, wall_s=5)) as made:
        yield made


def run(tmp_path, sandbox, *codes, body=RUNNING, **options):
    folder = write_program(tmp_path / "codes", body, late="LENGTH = 500")
    model = CodeModel(*codes)
    score = load(folder, sandbox=sandbox, **options).evaluate_model(model)
    return score[0].score_dict, model


def test_running_code_must_be_allowed(tmp_path):
    folder = write_program(tmp_path / "codes", RUNNING, late="LENGTH = 500")
    with pytest.raises(UsageError, match="--allow_code_exec"):
        load(folder)


def test_code_in_a_sibling_module_counts_too(tmp_path, sandbox):
    folder = write_program(
        tmp_path / "codes",
        RUNNING.replace("# RestrictedPython", ""),
        late="LENGTH = 500",
        box="import RestrictedPython",
    )
    assert isinstance(load(folder, sandbox=sandbox), IsolatedTask)


def test_honest_code_is_scored(tmp_path, sandbox):
    scores, model = run(tmp_path, sandbox, "def f(): return 0.25", "def f(): return 1 / 0")
    assert scores == {"s0": 0.25, "s1": -1.0}
    assert model.asked == [("write 0", 500), ("write 1", 500)]


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    open('/etc/hostname')\n    return 1",
        "import os\ndef f():\n    return len(os.listdir('/'))",
        "import os\ndef f():\n    os.unlink('{victim}')\n    return 1",
        "import os\ndef f():\n    os.chmod('{victim}', 0)\n    return 1",
        "def f():\n    open('{victim}', 'w')\n    return 1",
    ],
)
def test_files_are_out_of_reach(tmp_path, sandbox, code):
    victim = tmp_path / "victim"
    victim.write_text("still here")
    scores, _ = run(tmp_path, sandbox, code.replace("{victim}", str(victim)))
    assert scores["s0"] == -1.0
    assert victim.read_text() == "still here"


@pytest.mark.parametrize(
    "code",
    [
        "import socket\ndef f():\n    socket.socket()\n    return 1",
        "import os\ndef f():\n    os.fork()\n    return 1",
        "import os\ndef f():\n    os.kill({parent}, 0)\n    return 1",
        "import os\ndef f():\n    os.execv('/bin/true', ['true'])",
    ],
)
def test_network_and_processes_are_out_of_reach(tmp_path, sandbox, code):
    with pytest.raises(TaskError, match="own process"):
        run(tmp_path, sandbox, code.replace("{parent}", str(os.getpid())))


def test_the_environment_is_out_of_reach(tmp_path, sandbox, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "1")
    code = "import os\ndef f(): return int('SECRET_KEY' in os.environ)"
    scores, _ = run(tmp_path, sandbox, code)
    assert scores["s0"] == 0


def test_endless_code_is_interrupted_and_the_rest_goes_on(tmp_path, sandbox):
    scores, _ = run(tmp_path, sandbox, "def f():\n    while True: pass", "def f(): return 1")
    assert scores == {"s0": -1.0, "s1": 1.0}


def test_too_much_memory_is_refused(tmp_path, sandbox):
    scores, _ = run(tmp_path, sandbox, "def f(): return len(bytearray(1 << 30))")
    assert scores["s0"] == -1.0


def test_what_the_process_says_is_not_believed(tmp_path, sandbox):
    code = (
        "import os\ndef f():\n    for d in range(3, 64):\n        try:\n"
        "            os.write(d, b'nonsense\\n')\n        except OSError: pass\n    return 1"
    )
    with pytest.raises(TaskError, match="what it never says"):
        run(tmp_path, sandbox, code)


@pytest.mark.parametrize(
    "question",
    [
        '"generate_text", "arguments": [5, null, null, null]',
        '"generate_text", "arguments": [["a", 5], null, null, null]',
        '"generate_text", "arguments": ["a", "5", null, null]',
        '"generate_text", "arguments": ["a", 5, 5, null]',
        '"generate_text", "arguments": ["a", 5, null, "(a*)*b"]',
        '"generate_text", "arguments": ["a"]',
        '"cond_log_prob", "arguments": ["a", ["b", null], false]',
        '"cond_log_prob", "arguments": [["a"], ["b"], false]',
        '"cond_log_prob", "arguments": [["a"], [["b"], ["c"]], false]',
        '"model_data", "arguments": []',
        '["generate_text"], "arguments": {}',
    ],
)
def test_only_questions_that_a_task_can_ask_reach_the_model(tmp_path, sandbox, question):
    line = f'{{"ask": {question}}}\n'.encode()
    code = (
        f"import os\ndef f():\n    for d in range(3, 64):\n        try: os.write(d, {line!r})\n"
        "        except OSError: pass\n    return 1"
    )
    folder = write_program(tmp_path / "codes", RUNNING, late="LENGTH = 500")
    model = CodeModel(code)
    with pytest.raises(TaskError, match="what it never says"):
        load(folder, sandbox=sandbox).evaluate_model(model)
    assert len(model.asked) == 1


def test_patterns_of_the_task_itself_are_taken(tmp_path, sandbox):
    body = RUNNING.replace("late.LENGTH)", "late.LENGTH, None, '.+')")
    scores, _ = run(tmp_path, sandbox, "def f(): return 0.5", body=body)
    assert scores == {"s0": 0.5, "s1": 0.5}


def test_the_model_is_asked_no_more_often_than_the_task_asks_it(tmp_path, sandbox):
    code = (
        'import os\nline = b\'{"ask": "generate_text", '
        '"arguments": ["more", null, null, null]}\\n\'\n'
        "def f():\n    for d in range(3, 64):\n        try:\n            os.write(d, line * 50)\n"
        "        except OSError: pass\n    return 1"
    )
    folder = write_program(tmp_path / "codes", RUNNING, late="LENGTH = 500")
    model = CodeModel(code)
    with pytest.raises(TaskError, match="more than the 2 times"):
        load(folder, sandbox=sandbox).evaluate_model(model)
    assert len(model.asked) <= 3


def test_state_of_the_trial_run_does_not_stay(tmp_path, sandbox):
    body = RUNNING.replace("scores = {}", "DONE.append(1); scores = {'runs': len(DONE)}")
    scores, _ = run(tmp_path, sandbox, "def f(): return 1", body="DONE = []" + body)
    assert scores["runs"] == 1


MULTIPROCESSING = """
# RestrictedPython
import multiprocessing
def work(pipe, code):
    names = {}
    exec(code, names)
    pipe.send(names["f"]())
class Codes(task.Task):
    def get_task_details(self):
        return DETAILS
    def evaluate_model(self, model):
        scores = {}
        for number in range(3):
            code = model.generate_text("write") or "def f(): return 0"
            receive, send = multiprocessing.Pipe(False)
            process = multiprocessing.Process(target=work, args=(send, code))
            process.start()
            process.join(0.2)
            assert not process.is_alive()
            scores[f"s{number}"] = receive.recv() if process.exitcode == 0 else process.exitcode
        return result(**scores)
"""


def test_processes_of_the_task_run_inside_with_their_time_limit(tmp_path, sandbox):
    codes = (
        "def f(): return 5",
        "def f():\n    while True: pass",
        "def f():\n    try:\n        while True: pass\n    except Exception: return 1",
    )
    scores, _ = run(tmp_path, sandbox, *codes, body=MULTIPROCESSING)
    assert scores == {"s0": 5, "s1": -15, "s2": -15}


def test_choices_can_be_asked_for_too(tmp_path, sandbox):
    body = RUNNING.replace("scores = {}", "scores = {'p': model.cond_log_prob('q', ['a', 'b'])[0]}")
    scores, _ = run(tmp_path, sandbox, "def f(): return 1", body=body)
    assert scores["p"] == -1.0


def test_a_task_that_fails_says_why(tmp_path, sandbox):
    body = RUNNING.replace("scores = {}", "scores = {}['missing']")
    with pytest.raises(TaskError, match="own process: KeyError"):
        run(tmp_path, sandbox, "def f(): return 1", body=body)


def test_a_model_that_fails_ends_the_process(tmp_path, sandbox):
    class Failing(EchoModel):
        def generate_text(self, *arguments, **named):
            raise TaskError("no answer")

    folder = write_program(tmp_path / "codes", RUNNING, late="LENGTH = 500")
    with pytest.raises(TaskError, match="no answer"):
        load(folder, sandbox=sandbox).evaluate_model(Failing())


WAITING = """
class Sums(task.Task):
    def get_task_details(self):
        return DETAILS
    def evaluate_model(self, model):
        model.model_data()
        return result(x=1)
"""


def test_standard_output_is_left_alone_beside_a_task_that_logs_it(tmp_path, sandbox):
    codes = write_program(tmp_path / "codes", RUNNING, late="LENGTH = 500")
    isolated = load(codes, sandbox=sandbox)
    beside = load(write_program(tmp_path / "sums", WAITING))
    stdout = sys.stdout
    begun, asked = threading.Event(), threading.Event()

    class Waiting(EchoModel):
        def model_data(self):
            begun.set()
            asked.wait(20)
            return super().model_data()

    class Late(CodeModel):
        def generate_text(self, *arguments, **named):
            asked.set()
            other.result(20)
            return super().generate_text(*arguments, **named)

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(beside.evaluate_model, Waiting())
        begun.wait(20)
        isolated.evaluate_model(Late("def f(): return 1"))
    assert sys.stdout is stdout


def test_a_task_that_runs_no_code_is_not_isolated(tmp_path):
    folder = write_program(tmp_path / "codes", PLAIN, late="LENGTH = 500")
    task = load_program_task(folder, "codes", TaskOptions())
    assert not isinstance(task, IsolatedTask)
    assert task.evaluate_model(TableModel()).score == -1.0
