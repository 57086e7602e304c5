# SPDX-License-Identifier: Apache-2.0
import enum
import os
import random
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from engine_models import CountingModel, EchoModel, Notices, ScriptedModel

from lmeval.api.errors import UsageError
from lmeval.api.model import Completion, LogProbs, Prompt
from lmeval.engine.cache import STORE_NAME
from lmeval.engine.engine import Engine
from lmeval.engine.keys import KeyMaker, occurrence_key
from lmeval.engine.kinds import ScoreRequest, TextRequest, WholeTextRequest
from lmeval.engine.settings import EngineSettings


def ask(model, prompts, folder, task="t", notices=None, **arguments):
    settings = EngineSettings(cache_dir=folder, batch_size=8)
    with Engine(model, settings, progress=notices or Notices()) as engine:
        return engine.for_task(task).generate_text(prompts, **arguments)


def test_a_second_run_asks_nothing_and_gets_the_same(tmp_path):
    prompts = [f"question {number}" for number in range(541)]
    first = ask(EchoModel(), prompts, tmp_path)
    model = EchoModel()
    second = ask(model, prompts, tmp_path)
    assert second == first
    assert model.asked == []
    assert all(answer.cached for answer in second) and not any(answer.cached for answer in first)


def test_the_task_is_no_part_of_the_key(tmp_path):
    ask(EchoModel(), [Prompt("q", task="one", id="1")], tmp_path, task="one")
    model = EchoModel()
    ask(model, [Prompt("q", task="two", id="9")], tmp_path, task="two")
    assert model.asked == []


@pytest.mark.parametrize("other", ["echo-2", "echo-1 temperature=0.7", ""])
def test_a_model_with_another_fingerprint_is_asked_itself(tmp_path, other):
    ask(EchoModel(), ["q"], tmp_path)
    model = EchoModel(fingerprint=other)
    ask(model, ["q"], tmp_path)
    assert model.asked == ["q"]


def test_a_model_without_fingerprint_is_not_stored_and_says_so(tmp_path):
    notices = Notices()
    for _ in range(2):
        model = EchoModel(name="shy", fingerprint=None)
        ask(model, ["q"], tmp_path, notices=notices)
        assert model.asked == ["q"]
    assert "The model shy does not state what its answers depend on" in notices.messages[0]
    assert not (tmp_path / STORE_NAME).exists()


def test_samples_of_one_prompt_are_stored_and_replayed_one_by_one(tmp_path):
    model = CountingModel()
    first = ask(model, ["q"] * 4, tmp_path)
    assert len(set(first)) == 4
    assert ask(model, ["q"] * 4, tmp_path) == first
    assert ask(model, ["q"] * 6, tmp_path)[:4] == first
    assert len(model.asked) == 6


def test_repeated_calls_in_one_task_are_samples_of_their_own(tmp_path):
    model = CountingModel()

    def run():
        with Engine(model, EngineSettings(cache_dir=tmp_path)) as engine:
            view = engine.for_task("t")
            return [view.generate_text("q") for _ in range(3)]

    first = run()
    assert len(set(first)) == 3
    assert run() == first


def test_samples_are_replayed_to_a_second_call_of_the_engine_itself(tmp_path):
    model = CountingModel()
    with Engine(model, EngineSettings(cache_dir=tmp_path)) as engine:
        first = engine.generate_text(["q"] * 4)
        assert engine.generate_text(["q"] * 4) == first
    assert len(model.asked) == 4


def test_a_limited_run_saves_the_full_run_its_part(tmp_path):
    prompts = [f"question {number}" for number in range(50)]
    model = EchoModel()
    ask(model, prompts[:10], tmp_path)
    answers = ask(model, prompts, tmp_path)
    assert len(model.asked) == 50
    assert answers == [f"[{prompt}]" for prompt in prompts]


def test_settings_are_part_of_the_key_and_the_order_of_stop_strings_is_not(tmp_path):
    model = EchoModel()
    for arguments in ({}, {"max_length": 5}, {"stop_string": "x"}, {"stop_string": ["x", "y"]}):
        ask(model, ["q"], tmp_path, **arguments)
    assert len(model.asked) == 4
    ask(model, ["q"], tmp_path, stop_string=["y", "x"])
    ask(model, ["q"], tmp_path, output_regex="q")
    assert len(model.asked) == 4


