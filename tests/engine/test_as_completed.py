# SPDX-License-Identifier: Apache-2.0
"""Answers in parts, as they arrive: none is missing, none comes twice, none waits for the last."""

import itertools
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine_models import EchoModel, Notices, ScriptedModel, TextOnlyModel
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval.api.errors import (
    AnswerCountError,
    FatalModelError,
    InvalidValueError,
    UnsupportedByModel,
)
from lmeval.api.model import Completion, LogProbs
from lmeval.engine.engine import Engine
from lmeval.engine.kinds import ScoreRequest, TextRequest
from lmeval.engine.schedule import RunStopped
from lmeval.engine.settings import EngineSettings

ALL_AT_ONCE = 3600.0


class TardyModel(EchoModel):
    """Answers in an order that `delays` (milliseconds) shuffle."""

    def __init__(self, delays, **more):
        super().__init__(**more)
        self.delays = itertools.cycle(delays or [0])

    def record(self, batch):
        super().record(batch)
        with self.lock:
            delay = next(self.delays)
        time.sleep(delay / 1000)


prompts = st.lists(st.text("ab", max_size=4), max_size=30)  # so short that many are equal


@settings(max_examples=80, deadline=None)
@given(
    inputs=prompts,
    earlier=prompts,
    batch_size=st.integers(1, 7),
    workers=st.integers(1, 5),
    delays=st.lists(st.integers(0, 3), max_size=5),
    stored=st.booleans(),
    deterministic=st.booleans(),
    longest_step_s=st.sampled_from([0.0, 0.002, ALL_AT_ONCE]),
)
def test_every_place_is_in_one_part_with_its_own_answer(
    inputs, earlier, batch_size, workers, delays, stored, deterministic, longest_step_s
):
    model = TardyModel(delays, max_concurrency=5, deterministic=deterministic)
    with tempfile.TemporaryDirectory() as folder:
        how = EngineSettings(
            batch_size=batch_size, concurrency=workers, cache_dir=folder if stored else None
        )
        with Engine(model, how) as engine:
            engine.for_task("earlier").generate_text(earlier)
            twins = threading.Thread(target=engine.for_task("twins").generate_text, args=(inputs,))
            twins.start()
            view = engine.for_task("t")
            texts = list(
                engine.ask_as_completed(view, TextRequest(None, ()), inputs, longest_step_s)
            )
            pairs = [(text, [text, "x"]) for text in inputs]
            scores = list(engine.ask_as_completed(view, ScoreRequest(True), pairs, longest_step_s))
            twins.join()
    for parts, expected in (
        (texts, [f"[{text}]" for text in inputs]),
        (scores, [[-len(text) - 1.0, -2.0] for text in inputs]),
    ):
        assert all(parts)
        assert sorted(pair for part in parts for pair in part) == list(enumerate(expected))


class Gate:
    """A script for a model that holds back the prompts with "slow" in them until `opened`."""

    def __init__(self):
        self.opened = threading.Event()

    def __call__(self, prompts):
        if "slow" in prompts[0]:
            assert self.opened.wait(10)
        return list(prompts)


ONE_BY_ONE = EngineSettings(batch_size=1, concurrency=2)


def test_an_answer_does_not_wait_for_a_slower_one():
    gate = Gate()
    with Engine(ScriptedModel(gate, max_concurrency=2), ONE_BY_ONE) as engine:
        parts = engine.for_task("t").generate_text_as_completed(["slow", "a", "b"])
        early = set()
        while len(early) < 2:
            early |= {*next(parts)}
        assert early == {(1, "a"), (2, "b")}
        gate.opened.set()
        assert [pair for part in parts for pair in part] == [(0, "slow")]


def test_texts_are_cut_as_those_of_generate_text():
    with Engine(EchoModel()) as engine:
        view = engine.for_task("t")
        ((pair,),) = view.generate_text_as_completed(["abc. d"], 5, ".")
        whole = view.generate_text("abc. d", 5, ".")
    assert pair == (0, whole) == (0, "[abc.")
    assert pair[1].raw == "[abc. d]"


