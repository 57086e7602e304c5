# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine_models import EchoModel, Notices, ScriptedModel

from lmeval.api.errors import (
    FatalModelError,
    ModelError,
    TransientModelError,
    UnreachableModelError,
    UnsupportedByModel,
)
from lmeval.api.model import Completion
from lmeval.engine.engine import Engine
from lmeval.engine.schedule import RunStopped
from lmeval.engine.settings import EngineSettings

AT_ONCE = {"backoff_s": 0.0, "max_consecutive_failures": None}


class FailingModel(EchoModel):
    """Raises `faults[prompt]` one after the other, then answers."""

    def __init__(self, faults, **settings):
        super().__init__(**settings)
        self.faults = {prompt: list(raised) for prompt, raised in faults.items()}

    def complete(self, prompts, max_length, stops):
        self.record(prompts)
        for prompt in prompts:
            if self.faults.get(prompt):
                raise self.faults[prompt].pop(0)
        return [self.answer(prompt) for prompt in prompts]


def ask(model, prompts, **settings):
    with Engine(model, EngineSettings(**{**AT_ONCE, **settings})) as engine:
        return engine.generate_text(prompts), engine.counts()


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (ModelError("the server said no"), "error: the server said no"),
        (ValueError("bad\nvalue"), "error: ValueError: bad value"),
        (MemoryError(), "error: MemoryError"),
        (RuntimeError("x" * 1000), "error: RuntimeError: " + "x" * 486 + "..."),
    ],
)
def test_a_fault_is_an_error_of_the_guilty_request_alone(fault, error):
    prompts = list("abcdefgh")
    answers, counts = ask(FailingModel({"c": [fault] * 99}), prompts)
    expected = ["" if text == "c" else f"[{text}]" for text in prompts]
    assert answers == expected
    told = answers[2].error
    assert re.sub(r" \(test_faults\.py, line \d+\)$", "", told) == error
    assert (told == error) == isinstance(fault, ModelError)  # a model's own words need no place
    assert [answer.error for answer in answers if answer != ""] == [None] * 7
    assert (counts.answered, counts.errors, counts.timeouts) == (8, 1, 0)


def test_a_lasting_fault_of_a_single_request_is_not_repeated():
    model = FailingModel({"a": [ModelError("no")] * 99})
    _, counts = ask(model, ["a"])
    assert (model.asked, counts.retries) == (["a"], 0)


def test_a_passing_fault_is_repeated_until_it_has_passed():
    model = FailingModel({"a": [TransientModelError("busy")] * 3})
    answers, counts = ask(model, ["a"], max_retries=3)
    assert (answers, answers[0].error, counts.retries, counts.errors) == (["[a]"], None, 3, 0)


def test_a_passing_fault_that_does_not_pass_is_an_error():
    model = FailingModel({"a": [TransientModelError("busy")] * 99})
    answers, counts = ask(model, ["a"], max_retries=2)
    assert (answers[0].error, len(model.asked), counts.errors) == ("error: busy", 3, 1)


@pytest.mark.parametrize("prompts", [["a"], list("abcd")])
def test_a_model_that_nobody_reaches_ends_the_run(prompts):
    model = FailingModel({"a": [UnreachableModelError("no reply from x: refused")] * 99})
    settings = EngineSettings(max_retries=2, backoff_s=0.0, batch_size=4)
    with Engine(model, settings) as engine, pytest.raises(RunStopped) as stopped:
        engine.generate_text(prompts)
    assert str(stopped.value).startswith(
        "Stopped after 3 attempts to reach the model: no reply from x: refused; see that it runs, "
    )
    assert sum("a" in batch for batch in model.batches) == 3


def test_a_model_that_comes_back_is_asked_on():
    model = FailingModel({"a": [UnreachableModelError("refused")] * 2})
    answers, counts = ask(model, ["a"], max_retries=2)
    assert (answers, counts.errors) == (["[a]"], 0)


def test_retries_wait_longer_and_longer():
    model = FailingModel({"a": [TransientModelError("busy")] * 3})
    times = []
    model.record = lambda batch: times.append(time.monotonic())
    ask(model, ["a"], backoff_s=0.04)
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(waits) == 3
    for wait, full in zip(waits, (0.04, 0.08, 0.16), strict=True):
        assert wait >= full / 2


def test_the_wait_that_the_model_asks_for_is_kept_but_capped():
    faults = [TransientModelError("slow down", retry_after=0.15)]
    started = time.monotonic()
    ask(FailingModel({"a": faults}), ["a"])
    assert time.monotonic() - started >= 0.15
    faults = [TransientModelError("slow down", retry_after=3600.0)]
    started = time.monotonic()
    ask(FailingModel({"a": faults}), ["a"], max_backoff_s=0.01)
    assert time.monotonic() - started < 60


def test_a_long_wait_is_announced():
    notices = Notices()
    model = FailingModel({"a": [TransientModelError("slow down", retry_after=900.0)]})
    engine = Engine(model, EngineSettings(max_backoff_s=30.0), progress=notices)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.generate_text, "a")
        while not notices.messages:
            time.sleep(0.001)
        engine.close()
        assert isinstance(waiting.exception(10), RunStopped)
    assert notices.messages == ["Waiting 30 s for the model (it asked for 900 s): slow down"]


