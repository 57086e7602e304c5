# SPDX-License-Identifier: Apache-2.0
import json

import pytest

from lmeval.api.errors import ResultsError
from lmeval.api.model import ModelData
from lmeval.api.results import Leaderboard, task_results
from lmeval.api.task import ScoreData
from lmeval.bigbench.aggregates import add_aggregate_scores
from lmeval.bigbench.export import file_name, result_files, write_result_file

MODEL = ModelData("GPT 2", "small/v1", 124, 85, 85, 1, 2, "a model", {"temperature": 0})


def board(task, scores):
    return Leaderboard(
        adapter="small", model=MODEL, fingerprint=None, tasks=tuple(task_results(task, scores, ""))
    )


def score(description, value, shots, **others):
    return ScoreData({"m": value, **others}, "m", shots, 0.0, 1.0, description)


def test_the_layout_is_bigbenchs():
    scores = add_aggregate_scores("t", [score("t", 0.5, 0)])
    ((path, content),) = result_files(board("t", scores))
    assert str(path) == "t/results/scores_GPT_2_small_v1.json"
    assert content == {
        "scores": [
            {
                "score_dict": {"m": 0.5, "normalized_aggregate_score": 50.0},
                "preferred_score": "m",
                "number_of_shots": 0,
                "low_score": 0.0,
                "high_score": 1.0,
                "subtask_description": "t",
            }
        ],
        "task": {"task_name": "t"},
        "model": {
            "model_family": "GPT 2",
            "model_name": "small/v1",
            "total_params": 124,
            "non_embedding_params": 85,
            "flop_matched_non_embedding_params": 85,
            "training_batch_size": 1,
            "training_steps": 2,
            "description": "a model",
            "decoding_params": {"temperature": 0},
            "additional_details": "",
        },
        "queries": [],
    }


def test_a_container_has_its_subtasks_first_and_its_aggregates_last():
    parts = [score(name, 0.5, shots) for name in ("t:b", "t:a") for shots in (0, 2)]
    ((_, content),) = result_files(board("t", add_aggregate_scores("t", parts)))
    assert [(s["subtask_description"], s["number_of_shots"]) for s in content["scores"]] == [
        ("t:b", 0),
        ("t:b", 2),
        ("t:a", 0),
        ("t:a", 2),
        ("t", 0),
        ("t", 2),
    ]


def test_a_task_without_an_aggregate_gets_one():
    ((_, content),) = result_files(board("t", [score("one", 0.2, 0), score("two", 0.4, 0)]))
    assert content["scores"][-1]["subtask_description"] == "t"
    assert content["scores"][-1]["score_dict"]["normalized_aggregate_score"] == pytest.approx(30)


def test_scores_that_are_no_finite_numbers_are_left_out():
    scores = [score("t", 0.5, 0, table={"a": 1}, undefined=float("nan"))]
    ((_, content),) = result_files(board("t", scores))
    assert set(content["scores"][0]["score_dict"]) == {"m", "normalized_aggregate_score"}


@pytest.mark.parametrize(
    ("family", "name", "expected"),
    [
        ("GPT", "gpt2", "scores_GPT_gpt2.json"),
        ("a b", "../c:d", "scores_a_b__c_d.json"),
        ("x", "lr=1-e", "scores_x_lr=1-e.json"),
        ("größe", "模型", "scores_größe_模型.json"),
    ],
)
def test_file_names_are_bigbenchs(family, name, expected):
    assert file_name(ModelData(family, name)) == expected


def test_an_older_file_is_kept_under_another_name(tmp_path):
    path = tmp_path / "t" / "results" / "scores.json"
    assert write_result_file(path, {"n": 1}) is None
    assert write_result_file(path, {"n": 2}).name == "scores.json.backup_000001"
    assert write_result_file(path, {"n": 3}).name == "scores.json.backup_000002"
    kept = {file.name: json.loads(file.read_text())["n"] for file in path.parent.iterdir()}
    assert kept == {
        "scores.json": 3,
        "scores.json.backup_000001": 1,
        "scores.json.backup_000002": 2,
    }


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "t").write_text("a file")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_result_file(tmp_path / "t" / "scores.json", {})
