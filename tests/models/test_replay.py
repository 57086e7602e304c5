# SPDX-License-Identifier: Apache-2.0
"""ReplayModel: which recorded answer a prompt gets, and the faults of recorded files."""

import gzip
import json

import pytest

from lmeval.api.errors import TaskFileError, UnsupportedByModel
from lmeval.api.json_task import JsonTask
from lmeval.api.loading import load_jsonl_task, read_rows
from lmeval.api.model import Prompt
from lmeval.api.options import TaskOptions
from lmeval.engine.engine import Engine
from lmeval.engine.settings import EngineSettings
from lmeval.models.replay import ReplayModel
from lmeval.testing import ModelTestMixin


def recorded(folder, rows, name="answers.jsonl", before=b""):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path = folder / name
    data = before + text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def replay(folder, rows, **settings):
    return ReplayModel(path=recorded(folder, rows), **settings)


def row(example_id, prediction, task="t", **more):
    return {"task": task, "id": example_id, "prediction": prediction, **more}


def prompt(example_id, task="t", text="same text"):
    return Prompt(text, task=task, id=example_id)


class TestReplayModel(ModelTestMixin):
    prompts = ("one", "zwei 日本 🙂", "")

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def make_model(self):
        rows = [{"prompt": text, "prediction": f"answer to {text}"} for text in self.prompts]
        return replay(self.folder, rows)


def test_task_and_id_find_the_answer_whatever_the_prompt(tmp_path):
    model = replay(tmp_path, [row("1", "a"), row("2", "b"), row("1", "c", task="u")])
    asked = [prompt("2"), prompt("1", task="u"), prompt("1", text="other")]
    assert model.generate_text(asked) == ["b", "c", "a"]


def test_the_prompt_finds_the_answer_of_requests_without_an_id(tmp_path):
    model = replay(tmp_path, [{"prompt": "2 + 2", "prediction": "4"}])
    assert model.generate_text("2 + 2") == "4"
    assert model.generate_text(prompt("7", text="2 + 2")) == "4"


def test_task_and_id_go_before_the_prompt(tmp_path):
    model = replay(
        tmp_path, [{"prompt": "same text", "prediction": "by prompt"}, row("1", "by id")]
    )
    assert model.generate_text([prompt("1"), prompt("2")]) == ["by id", "by prompt"]


def test_one_line_answers_every_occurrence(tmp_path):
    model = replay(tmp_path, [row("1", "a")])
    assert model.generate_text([prompt("1")] * 3) == ["a", "a", "a"]


@pytest.mark.parametrize("predictions", [["a", "b", "c"], ["a", "a", "b"], ["", "", "x"]])
def test_the_nth_line_answers_the_nth_occurrence_in_every_call(tmp_path, predictions):
    model = replay(
        tmp_path, [row("1", text) for text in predictions] + [row("2", "other")], samples=True
    )
    asked = [prompt("1"), prompt("2"), prompt("1"), prompt("1")]
    expected = [predictions[0], "other", *predictions[1:]]
    assert model.generate_text(asked) == expected
    assert model.generate_text(asked) == expected


def test_an_occurrence_noted_by_the_engine_goes_before_counting(tmp_path):
    model = replay(tmp_path, [row("1", "a"), row("1", "b"), row("1", "c")], samples=True)
    third = Prompt.numbered(prompt("1"), 2)
    assert model.generate_text([third, prompt("1")]) == ["c", "a"]


@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_samples_keep_their_order_through_the_engine(tmp_path, batch_size):
    rows = [row(str(n), f"{n}{letter}") for n in range(3) for letter in "abc"]
    asked = [prompt(str(n)) for n in range(3) for _ in "abc"]
    settings = EngineSettings(batch_size=batch_size)
    with Engine(replay(tmp_path, rows, samples=True), settings) as engine:
        assert engine.generate_text(asked) == [each["prediction"] for each in rows]


@pytest.mark.parametrize("second", ["a", "b"])
def test_two_answers_to_one_question_are_refused_unless_they_are_samples(tmp_path, second):
    with pytest.raises(TaskFileError, match="line 2: a second answer to t '1'; pass samples=true"):
        replay(tmp_path, [row("1", "a"), row("1", second)])


def test_more_samples_than_lines_are_an_error(tmp_path):
    model = replay(tmp_path, [row("1", "a"), row("1", "b")], samples=True)
    with pytest.raises(
        UnsupportedByModel, match=r"has 2 recorded answers to task 't', id '1', but sample number 3"
    ):
        model.generate_text([prompt("1")] * 3)


def test_missing_answers_are_named_with_their_number(tmp_path):
    model = replay(tmp_path, [row("0", "a")])
    with pytest.raises(
        UnsupportedByModel, match=r"answer to 1 of 2 requests \(task 't', id '1'\); "
    ):
        model.generate_text([prompt("0"), prompt("1")])
    with pytest.raises(UnsupportedByModel, match=r"9 of 10 .*id '1', .*id '2', .*id '3', \.\.\.\)"):
        model.generate_text([prompt(str(n)) for n in range(10)])
    with pytest.raises(UnsupportedByModel, match="prompt 'never seen'"):
        model.generate_text("never seen")


def test_a_missing_answer_ends_the_task_and_is_no_wrong_answer(tmp_path):
    with Engine(replay(tmp_path, [row("0", "a")])) as engine:
        with pytest.raises(UnsupportedByModel, match="id '1'"):
            engine.generate_text([prompt("0"), prompt("1")])
        assert engine.generate_text([prompt("0")]) == ["a"]


def test_ids_may_be_whole_numbers_as_in_task_files(tmp_path):
    assert replay(tmp_path, [row(7, "a")]).generate_text(prompt("7")) == "a"