def test_a_batch_with_a_wrong_number_of_answers_is_asked_again_in_parts():
    def script(prompts):
        return ["first"] if len(prompts) > 2 else [f"[{prompt}]" for prompt in prompts]

    answers, counts = ask(ScriptedModel(script), list("abcde"))
    assert answers == [f"[{text}]" for text in "abcde"]
    assert counts.errors == 0


def test_unsupported_by_one_caller_leaves_the_other_alone():
    hold = threading.Event()

    def script(prompts):
        hold.wait(10)
        if "bad" in prompts:
            raise UnsupportedByModel("no such thing")
        return [f"[{prompt}]" for prompt in prompts]

    with Engine(ScriptedModel(script)) as engine, ThreadPoolExecutor(3) as pool:
        first = pool.submit(engine.for_task("0").generate_text, "first")
        calls = [pool.submit(engine.for_task(t).generate_text, t) for t in ("good", "bad")]
        while engine.counts("good").requests + engine.counts("bad").requests < 2:
            time.sleep(0.001)
        hold.set()
        assert (first.result(10), calls[0].result(10)) == ("[first]", "[good]")
        assert isinstance(calls[1].exception(10), UnsupportedByModel)


def test_errors_that_the_model_reports_itself_are_counted_and_not_stored(tmp_path):
    model = ScriptedModel(
        lambda prompts: [Completion(error="error: content filter")] * len(prompts)
    )
    for _ in range(2):
        _, counts = ask(model, ["a"], cache_dir=tmp_path)
        assert (counts.errors, counts.cached) == (1, 0)
    assert model.asked == ["a", "a"]


def test_too_many_failures_in_a_row_stop_the_run_and_the_rest_is_kept(tmp_path):
    model = FailingModel({str(n): [ValueError("down")] * 99 for n in range(10, 50)})
    settings = {"max_consecutive_failures": 5, "batch_size": 1, "cache_dir": tmp_path}
    # The prompts of two digits are longer, so that they come first; 9 of one digit came before.
    with Engine(model, EngineSettings(backoff_s=0.0, **settings)) as engine:
        engine.generate_text([str(n) for n in range(1, 10)])
        with pytest.raises(RunStopped, match=r"5 failed requests in a row.*ValueError: down"):
            engine.generate_text([str(n) for n in range(1, 50)])
        with pytest.raises(RunStopped):
            engine.generate_text("one more")
    assert len(model.asked) == 9 + 5
    healthy = EchoModel()
    with Engine(healthy, EngineSettings(cache_dir=tmp_path)) as engine:
        engine.generate_text([str(n) for n in range(1, 50)])
    assert sorted(healthy.asked) == sorted(str(n) for n in range(10, 50))


@pytest.mark.parametrize(
    ("is_kept", "outlook"),
    [
        (True, r"mend the cause, and the same command goes on from here\."),
        (False, r"the same command begins anew, because no answer is kept\."),
    ],
)
def test_a_stopped_run_says_whether_it_can_go_on(tmp_path, is_kept, outlook):
    model = FailingModel({"q": [ValueError("down")]})
    settings = {"max_consecutive_failures": 1, "cache_dir": tmp_path if is_kept else None}
    with (
        Engine(model, EngineSettings(batch_size=1, **settings)) as engine,
        pytest.raises(RunStopped, match=outlook),
    ):
        engine.generate_text(["q", "r"])


def test_failures_with_answers_between_them_do_not_stop_the_run():
    model = FailingModel({str(n): [ValueError("odd")] * 99 for n in range(1, 100, 2)})
    prompts = [str(n) for n in range(100)]
    _, counts = ask(model, prompts, max_consecutive_failures=20, batch_size=1)
    assert (counts.answered, counts.errors) == (100, 50)


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("workers", [1, 6])
def test_every_row_is_accounted_for_whatever_the_model_does(rate, workers):
    rng = random.Random(f"{rate} {workers}")
    huge, surrogate = "x" * 1_000_000, "lone \ud800 surrogate"

    def script(prompts):
        if rng.random() < rate:
            time.sleep(rng.random() / 500)
        if rng.random() < rate:
            raise rng.choice([ValueError("odd"), TransientModelError("busy"), ModelError("no")])
        answers = [f"[{prompt}]" for prompt in prompts]
        for place in range(len(answers)):
            if rng.random() < rate:
                answers[place] = rng.choice([None, 7, huge, surrogate, Completion(error="timeout")])
        if rng.random() < rate:
            answers = rng.choice([None, answers[1:], [*answers, "more"], iter(answers)])
        return answers

    prompts = [f"question {number}" for number in range(200)]
    model = ScriptedModel(script, max_concurrency=6)
    answers, counts = ask(model, prompts, concurrency=workers, batch_size=7)
    assert len(answers) == counts.answered == counts.requests == 200
    failed = [answer for answer in answers if answer.error]
    assert len(failed) == counts.errors + counts.timeouts
    assert all(answer == "" for answer in failed)
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.error or answer in (f"[{prompt}]", huge, surrogate)


