# SPDX-License-Identifier: Apache-2.0
import pytest
from engine_models import CountingModel, EchoModel, Notices, ScriptedModel, TextOnlyModel

from lmeval.api.errors import InvalidValueError, UnsupportedByModel
from lmeval.api.model import Completion, Prompt
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings


def test_answers_come_back_in_the_callers_order():
    with Engine(EchoModel(), EngineSettings(batch_size=2)) as engine:
        assert engine.generate_text(["a", "ccc", "bb"]) == ["[a]", "[ccc]", "[bb]"]


def test_the_longest_requests_are_asked_first():
    model = EchoModel()
    with Engine(model, EngineSettings(batch_size=2)) as engine:
        engine.generate_text(["a", "ccc", "bb", "dddd"])
    assert model.batches == [["dddd", "ccc"], ["bb", "a"]]


def test_one_string_gives_one_string_and_an_empty_list_an_empty_list():
    with Engine(EchoModel()) as engine:
        assert engine.generate_text("a") == "[a]"
        assert engine.generate_text([]) == []
        assert engine.cond_log_prob("a", ["x", "yy"], True) == [-2.0, -3.0]
        assert engine.cond_log_prob([], []) == []


def test_log_probs_are_those_of_the_model_normalized_or_not():
    model = EchoModel()
    with Engine(model) as engine:
        for absolute in (True, False):
            asked = (["a", "b"], [["x", "yy"], ["zzz"]], absolute)
            assert engine.cond_log_prob(*asked) == EchoModel().cond_log_prob(*asked)


def test_whole_texts():
    with Engine(EchoModel()) as engine:
        assert engine.rolling_log_prob(["abc", "", "ab"]) == [-3.0, -0.0, -2.0]


def test_batch_chars_counts_a_batch_as_padded_to_its_longest_request():
    model = EchoModel()
    with Engine(model, EngineSettings(batch_chars=6)) as engine:
        engine.generate_text(["x" * 10, "bb", "ccc", "dd", "a"])
    assert [[len(prompt) for prompt in batch] for batch in model.batches] == [[10], [3, 2], [2, 1]]


def test_length_and_stop_strings_reach_the_model_but_the_regex_does_not():
    seen = []

    class Model(EchoModel):
        def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
            seen.append((max_length, stop_string, output_regex))
            return [Completion("12 apples.", raw="12 apples.\nmore") for _ in inputs]

    with Engine(Model()) as engine:
        answer = engine.generate_text("q", 100, "\n", r"(\d+)")
        engine.generate_text("q", None, [".", "!"])
    assert seen == [(100, "\n", None), (None, (".", "!"), None)]
    assert (answer, answer.raw) == ("12", "12 apples.\nmore")


def test_another_regex_needs_no_new_call(tmp_path):
    model = EchoModel()
    with Engine(model, EngineSettings(cache_dir=tmp_path)) as engine:
        assert engine.generate_text("7 of 9", output_regex=r"\d") == "7"
        assert engine.generate_text("7 of 9", output_regex=r"\d\]") == "9]"
    assert model.asked == ["7 of 9"]


def test_a_prompt_reaches_the_model_with_all_that_it_carries():
    model = EchoModel()
    prompt = Prompt("text", messages=[("user", "text")], task="t", id="7")
    with Engine(model) as engine:
        engine.generate_text([prompt])
    assert model.asked[0] is prompt


def test_a_deterministic_model_is_asked_once_for_equal_requests():
    model = EchoModel()
    with Engine(model) as engine:
        assert engine.for_task("t").generate_text(["a", "b", "a"]) == ["[a]", "[b]", "[a]"]
        counts = engine.counts("t")
    assert sorted(model.asked) == ["a", "b"]
    assert (counts.requests, counts.answered, counts.shared) == (3, 3, 1)


def test_chat_messages_set_requests_apart():
    model = EchoModel()
    prompts = [Prompt("a", messages=[("user", text)]) for text in ("a", "b")]
    with Engine(model) as engine:
        engine.generate_text(["a", *prompts])
    assert len(model.asked) == 3


def test_a_model_that_is_not_deterministic_is_asked_for_every_sample():
    with Engine(CountingModel()) as engine:
        assert engine.generate_text(["a", "a", "a"]) == ["a answer 1", "a answer 2", "a answer 3"]


@pytest.mark.parametrize("fingerprint", ["known", None])
def test_each_repetition_reaches_the_model_with_its_number(tmp_path, fingerprint):
    model = CountingModel(fingerprint=fingerprint)
    prompt = Prompt("a", task="t", id="1")
    with Engine(model, EngineSettings(cache_dir=tmp_path, batch_size=1)) as engine:
        engine.generate_text([prompt, prompt, Prompt("b"), prompt])
    numbers = [(str(asked), asked.sample, asked.id) for asked in model.asked]
    assert numbers == [("a", None, "1"), ("a", 1, "1"), ("b", None, ""), ("a", 2, "1")]


