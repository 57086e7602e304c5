# SPDX-License-Identifier: Apache-2.0
"""Kills, forks, threads, Ctrl-C: what happens around the sandbox while it works."""

import concurrent.futures
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from lmeval.sandbox import Job, Limits, Sandbox, SandboxError, _batch, _pool, _process, _selftest

from .conftest import descendants

PROJECT = pathlib.Path(__file__).resolve().parents[2]
SLEEP = "import time\ndef f(x):\n    time.sleep(x)\n    return x\n"


def doubling(number):
    return Job("def f(x):\n    return x * 2\n", [number], [[number * 2]])


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def run_script(script, **options):
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=PROJECT, stdout=subprocess.PIPE, text=True, **options
    )


# ---- killed from outside

BUSY = """
import ctypes, os, sys
from lmeval.sandbox import Job, Limits, Sandbox
sandbox = Sandbox(Limits(cpu_s=60, wall_s=60), workers=2)
sandbox.start()
{fork}
print("started", flush=True)
sandbox.evaluate([Job("def f(x):\\n    while True: pass", [1], [[1]])] * 2)
"""
# A fork that Python's hooks don't see, and so a copy of the pipes that nobody closes.
UNSEEN_FORK = "if ctypes.CDLL(None).fork() == 0: import time; time.sleep(30)"


@pytest.mark.parametrize(
    ("fork", "seconds"), [("", 1.0), (UNSEEN_FORK, 4.0)], ids=["alone", "pipe held by a fork"]
)
def test_no_process_is_left_when_lmeval_is_killed(fork, seconds):
    run = run_script(BUSY.format(fork=fork))
    assert run.stdout.readline() == "started\n"
    forked = 1 if fork else 0
    assert wait_until(lambda: len(descendants(run.pid)) == 4 + forked, 10)
    below = descendants(run.pid)
    sleeper = {pid for pid in below if fork and not is_worker_or_child(pid, run.pid)}
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert wait_until(lambda: not any(map(is_alive, below - sleeper)), seconds)
    for pid in sleeper:
        os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def is_worker_or_child(pid, above):
    # workers lead sessions of their own, an ordinary fork stays in its parent's
    return os.getsid(pid) != os.getsid(above)


def test_no_process_is_left_when_lmeval_just_ends():
    run = run_script(
        "from tests.sandbox.test_processes import *\n"
        "sandbox = Sandbox(workers=2)\n"
        "sandbox.evaluate([doubling(1)] * 4)\n"
        "print(*descendants(os.getpid()))\n"
    )
    workers = [int(pid) for pid in run.communicate(timeout=30)[0].split()]
    assert run.returncode == 0
    assert len(workers) == 2
    assert wait_until(lambda: not any(map(is_alive, workers)), 1.0)


def test_a_worker_killed_in_mid_job_is_replaced_and_order_kept(short):
    with Sandbox(short, workers=1) as sandbox:
        sandbox.start()
        victim = sandbox._pool[0].pid
        threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
        jobs = [doubling(1), Job(SLEEP, [0.8], [[0.8]]), doubling(2), doubling(3)]
        verdicts = sandbox.evaluate(jobs)
        assert [verdict.score for verdict in verdicts] == [1.0] * 4
        assert sandbox._pool[0].pid != victim
        assert not is_alive(victim)


def test_a_job_whose_worker_dies_twice_is_raised_not_scored(short):
    with Sandbox(short, workers=1) as sandbox:
        stop = threading.Event()

        def kill_again_and_again():
            while not stop.wait(0.1):
                for worker in list(sandbox._pool):
                    if worker.admitted and worker.in_flight:
                        os.kill(worker.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_again_and_again)
        killer.start()
        with pytest.raises(SandboxError, match=r"2 times on prediction 1 of 1.*no score"):
            sandbox.evaluate([Job(SLEEP, [2], [[2]])])
        stop.set()
        killer.join()
        assert sandbox.evaluate([doubling(4)])[0].score == 1.0


def test_a_worker_that_hangs_is_replaced(monkeypatch):
    monkeypatch.setattr(_pool, "_REPLY_GRACE_S", 0.5)
    with Sandbox(Limits(wall_s=1), workers=1) as sandbox:
        sandbox.start()
        os.kill(sandbox._pool[0].pid, signal.SIGSTOP)
        assert sandbox.evaluate([doubling(1)])[0].score == 1.0


def test_a_fault_of_the_child_before_the_code_runs_is_raised(short):
    # the request itself does not fit into the child's memory
    with Sandbox(Limits(memory_mb=16), workers=1) as sandbox:
        job = Job("def f(x): return 1", ["a" * 40_000_000], [[1]])
        with pytest.raises(SandboxError, match="before it was ready"):
            sandbox.evaluate([job])
        assert sandbox.evaluate([doubling(4)])[0].score == 1.0


def test_a_prediction_leaves_no_process_behind(sandbox):
    fork = "import sys\ndef f(x):\n    o = sys.modules['os']\n    if not o.fork(): o.setsid()\n"
    sandbox.start()
    before = descendants(os.getpid())
    verdict = sandbox.evaluate([Job(fork, [1], [[None]])])[0]
    assert (verdict.outcome, verdict.score) == ("forbidden", 0.0)
    assert descendants(os.getpid()) == before


def test_a_wall_that_cannot_be_set_up_is_told_by_a_child_that_tries():
    def refused():
        raise OSError(22, "Invalid argument")

    assert _selftest.fault_of(lambda: None) == ""
    assert _selftest.fault_of(refused) == "Invalid argument"
    assert "killed" in _selftest.fault_of(lambda: os.kill(os.getpid(), signal.SIGKILL))