class InterruptedWait:
    """Stands for Ctrl-C: raises KeyboardInterrupt where the engine waits."""

    def __init__(self, times):
        self.times = times
        self.messages = []

    def advanced(self, task, counts):
        pass

    def finished(self, task):
        pass

    def notice(self, message):
        self.messages.append(message)

    def tick(self):
        if self.times:
            self.times -= 1
            raise KeyboardInterrupt


def test_ctrl_c_finishes_what_is_in_flight_and_keeps_it(tmp_path):
    class Model(EchoModel):
        def complete(self, prompts, max_length, stops):
            time.sleep(1.3)  # longer than the second between two ticks
            return super().complete(prompts, max_length, stops)

    settings = EngineSettings(cache_dir=tmp_path, batch_size=1)
    user = InterruptedWait(1)
    with Engine(Model(), settings, progress=user) as engine, pytest.raises(KeyboardInterrupt):
        engine.generate_text(["in flight", "never"])
    assert user.messages == ["Waiting for 1 call under way to finish; Ctrl-C again ends at once."]
    model = EchoModel()
    with Engine(model, settings) as engine:
        engine.generate_text(["in flight", "never"])
    assert model.asked == ["never"]


def test_an_interrupt_inside_the_model_ends_the_run():
    def script(prompts):
        raise KeyboardInterrupt

    with Engine(ScriptedModel(script)) as engine, pytest.raises(KeyboardInterrupt):
        engine.generate_text("a")


def test_closing_ends_the_wait_of_other_threads():
    hold = threading.Event()
    model = ScriptedModel(lambda prompts: hold.wait(10) and list(prompts))
    engine = Engine(model)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(engine.generate_text, ["a"])
        while not model.asked:
            time.sleep(0.001)
        threading.Timer(0.05, hold.set).start()
        engine.close()
        assert isinstance(waiting.exception(10), RunStopped)


INTERRUPTED = """
import os, signal, sys, time
from lmeval.api.model import BatchModel, ModelData
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings

class Slow(BatchModel):
    max_concurrency = 2
    def model_data(self):
        return ModelData("test", "slow")
    def fingerprint(self):
        return "echo-1"
    def complete(self, prompts, max_length, stops):
        os.write(1, prompts[0].encode() + b"\\n")
        time.sleep(float(sys.argv[2]))
        return [f"[{prompt}]" for prompt in prompts]

# Whoever starts the tests in the background may have told their children to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings = EngineSettings(cache_dir=sys.argv[1], batch_size=1, concurrency=2)
with Engine(Slow(), settings) as engine:
    engine.generate_text(["aaaa", "bbb", "cc", "d"])
"""


def interrupted(folder, seconds, n_signals):
    """What the model was asked before the signals, and how long the program went on after them."""
    command = [sys.executable, "-c", INTERRUPTED, str(folder), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        asked = [process.stdout.readline().decode().strip() for _ in range(2)]
        started = time.monotonic()
        for _ in range(n_signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
        errors = process.stderr.read().decode()
        process.wait(30)
        assert "KeyboardInterrupt" in errors
        assert process.stdout.read() == b""
        return asked, time.monotonic() - started


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_ctrl_c_once_waits_for_the_calls_in_flight(tmp_path):
    asked, _ = interrupted(tmp_path, 0.6, 1)
    model = EchoModel()
    ask(model, ["aaaa", "bbb", "cc", "d"], cache_dir=tmp_path)
    assert sorted(asked) == ["aaaa", "bbb"]
    assert sorted(model.asked) == ["cc", "d"]


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_ctrl_c_twice_stops_at_once(tmp_path):
    _, seconds = interrupted(tmp_path, 30, 2)
    assert seconds < 15


def test_a_fault_that_every_request_would_meet_ends_the_task_at_once():
    class Locked(EchoModel):
        calls = 0

        def complete(self, prompts, max_length, stops):
            Locked.calls += 1
            raise FatalModelError("the key is wrong")

    with (
        Engine(Locked(), EngineSettings(batch_size=4)) as engine,
        pytest.raises(FatalModelError, match="the key is wrong"),
    ):
        engine.for_task("t").generate_text([str(number) for number in range(40)])
    assert Locked.calls <= 2


def test_a_wrong_number_of_answers_is_told_once_with_both_counts():
    told = Notices()
    model = ScriptedModel(lambda prompts: ["x"])
    with Engine(model, EngineSettings(batch_size=8), progress=told) as engine:
        assert engine.generate_text([str(number) for number in range(16)]) == ["x"] * 16
    assert told.messages == [
        "the model gave 1 answers to 8 requests; they are asked again in smaller batches."
    ]


def test_a_model_that_calls_exit_fails_its_requests():
    def leave(prompts):
        raise SystemExit(3)

    with Engine(ScriptedModel(leave), EngineSettings(max_retries=0)) as engine:
        assert "sys.exit(3)" in engine.generate_text("q").error