def test_further_keys_are_of_no_effect(tmp_path):
    answer = replay(tmp_path, [row("1", "a", is_correct=True, score=0.5)]).generate_text(
        prompt("1")
    )
    assert answer == answer.raw == "a"


def test_predictions_are_post_processed(tmp_path):
    answer = replay(tmp_path, [row("1", "so A: 12\nrest")]).generate_text(
        prompt("1"), output_regex=r"A: (\d+)"
    )
    assert (answer, answer.raw) == ("12", "so A: 12\nrest")


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("a.jsonl", b"\xef\xbb\xbf"),
        ("a.jsonl", b"# recorded on a Monday\n\n"),
        ("a.jsonl.gz", b""),
    ],
)
def test_reads_what_task_files_may_be(tmp_path, name, before):
    path = recorded(tmp_path, [row("1", "é\u2028\U0001f642")], name, before)
    model = ReplayModel(path=path)
    assert model.generate_text(prompt("1")) == "é\u2028\U0001f642"
    assert model.name == "a"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"task": "t", "id": "1"}', "'prediction' must be a string, found nothing"),
        (b'{"task": "t", "id": "1", "prediction": null}', "found None"),
        (b'{"task": "t", "id": "1", "prediction": ["a"]}', "'prediction' must be a string"),
        (b'{"task": "t", "id": true, "prediction": "a"}', "'id' must be a string"),
        (b'{"task": 5, "id": "1", "prediction": "a"}', "'task' must be a string"),
        (b'{"prompt": 5, "prediction": "a"}', "'prompt' must be a string"),
        (b'{"id": "1", "prediction": "a"}', '"task" and "id", or "prompt"'),
        (b'{"task": "t", "prediction": "a"}', "found the keys 'task', 'prediction'"),
        (b"{}", "found the keys none"),
        (b"[1]", "one JSON object per line expected"),
        (b'{"prompt": "a", "prediction": "x", "prediction": "y"}', "stands twice"),
        (b'{"prompt": "a", "prediction": "x", "score": NaN}', "NaN"),
        (b'{"prompt": "a", "prediction": "\xff"}', "not UTF-8"),
        (b'{"prompt": "a", ', "expected"),
    ],
)
def test_faults_name_file_and_line(tmp_path, line, reason):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b'# comment\n{"prompt": "p", "prediction": "a"}\n\n' + line + b"\n")
    with pytest.raises(TaskFileError, match=r"answers\.jsonl, line 4.*: ") as caught:
        ReplayModel(path=path)
    assert reason in str(caught.value)


def test_a_missing_file_is_a_clear_error(tmp_path):
    with pytest.raises(TaskFileError, match="cannot be read"):
        ReplayModel(path=tmp_path / "none.jsonl")


def test_a_file_without_answers_is_a_clear_error(tmp_path):
    with pytest.raises(TaskFileError, match="holds no recorded answer"):
        ReplayModel(path=recorded(tmp_path, [], before=b"# nothing yet\n"))


def test_model_data_says_which_file_it_was(tmp_path):
    model = replay(tmp_path, [row("1", "a")], name="my-model")
    data = model.model_data()
    # sha256sum of the line {"task": "t", "id": "1", "prediction": "a"}
    assert data.model_name == "my-model"
    assert data.decoding_params == {
        "file": "answers.jsonl",
        "sha256": "fcbe087cbe1642effa55a5c9a9364a284aa626496092d4719ff65dcc4882f197",
    }
    assert model.fingerprint() is None


def test_a_lone_surrogate_in_a_prompt_is_just_not_found(tmp_path):
    with pytest.raises(UnsupportedByModel, match="no recorded answer"):
        replay(tmp_path, [row("1", "a")]).generate_text("\ud800")


def _accuracy(folder, name, answers, **options):
    task = load_jsonl_task(folder / name, name, TaskOptions(**options))
    return task.evaluate_model(ReplayModel(path=answers)).score


@pytest.mark.parametrize("kind", ["direct", "cot"])
def test_recorded_answers_to_big_bench_hard_give_the_published_accuracies(shared, kind):
    expected = json.loads((shared / "data/bbh_predictions/expected.json").read_text())
    model = ReplayModel(path=shared / f"data/bbh_predictions/code-davinci-002-{kind}.jsonl")
    options = TaskOptions(
        output_regex=r"(?s).*the answer is (.*?)\.?\s*$" if kind == "cot" else None
    )
    for name, numbers in expected.items():
        task = load_jsonl_task(shared / "data/bbh" / name, name, options)
        assert task.evaluate_model(model).score == pytest.approx(numbers[kind], abs=1e-6), name


@pytest.mark.parametrize("kind", ["6b_finetuning", "6b_verification"])
def test_recorded_answers_to_gsm8k_give_the_published_numbers(shared, kind):
    folder = shared / "data/gsm8k_predictions"
    expected = json.loads((folder / "expected.json").read_text())[kind]["correct"]
    score = JsonTask(
        "gsm8k",
        read_rows(shared / "data/gsm8k/task.jsonl"),
        options=TaskOptions(output_regex=r"A: ([-0-9.,]+)"),
    ).evaluate_model(ReplayModel(path=folder / f"{kind}.jsonl"))
    right = sum(
        example.prediction.replace(",", "") in example.targets for example in score.per_example
    )
    assert right == expected


def test_nobody_is_told_that_recorded_answers_are_not_stored(tmp_path, caplog):
    settings = EngineSettings(cache_dir=tmp_path / "store")
    with Engine(replay(tmp_path, [row("1", "a")]), settings) as engine:
        assert engine.generate_text(prompt("1")) == "a"
    assert caplog.messages == []
