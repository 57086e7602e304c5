# SPDX-License-Identifier: Apache-2.0
"""Whatever the engine does, a task gets what the model alone would have answered."""

import itertools
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine_models import EchoModel
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings

texts = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=6)
prompts = st.lists(texts, max_size=24)
targets = st.lists(texts, min_size=1, max_size=3)


class TardyModel(EchoModel):
    """Answers in an order that `delays` shuffles."""

    def __init__(self, delays, **settings):
        super().__init__(**settings)
        self.delays = itertools.cycle(delays or [0])
        self.running = self.most_running = 0

    def record(self, batch):
        super().record(batch)
        with self.lock:
            delay = next(self.delays)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        time.sleep(delay / 1000)
        with self.lock:
            self.running -= 1


@settings(max_examples=60, deadline=None)
@given(
    inputs=prompts,
    scored=st.lists(st.tuples(texts, targets), max_size=12),
    batch_size=st.integers(1, 9),
    workers=st.integers(1, 6),
    delays=st.lists(st.integers(0, 2), max_size=5),
    stored=st.booleans(),
    deterministic=st.booleans(),
    max_length=st.none() | st.integers(1, 4),
    stop=st.none() | st.text("ab]", min_size=1, max_size=2),
)
def test_results_equal_one_at_a_time_evaluation(
    inputs, scored, batch_size, workers, delays, stored, deterministic, max_length, stop
):
    alone = EchoModel()
    model = TardyModel(delays, max_concurrency=4, deterministic=deterministic)
    with tempfile.TemporaryDirectory() as folder:
        engine_settings = EngineSettings(
            batch_size=batch_size, concurrency=workers, cache_dir=folder if stored else None
        )
        for _ in range(2 if stored else 1):
            with Engine(model, engine_settings) as engine:
                written = engine.generate_text(inputs, max_length, stop, "[a-z]+")
                rows = engine.cond_log_prob([c for c, _ in scored], [t for _, t in scored])
                whole = engine.rolling_log_prob(inputs)
            assert written == [alone.generate_text(p, max_length, stop, "[a-z]+") for p in inputs]
            assert rows == [alone.cond_log_prob(context, wanted) for context, wanted in scored]
            assert whole == alone.rolling_log_prob(inputs)
    assert model.most_running <= min(workers, 4)
    assert max(map(len, model.batches), default=0) <= batch_size
    assert len(model.asked) <= 2 * len(inputs) + len(scored)  # a second run asks nothing


@settings(max_examples=20, deadline=None)
@given(
    calls=st.lists(prompts, min_size=1, max_size=12),
    batch_size=st.integers(1, 9),
    delays=st.lists(st.integers(0, 2), max_size=5),
)
def test_calls_from_several_threads_do_not_mix(calls, batch_size, delays):
    model = TardyModel(delays, max_concurrency=3)
    with (
        Engine(model, EngineSettings(batch_size=batch_size, concurrency=3)) as engine,
        ThreadPoolExecutor(4) as pool,
    ):
        views = [engine.for_task(str(number)) for number in range(len(calls))]
        results = list(pool.map(lambda view, call: view.generate_text(call), views, calls))
        assert results == [[f"[{text}]" for text in call] for call in calls]
        for number, call in enumerate(calls):
            assert engine.counts(str(number)).answered == len(call)


def test_equal_requests_at_the_same_time_are_asked_once():
    started, go_on = threading.Event(), threading.Event()

    class Model(EchoModel):
        def complete(self, prompts, max_length, stops):
            started.set()
            go_on.wait(10)
            return super().complete(prompts, max_length, stops)

    model = Model()
    with Engine(model) as engine, ThreadPoolExecutor(2) as pool:
        first = pool.submit(engine.for_task("first").generate_text, "q")
        assert started.wait(10)
        second = pool.submit(engine.for_task("second").generate_text, "q")
        while engine.counts("second").requests == 0:
            time.sleep(0.001)
        go_on.set()
        assert first.result(10) == second.result(10) == "[q]"
        assert engine.counts("second").shared == 1
    assert model.asked == ["q"]


@pytest.mark.parametrize(("workers", "most"), [(8, 3), (2, 2)])
def test_no_more_calls_at_once_than_the_model_and_the_user_allow(workers, most):
    model = TardyModel([3], max_concurrency=3)
    with Engine(model, EngineSettings(concurrency=workers, batch_size=1)) as engine:
        engine.generate_text([str(number) for number in range(12)])
    assert model.most_running == most


def test_single_requests_of_several_threads_are_gathered_into_common_batches():
    model = TardyModel([5])

    def task(name):
        return [engine.for_task(name).generate_text(f"{name} {turn}") for turn in range(10)]

    with Engine(model) as engine, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(task, "abcdefgh"))
    assert results == [[f"[{name} {turn}]" for turn in range(10)] for name in "abcdefgh"]
    # 80 requests; the last threads to finish may be alone.
    assert len(model.batches) <= 20