def test_what_the_model_cannot_do_is_raised_at_once():
    with Engine(TextOnlyModel()) as engine:
        with pytest.raises(UnsupportedByModel, match="text-only cannot score given text"):
            engine.cond_log_prob(["a"] * 50, [["b"]] * 50)
        with pytest.raises(UnsupportedByModel, match="cannot score whole texts"):
            engine.rolling_log_prob(["a"])
        assert engine.counts().answered == 0
        assert engine.generate_text(["still", "works"]) == ["still", "works"]


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_refused_request_can_be_asked_again(tmp_path, deterministic):
    refusing = [True]

    def script(prompts):
        if refusing[0]:
            raise UnsupportedByModel("not today")
        return [f"[{prompt}]" for prompt in prompts]

    model = ScriptedModel(script, deterministic=deterministic)
    prompts = [str(number) for number in range(50)]
    with Engine(model, EngineSettings(batch_size=8, cache_dir=tmp_path)) as engine:
        with pytest.raises(UnsupportedByModel):
            engine.generate_text(prompts)
        refusing[0] = False
        assert engine.generate_text(prompts) == [f"[{prompt}]" for prompt in prompts]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("generate_text", (["a", 7],)),
        ("generate_text", ("a", None, "")),
        ("generate_text", ("a", None, None, "(")),
        ("cond_log_prob", (["a"], ["b"])),
        ("cond_log_prob", (["a", "b"], [["b"]])),
        ("cond_log_prob", ([None], [["b"]])),
        ("rolling_log_prob", ([b"a"],)),
    ],
)
def test_wrong_arguments_are_refused_before_the_model_is_asked(method, arguments):
    model = EchoModel()
    with Engine(model) as engine, pytest.raises(InvalidValueError):
        getattr(engine, method)(*arguments)
    assert model.batches == []


def test_the_engine_shows_itself_as_the_model_that_it_asks():
    model = EchoModel(name="echo-7")
    with Engine(model) as engine:
        for shown in (engine, engine.for_task("t")):
            assert shown.name == "echo-7"
            assert shown.model_data() == model.model_data()
            assert shown.fingerprint() == "echo-1"
            assert shown.deterministic is True
            assert shown.usage() == {}


def test_counts_are_kept_apart_by_task():
    with Engine(EchoModel()) as engine:
        engine.for_task("first").generate_text(["a", "b"])
        engine.for_task("second").cond_log_prob("a", ["b"])
        engine.for_task("first").generate_text("c")
        assert engine.counts("first").requests == engine.counts("first").answered == 3
        assert engine.counts("second").requests == 1
        assert engine.counts("third").requests == 0
        assert engine.counts("first").latency_ms > 0


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        (None, "error: the model gave a NoneType instead of a list of answers"),
        ("text", "error: the model gave a str instead of a list of answers"),
        ([], "error: the model gave 0 answers to 1 requests"),
        (["a", "b"], "error: the model gave 2 answers to 1 requests"),
        ([None], "error: the model gave None, a NoneType, instead of a string"),
        ([7], "error: the model gave 7, a int, instead of a string"),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_its_row(answers, error):
    with Engine(ScriptedModel(lambda prompts: answers)) as engine:
        completion = engine.generate_text("q")
        assert (completion, completion.error) == ("", error)
        assert engine.counts().errors == 1


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ([-1.0, -2.0, -3.0], "error: the model gave 3 log-probabilities for 4 targets"),
        (None, "error: the model gave None instead of log-probabilities"),
        ([0, 0, 0, "x"], "error: the model gave [0, 0, 0, 'x'] instead of log-probabilities"),
        ([-1.0, float("nan"), -1.0, -1.0], "which are no log-probabilities"),
    ],
)
def test_log_probs_that_are_none_are_an_error_of_their_row(row, error):
    good = [-1.0] * 4
    model = ScriptedModel(lambda contexts: [row if text == "bad" else good for text in contexts])
    with Engine(model) as engine:
        rows = engine.cond_log_prob(["one", "bad", "two"], [list("abcd")] * 3, True)
    assert [list(scored) for scored in rows] == [good, [-float("inf")] * 4, good]
    assert error in rows[1].error and rows[0].error is rows[2].error is None


def test_one_wrong_answer_leaves_the_rest_of_its_batch_alone():
    model = ScriptedModel(lambda prompts: [None if p == "bad" else p for p in prompts])
    with Engine(model) as engine:
        answers = engine.generate_text(["a", "bad", "c"])
    assert answers == ["a", "", "c"]
    assert [answer.error is None for answer in answers] == [True, False, True]
    assert len(model.batches) == 1


def test_settings_out_of_range_are_refused_by_name():
    for name in ("batch_size", "batch_chars", "concurrency", "timeout_s", "max_retries"):
        with pytest.raises(InvalidValueError, match=name):
            EngineSettings(**{name: -1})


class Sink:
    def __init__(self):
        self.told, self.done, self.notices = [], [], []

    def advanced(self, task, counts):
        self.told.append((task, counts))

    def finished(self, task):
        self.done.append(task)

    def tick(self):
        pass

    def notice(self, message):
        self.notices.append(message)


def test_progress_is_told_of_the_last_answer_and_of_finished_tasks():
    sink = Sink()
    with Engine(EchoModel(), EngineSettings(batch_size=7), progress=sink) as engine:
        engine.for_task("t").generate_text([str(number) for number in range(100)])
        engine.finished("t")
        assert sink.told[-1] == ("t", engine.counts("t"))
    assert sink.told[-1][1].answered == sink.told[-1][1].requests == 100
    assert sink.done == ["t"]


def test_more_concurrency_than_the_model_allows_is_said():
    sink = Sink()
    with Engine(EchoModel(max_concurrency=2), EngineSettings(concurrency=5), progress=sink):
        pass
    assert sink.notices == [
        "The model echo takes 2 calls at once; concurrency 5 is lowered to that."
    ]


def test_without_a_sink_notices_are_logged(caplog):
    with Engine(EchoModel(max_concurrency=2), EngineSettings(concurrency=5)):
        pass
    assert "concurrency 5 is lowered" in caplog.text


def test_a_task_shows_when_it_begins():
    told = []

    class Sink(Notices):
        def advanced(self, task, counts):
            told.append((task, counts.answered, counts.requests))

    with Engine(EchoModel(), progress=Sink()) as engine:
        engine.for_task("t").generate_text(["a", "b", "c"])
    assert (told[0], told[-1]) == (("t", 0, 3), ("t", 3, 3))