INTERRUPTED = """
from tests.sandbox.test_processes import *
sandbox = Sandbox(Limits(cpu_s=60, wall_s=60), workers=2)
for round in range(4):
    threading.Timer(0.1 + 0.1 * round, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        sandbox.evaluate([Job(SLEEP, [50], [[50]])] * 5)
    except KeyboardInterrupt:
        print([verdict.score for verdict in sandbox.evaluate([doubling(round)] * 3)])
sandbox.close()
print(descendants(os.getpid()))
"""


def test_ctrl_c_again_and_again():
    run = run_script(INTERRUPTED)
    output, _ = run.communicate(timeout=60)
    assert output == "[1.0, 1.0, 1.0]\n" * 4 + "set()\n"
    assert run.returncode == 0


def test_ctrl_c_at_a_terminal_does_not_reach_the_worker(sandbox):
    sandbox.start()
    worker = sandbox._pool[0].pid
    assert os.getsid(worker) == worker != os.getsid(0)
    os.kill(worker, signal.SIGINT)
    assert sandbox.evaluate([doubling(1)])[0].score == 1.0
    assert sandbox._pool[0].pid == worker


# ---- threads and forks


def test_sixteen_threads(short):
    def calls(caller):
        verdicts = []
        for i in range(6):
            batch = [doubling(caller), doubling(1), Job("def f(x): return 0", [caller], [[1]])]
            verdicts += sandbox.evaluate(batch[: 1 + i % 3])
        return verdicts

    with Sandbox(short, workers=2) as sandbox:
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            results = list(threads.map(calls, range(16)))
        assert len(sandbox._pool) <= 2
        pattern = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]  # batches of one, two and three
        for verdicts in results:
            assert [verdict.score for verdict in verdicts] == pattern * 2


def test_a_thread_that_ends_leaves_its_worker_usable():
    with Sandbox(workers=1) as sandbox:
        thread = threading.Thread(target=sandbox.start)
        thread.start()
        thread.join()
        worker = sandbox._pool[0].pid
        time.sleep(0.1)
        assert sandbox.evaluate([doubling(1)])[0].score == 1.0
        assert sandbox._pool[0].pid == worker


def in_fork(action):
    """Runs an action in a fork; whether it was true there."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if action() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def test_a_fork_gets_workers_of_its_own(short):
    with Sandbox(short, workers=1) as sandbox:
        sandbox.start()
        worker = sandbox._pool[0].pid

        def use_it():
            right = sandbox.evaluate([doubling(5)])[0].score == 1.0
            own = sandbox._pool[0].pid
            sandbox.close()
            return right and own != worker and is_alive(worker)

        assert in_fork(use_it)
        assert sandbox.evaluate([doubling(1)])[0].score == 1.0
        assert sandbox._pool[0].pid == worker


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_fork_while_another_thread_evaluates(short):
    with Sandbox(short, workers=1) as sandbox:
        other = threading.Thread(target=sandbox.evaluate, args=([Job(SLEEP, [1], [[1]])],))
        other.start()
        time.sleep(0.4)
        assert in_fork(lambda: sandbox.evaluate([doubling(5)])[0].score == 1.0)
        other.join()


def test_closing_ends_the_worker_though_a_fork_holds_the_pipe():
    with Sandbox(workers=1) as sandbox:
        sandbox.start()
        worker = sandbox._pool[0].pid
        holder = ctypes.CDLL(None).fork()
        if holder == 0:
            time.sleep(30)
            os._exit(0)
        sandbox.close()
        assert not is_alive(worker)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)


def test_closing_while_another_thread_evaluates_ends_that_too(short):
    sandbox = Sandbox(short, workers=1)
    failures = []

    def evaluate():
        try:
            sandbox.evaluate([Job(SLEEP, [2], [[2]])] * 3)
        except ValueError as error:
            failures.append(str(error))

    thread = threading.Thread(target=evaluate)
    thread.start()
    time.sleep(0.5)
    sandbox.close()
    thread.join(10)
    assert failures == ["this Sandbox is closed."]


# ---- resources


def test_no_descriptor_and_no_process_is_lost():
    def count():
        return len(os.listdir("/proc/self/fd")), len(descendants(os.getpid()))

    before = count()
    for _ in range(3):
        with Sandbox(workers=2) as sandbox:
            sandbox.evaluate([doubling(1)] * 4)
    assert count() == before


def test_a_worker_is_replaced_after_many_jobs(monkeypatch, short):
    monkeypatch.setattr(_process, "_MOST_JOBS", 10)
    started = []
    admit = Sandbox._admit
    monkeypatch.setattr(
        Sandbox, "_admit", lambda self, worker: (started.append(worker.pid), admit(self, worker))
    )
    with Sandbox(short, workers=1) as sandbox:
        assert all(verdict.score for verdict in sandbox.evaluate([doubling(1)] * 20))
    # each has answered the four canaries first
    assert len(started) == 4


def test_a_job_stuck_behind_a_slow_one_is_at_most_one_per_worker():
    assert _batch._JOBS_PER_WORKER == 2


BURN = (
    "import time\ndef f(x):\n    end = time.process_time() + x\n"
    "    while time.process_time() < end: pass\n    return x\n"
)


@pytest.mark.parametrize(
    ("count", "workers"), [(12, 6), pytest.param(100, 16, marks=pytest.mark.slow)]
)
def test_a_busy_machine_does_not_change_scores(count, workers):
    limits = Limits(cpu_s=0.2, wall_s=5)
    jobs = [Job(BURN, [0.04], [[0.04]])] * count
    for number in (1, workers):
        with Sandbox(limits, workers=number) as sandbox:
            outcomes = [verdict.outcome for verdict in sandbox.evaluate(jobs)]
        assert outcomes == ["ok"] * count