def test_log_probs_are_normalized_as_those_of_cond_log_prob():
    with Engine(EchoModel()) as engine:
        view = engine.for_task("t")
        for absolute in (True, False):
            ((pair,),) = view.cond_log_prob_as_completed(["q"], [["a", "bc"]], absolute)
            assert pair == (0, view.cond_log_prob("q", ["a", "bc"], absolute))


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("generate_text_as_completed", (["a", 7],), "got 7 as input 1, a int"),
        ("generate_text_as_completed", (["a"], None, ""), "stop_string must not be empty"),
        ("cond_log_prob_as_completed", (["a"], []), "1 inputs and 0 lists"),
        ("cond_log_prob_as_completed", ([7], [["a"]]), "got 7 as input 0"),
    ],
)
def test_wrong_arguments_are_refused_before_the_model_is_asked(method, arguments, message):
    model = EchoModel()
    with Engine(model) as engine, pytest.raises(InvalidValueError, match=message):
        list(getattr(engine.for_task("t"), method)(*arguments))
    assert model.asked == []


def test_nothing_is_asked_for_no_inputs():
    with Engine(EchoModel()) as engine:
        assert list(engine.generate_text_as_completed([])) == []
        assert list(engine.cond_log_prob_as_completed([], [])) == []
    assert list(EchoModel().generate_text_as_completed([])) == []


def test_a_model_by_itself_gives_all_in_one_part():
    ((first, second),) = TextOnlyModel().generate_text_as_completed(["a", "b"])
    assert (first, second) == ((0, "a"), (1, "b"))
    assert isinstance(second[1], Completion)
    ((scored,),) = EchoModel().cond_log_prob_as_completed(["q"], [["a", "bc"]], True)
    assert scored == (0, [-2.0, -3.0])
    assert isinstance(scored[1], LogProbs)


def test_a_model_by_itself_that_miscounts_is_refused():
    model = ScriptedModel(lambda prompts: ["x"])
    with pytest.raises(AnswerCountError, match="gave 1 answers to 2 requests"):
        list(model.generate_text_as_completed(["a", "b"]))
    with pytest.raises(AnswerCountError, match="gave 1 answers to 2 requests"):
        list(model.cond_log_prob_as_completed(["a", "b"], [["c"], ["d"]]))


def test_what_the_model_cannot_do_is_raised():
    with Engine(TextOnlyModel()) as engine, pytest.raises(UnsupportedByModel, match="text-only"):
        list(engine.for_task("t").cond_log_prob_as_completed(["a"], [["b"]]))


def test_what_came_before_a_failure_is_given_before_it_is_raised():
    def script(prompts):
        if prompts == ["c"]:
            raise FatalModelError("the key is wrong")
        return list(prompts)

    given = []
    with (
        Engine(ScriptedModel(script), EngineSettings(batch_size=1)) as engine,
        pytest.raises(FatalModelError, match="the key is wrong"),
    ):
        for part in engine.for_task("t").generate_text_as_completed(["aaa", "bb", "c"]):
            given += part
    assert given == [(0, "aaa"), (1, "bb")]


def test_closing_early_asks_no_more_and_leaves_others_alone():
    gate = Gate()
    model = ScriptedModel(gate)
    with Engine(model, EngineSettings(batch_size=1)) as engine, ThreadPoolExecutor(1) as pool:
        parts = engine.for_task("t").generate_text_as_completed(["long", "slow", "x", "y"])
        assert next(parts) == [(0, "long")]
        other = pool.submit(engine.for_task("other").generate_text, ["y"])
        while not engine.counts("other").requests:
            time.sleep(0.001)
        parts.close()
        gate.opened.set()
        assert other.result(10) == ["y"]
        assert engine.for_task("again").generate_text(["x"]) == ["x"]
    assert model.asked == ["long", "slow", "y", "x"]


def test_ctrl_c_gives_what_was_in_flight_and_is_raised_then():
    class Interrupting(Notices):
        def tick(self):
            if model.asked == ["aaa_x", "slow"]:
                gate.opened.set()
                raise KeyboardInterrupt

    gate = Gate()
    model = ScriptedModel(gate)
    given = []
    with (
        Engine(model, EngineSettings(batch_size=1), progress=Interrupting()) as engine,
        pytest.raises(KeyboardInterrupt),
    ):
        for part in engine.for_task("t").generate_text_as_completed(["aaa_x", "slow", "c"]):
            given += part
    assert given == [(0, "aaa_x"), (1, "slow")]
    assert model.asked == ["aaa_x", "slow"]


def test_a_run_that_is_stopped_ends_the_parts():
    gate = Gate()
    with Engine(ScriptedModel(gate), EngineSettings(batch_size=1)) as engine:
        parts = engine.for_task("t").generate_text_as_completed(["first", "slow"])
        assert next(parts) == [(0, "first")]
        engine.stop("Enough.")
        with pytest.raises(RunStopped, match="Enough"):
            next(parts)
        gate.opened.set()