def test_no_two_requests_share_a_key():
    text, scores = TextRequest(None, ()), ScoreRequest(True)
    makers = {
        "text": KeyMaker("m", text),
        "short": KeyMaker("m", TextRequest(3, ())),
        "stop": KeyMaker("m", TextRequest(None, ("3",))),
        "scores": KeyMaker("m", scores),
        "normalized": KeyMaker("m", ScoreRequest(False)),
        "whole": KeyMaker("m", WholeTextRequest()),
        "other": KeyMaker("m2", text),
    }
    keys = [maker.key(["a"]) for maker in makers.values()]
    for payload in ("a", "ab", "a1:b", "", "\ud83d\ude00", "\U0001f600", Prompt("a", [("b", "")])):
        keys.append(makers["text"].key([*text.texts(payload), ""]))
    for payload in (
        ("a", ["b", "c"]),
        ("a", ["bc"]),
        ("a", ["b"]),
        (Prompt("a", [("b", "c")]), []),
    ):
        keys.append(makers["scores"].key(scores.texts(payload)))
    keys += [occurrence_key(keys[0], number) for number in (1, 2, 11)]
    assert len(set(keys)) == len(keys)


TEXTS = [
    "",
    "plain",
    "Grüße, 你好, नमस्ते 😀",
    "a\0b\r\n\u2028c",
    "lone \ud800 and \udfff",
    "two lone ones \ud83d\ude00 in a row",
    "x" * 1_000_000,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_any_text_survives_the_store(tmp_path, text):
    model = ScriptedModel(lambda prompts: [text for _ in prompts])
    first = ask(model, [text], tmp_path)[0]
    second = ask(model, [text], tmp_path)[0]
    assert first == second == text
    assert second.raw == text and second.cached
    assert len(model.batches) == 1


def test_everything_that_is_known_of_an_answer_survives_the_store(tmp_path):
    given = Completion(
        "4",
        raw="It is 4\nso",
        latency_ms=12.5,
        finish_reason="stop",
        prompt_tokens=0,
        completion_tokens=7,
        reasoning="2+2 \ud800",
    )
    model = ScriptedModel(lambda prompts: [given for _ in prompts])
    ask(model, ["q"], tmp_path)
    stored = ask(model, ["q"], tmp_path)[0]
    assert (str(stored), stored.facts()) == ("4", {**given.facts(), "cached": True})


def test_numbers_and_reasons_of_other_types_are_stored_as_plain_ones(tmp_path):
    class Reason(enum.Enum):
        STOP = "stop"

    given = Completion(
        "4",
        latency_ms=np.float32(1.5),
        finish_reason=Reason.STOP,
        prompt_tokens=np.int64(3),
    )
    model = ScriptedModel(lambda prompts: [given for _ in prompts])
    ask(model, ["q"], tmp_path)
    stored = ask(model, ["q"], tmp_path)[0]
    assert (stored.latency_ms, stored.finish_reason, stored.prompt_tokens) == (
        1.5,
        "Reason.STOP",
        3,
    )


def test_log_probs_survive_the_store_to_the_last_bit(tmp_path):
    values = [-0.1, -1e-300, -float("inf"), -1 / 3]
    given = LogProbs(values, truncated_tokens=3, token_counts=[1, 2, 3, 4], latency_ms=5.0)
    model = ScriptedModel(lambda contexts: [given for _ in contexts])
    for cached in (False, True):
        with Engine(model, EngineSettings(cache_dir=tmp_path)) as engine:
            row = engine.cond_log_prob("q", list("abcd"), True)
            assert list(row) == values
            assert row.facts() == {**given.facts(), "cached": cached}
    assert len(model.batches) == 1


def test_answers_are_kept_as_they_arrive(tmp_path):
    class Crash(BaseException):
        pass

    calls = []

    def script(prompts):
        calls.append(prompts)
        if len(calls) == 8:
            raise Crash
        return [f"[{prompt}]" for prompt in prompts]

    prompts = [str(number) for number in range(10)]
    settings = EngineSettings(cache_dir=tmp_path, batch_size=1)
    with Engine(ScriptedModel(script), settings) as engine, pytest.raises(Crash):
        engine.generate_text(prompts)
    model = EchoModel()
    assert ask(model, prompts, tmp_path) == [f"[{prompt}]" for prompt in prompts]
    assert len(model.asked) == 3


def _overwritten(data, rng):
    data = bytearray(data)
    for _ in range(100):
        data[rng.randrange(4096, len(data))] = rng.randrange(256)
    return bytes(data)


DAMAGE = {
    "no database": lambda data, rng: b"something else entirely" * 500,
    "cut in half": lambda data, rng: data[: len(data) // 2],
    "no header": lambda data, rng: bytes(100) + data[100:],
    "a page of zeros": lambda data, rng: data[:8192] + bytes(4096) + data[12288:],
    "one letter": lambda data, rng: data.replace(b"[question 7]", b"[question 8]"),
    "no UTF-8": lambda data, rng: data.replace(b"[question 7]", b"[question \xff]"),
    "bytes here and there": _overwritten,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_store_is_set_aside_and_the_run_goes_on(tmp_path, damage):
    prompts = [f"question {number}" for number in range(400)]
    expected = ask(EchoModel(), prompts, tmp_path)
    path = tmp_path / STORE_NAME
    path.write_bytes(damage(path.read_bytes(), random.Random(0)))
    notices = Notices()
    assert ask(EchoModel(), prompts, tmp_path, notices=notices) == expected
    assert len(notices.messages) == 1 and "is damaged" in notices.messages[0]
    assert any("damaged" in name for name in os.listdir(tmp_path))
    model = EchoModel()
    ask(model, prompts, tmp_path)
    assert len(model.asked) < 400


def test_damage_that_appears_during_a_run_loses_no_row(tmp_path):
    notices = Notices()
    settings = EngineSettings(cache_dir=tmp_path)
    with Engine(EchoModel(), settings, progress=notices) as engine:
        engine.generate_text([f"question {number}" for number in range(400)])
        with sqlite3.connect(tmp_path / STORE_NAME) as other:
            other.execute("UPDATE answers SET text = 'wrong'")
        other.close()
        answers = engine.for_task("again").generate_text(["question 7", "new"])
    assert answers == ["[question 7]", "[new]"]
    assert "does not match its checksum" in notices.messages[0]


def test_a_full_disk_ends_the_storing_and_not_the_run(tmp_path):
    notices = Notices()
    prompts = [f"question {number} " + "x" * 500 for number in range(400)]
    with Engine(EchoModel(), EngineSettings(cache_dir=tmp_path), progress=notices) as engine:
        engine._store._connection.execute("PRAGMA max_page_count = 20")
        assert engine.generate_text(prompts) == [f"[{prompt}]" for prompt in prompts]
    (message,) = notices.messages
    assert "full" in message and "further answers are not kept" in message
    model = EchoModel()
    ask(model, prompts, tmp_path)
    assert 0 < len(model.asked) < 400


def test_a_store_that_cannot_be_opened_is_refused_at_once(tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("in the way")
    with pytest.raises(UsageError, match=r"cannot be opened .* --cache_dir, or run with --nocache"):
        Engine(EchoModel(), EngineSettings(cache_dir=blocked))


PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from engine_models import EchoModel
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings

model = EchoModel(max_concurrency=4)
settings = EngineSettings(cache_dir=sys.argv[2], batch_size=3, concurrency=4)
with Engine(model, settings) as engine:
    start = int(sys.argv[3])
    answers = engine.generate_text([f"question {n}" for n in range(start, start + 300)])
    assert answers == [f"[question {n}]" for n in range(start, start + 300)]
"""


def test_several_processes_share_a_store(tmp_path):
    tests = os.path.dirname(__file__)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, tests, str(tmp_path), str(start)],
            stderr=subprocess.PIPE,
        )
        for start in (0, 100, 200)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0 and errors == b"", errors.decode()
    model = EchoModel()
    ask(model, [f"question {number}" for number in range(500)], tmp_path)
    assert model.asked == []
