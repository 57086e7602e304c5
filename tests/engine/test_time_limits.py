# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
import threading
import time

import pytest
from engine_models import EchoModel

from lmeval.engine.engine import Engine
from lmeval.engine.schedule import RunStopped
from lmeval.engine.settings import EngineSettings

LIMIT = 0.1


class SlowModel(EchoModel):
    """Holds the prompts of `held` until `release` is set, and notes how many calls run at once."""

    def __init__(self, held, **settings):
        super().__init__(**settings)
        self.held = held
        self.release = threading.Event()
        self.running = self.most_running = 0

    def complete(self, prompts, max_length, stops):
        self.record(prompts)
        with self.lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        if any(prompt in self.held for prompt in prompts):
            self.release.wait(20)
        with self.lock:
            self.running -= 1
        return [self.answer(prompt) for prompt in prompts]


def ask(model, prompts, **settings):
    with Engine(model, EngineSettings(timeout_s=LIMIT, **settings)) as engine:
        answers = engine.generate_text(prompts)
        model.release.set()
        return answers, engine.counts()


def test_a_request_out_of_time_is_a_timeout_and_the_others_are_answered():
    model = SlowModel({"slow"}, max_concurrency=4)
    answers, counts = ask(model, ["a", "slow", "b", "c"], batch_size=1, concurrency=2)
    assert answers == ["[a]", "", "[b]", "[c]"]
    assert [answer.error for answer in answers] == [None, "timeout", None, None]
    assert answers[1].latency_ms >= LIMIT * 1000
    assert (counts.answered, counts.timeouts, counts.errors) == (4, 1, 0)


def test_a_batch_out_of_time_is_asked_again_one_by_one():
    model = SlowModel({"slow"}, max_concurrency=4)
    answers, counts = ask(model, ["a", "slow", "b"])
    assert [answer.error for answer in answers] == [None, "timeout", None]
    assert (counts.answered, counts.timeouts) == (3, 1)
    assert [len(batch) for batch in model.batches] == [3, 1, 1, 1]


def test_log_probs_out_of_time():
    model = EchoModel()
    model.score = lambda contexts, targets: time.sleep(0.3) or [[-1.0, -1.0]]
    with Engine(model, EngineSettings(timeout_s=LIMIT)) as engine:
        scored = engine.cond_log_prob("a", ["b", "c"])
    assert (scored, scored.error) == ([-float("inf")] * 2, "timeout")


def test_a_late_answer_is_dropped_and_never_stored(tmp_path):
    model = SlowModel({"slow"}, max_concurrency=2)
    settings = EngineSettings(timeout_s=LIMIT, cache_dir=tmp_path, batch_size=1)
    with Engine(model, settings) as engine:
        assert engine.generate_text("slow").error == "timeout"
        model.release.set()
        while model.running:
            time.sleep(0.001)
        counts = engine.counts()
        assert (counts.answered, counts.timeouts) == (1, 1)
    with Engine(model, settings) as engine:
        assert engine.generate_text("slow") == "[slow]"
        assert engine.counts().cached == 0


def test_a_model_that_takes_one_call_is_not_called_beside_a_late_one():
    model = SlowModel({"slow"})
    threading.Timer(1.5 * LIMIT, model.release.set).start()
    answers, _ = ask(model, ["slow", "a", "b"], batch_size=1)
    assert [answer.error for answer in answers] == ["timeout", None, None]
    assert model.most_running == 1


def test_a_call_that_never_returns_is_written_off_after_a_second_limit():
    model = SlowModel({"stuck"})
    answers, _ = ask(model, ["stuck", "a", "b"], batch_size=1)
    assert answers == ["", "[a]", "[b]"]


def test_stuck_calls_starve_nobody():
    model = SlowModel({"stuck1", "stuck2", "stuck3"}, max_concurrency=2)
    prompts = ["stuck1", "stuck2", "stuck3", *"abcdefgh"]
    answers, counts = ask(model, prompts, batch_size=1, concurrency=2)
    assert [answer.error for answer in answers] == ["timeout"] * 3 + [None] * 8
    assert counts.timeouts == 3


def test_timeouts_count_as_failures_in_a_row():
    model = SlowModel({"1", "2", "3", "4"}, max_concurrency=8)
    settings = EngineSettings(
        timeout_s=0.02, batch_size=1, concurrency=2, max_consecutive_failures=2
    )
    with Engine(model, settings) as engine, pytest.raises(RunStopped, match="timeout"):
        engine.generate_text(["1", "2", "3", "4"])
    model.release.set()


def test_a_stuck_call_does_not_keep_the_process_alive():
    program = """
import time
from lmeval.api.model import BatchModel, ModelData
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings

class Stuck(BatchModel):
    def model_data(self):
        return ModelData("test", "stuck")
    def complete(self, prompts, max_length, stops):
        time.sleep(600)

with Engine(Stuck(), EngineSettings(timeout_s=0.05)) as engine:
    print(engine.generate_text("q").error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert ended.stdout.decode().strip() == "timeout"
    assert ended.returncode == 0, ended.stderr.decode()
