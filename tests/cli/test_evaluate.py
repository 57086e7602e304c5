# SPDX-License-Identifier: Apache-2.0
"""`lmeval evaluate` end to end: tables, files, failures, published accuracies."""

import json

import pytest

from lmeval.api.leaderboard_file import without_times

FIXTURES = "arithmetic,summary,multiple-choice,generation"

ADAPTERS = """
class Silent:
    name = "silent"
    def generate(self, prompts):
        return [""] * len(prompts)

class TooFew:
    name = "too-few"
    def generate(self, prompts):
        return ["x"] * (len(prompts) - 1)

class Failing:
    name = "failing"
    def generate(self, prompts):
        raise RuntimeError("the service is gone")

class NoModel:
    name = "no-model"
"""


def write_rows(folder, name, rows, settings=None):
    task = folder / "tasks" / name
    task.mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (task / "task.jsonl").write_text(text, encoding="utf-8")
    if settings is not None:
        (task / "task.json").write_text(json.dumps(settings), encoding="utf-8")


def board(folder, name="leaderboard.json"):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_the_toy_model_solves_the_fixtures(lmeval):
    assert lmeval("evaluate", "--task", FIXTURES, "--model", "toy") == 0
    assert board(lmeval.folder)["overall_score"] == 1.0
    assert "overall score 1.0000" in lmeval.out
    assert "Written to leaderboard.json" in lmeval.out


def test_code_runs_only_when_allowed(lmeval):
    assert lmeval("evaluate", "--task", "code-exec", "--model", "toy") == 2
    assert "--allow_code_exec" in lmeval.err
    assert lmeval("evaluate", "--task", "code-exec", "--model", "toy", "--allow_code_exec") == 0
    written = board(lmeval.folder)
    assert written["overall_score"] == 1.0
    assert written["sandbox"]["isolation"] == "required"


def test_the_same_run_twice_is_byte_equal_apart_from_times(lmeval):
    for name in ("a.json", "b.json"):
        arguments = [
            "--task",
            FIXTURES,
            "--model",
            "toy",
            "--include_per_example",
            "--shots",
            "0,2",
        ]
        assert lmeval("evaluate", *arguments, "--output", name) == 0
    first, second = (
        json.dumps(without_times(board(lmeval.folder, name))) for name in ("a.json", "b.json")
    )
    assert first == second


def test_another_run_needs_overwrite_before_any_call(lmeval):
    (lmeval.folder / "own.py").write_text(ADAPTERS)
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "toy") == 0
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "own.py:Failing") == 2
    assert "differs in adapter" in lmeval.err
    assert lmeval("evaluate", "--task", "summary", "--model", "toy", "--overwrite") == 0
    assert board(lmeval.folder)["tasks"][0]["task"] == "summary"


def test_a_silent_adapter_scores_nothing(lmeval):
    (lmeval.folder / "own.py").write_text(ADAPTERS)
    assert lmeval("evaluate", "--task", FIXTURES, "--model", "own.py:Silent") == 0
    assert board(lmeval.folder)["overall_score"] == 0.0


def test_a_module_of_the_current_folder_is_a_model(lmeval):
    (lmeval.folder / "own_models.py").write_text(ADAPTERS)
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "own_models:Silent") == 0


def test_an_object_that_is_no_model_is_said(lmeval):
    (lmeval.folder / "own.py").write_text(ADAPTERS)
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "own.py:NoModel") == 2
    assert "neither a Model nor an object with generate(prompts)" in lmeval.err


@pytest.mark.parametrize(
    ("adapter", "reason"), [("TooFew", "27 answers"), ("Failing", "the service is gone")]
)
def test_failed_answers_are_counted_and_end_in_exit_code_1(lmeval, adapter, reason):
    (lmeval.folder / "own.py").write_text(ADAPTERS)
    arguments = ["--task", "arithmetic", "--model", f"own.py:{adapter}", "--max_retries", "0"]
    code = lmeval("evaluate", *arguments)
    (task,) = board(lmeval.folder)["tasks"]
    assert (task["score"], task["errors"], task["total"]) == (0.0, 28, 28)
    assert "28 answers failed" in lmeval.out
    assert code == 1
    assert lmeval("evaluate", *arguments, "--allow_failures", "28") == 0


BROKEN_TASK = """from lmeval import Task
class T(Task):
    def get_task_details(self): pass
    def evaluate_model(self, model): 1 / 0
"""


def test_one_broken_task_does_not_cost_the_others(lmeval):
    folder = lmeval.folder / "tasks" / "broken"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(BROKEN_TASK)
    arguments = ["--tasks_dir", "tasks", "--task", "broken,arithmetic", "--model", "toy"]
    assert lmeval("evaluate", *arguments) == 1
    written = board(lmeval.folder)
    assert [task["task"] for task in written["tasks"]] == ["arithmetic"]
    assert "task.py, line 4: ZeroDivisionError" in written["failed_tasks"][0]["reason"]
    assert "broken: no result" in lmeval.out


def test_results_are_shown_where_another_run_took_the_file(lmeval):
    (lmeval.folder / "own.py").write_text(
        "class Racing:\n    name = 'racing'\n    def generate(self, prompts):\n"
        "        open('leaderboard.json', 'w').write('another')\n        return prompts\n"
    )
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "own.py:Racing") == 2
    assert "leaderboard.json exists and is no leaderboard" in lmeval.err
    assert "exact_match  0.0000" in lmeval.out
    assert (lmeval.folder / "leaderboard.json").read_text() == "another"


def test_one_failed_answer_is_one_answer(lmeval):
    (lmeval.folder / "own.py").write_text(ADAPTERS)
    arguments = ["--task", "arithmetic", "--model", "own.py:Failing", "--max_retries", "0"]
    assert lmeval("evaluate", *arguments, "--max_examples", "1") == 1
    assert "1 answer failed" in lmeval.out


def test_allowed_failures_cover_answers_and_no_task(lmeval):
    folder = lmeval.folder / "tasks" / "broken"
    folder.mkdir(parents=True)
    (folder / "task.py").write_text(BROKEN_TASK)
    arguments = ["--tasks_dir", "tasks", "--task", "broken,arithmetic", "--model", "toy"]
    assert lmeval("evaluate", *arguments, "--allow_failures", "100") == 1


def test_every_task_that_gives_no_result_has_its_reason(lmeval):
    for name in ("first", "second"):
        folder = lmeval.folder / "tasks" / name
        folder.mkdir(parents=True)
        (folder / "task.py").write_text(BROKEN_TASK)
    arguments = ["--tasks_dir", "tasks", "--task", "first,second", "--model", "toy"]
    assert lmeval("evaluate", *arguments) == 1
    for name in ("first", "second"):
        assert f"tasks/{name}/task.py, line 4: ZeroDivisionError" in lmeval.err
    assert lmeval.err.count("\n") == 1


PLAIN_RUN = ["--task", "arithmetic", "--model", "toy"]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (["--timeout_s", "20"], "differs in --timeout_s;"),
        (["--max_retries", "2"], "differs in --max_retries;"),
        (["--allow_code_exec"], "differs in --"),
        (["--model_args", ""], None),
        (["--batch_size", "3", "--concurrency", "2", "--parallel_tasks", "2"], None),
        (["--nocache", "--quiet", "--max_consecutive_failures", "7"], None),
        (["--code_exec_wall_s", "3"], None),  # no code may run
    ],
)
def test_what_can_change_a_score_makes_another_run(lmeval, changed, named):
    assert lmeval("evaluate", *PLAIN_RUN) == 0
    assert lmeval("evaluate", *PLAIN_RUN, *changed) == (0 if named is None else 2), lmeval.err
    assert (named or "") in lmeval.err


@pytest.mark.parametrize(
    "changed",
    [
        ["--code_exec_isolation", "reduced"],
        ["--code_exec_cpu_s", "4"],
        ["--code_exec_wall_s", "9"],
        ["--code_exec_memory_mb", "300"],
        ["--code_exec_modules", "json"],
    ],
)
def test_limits_of_code_that_runs_make_another_run(lmeval, changed):
    arguments = [*PLAIN_RUN, "--allow_code_exec"]
    assert lmeval("evaluate", *arguments) == 0
    assert board(lmeval.folder)["flags"]["code_exec_wall_s"] == 10.0
    assert lmeval("evaluate", *arguments, *changed) == 2
    assert f"differs in {changed[0]};" in lmeval.err
    assert lmeval("evaluate", *arguments, "--code_exec_workers", "1") == 0


def test_the_model_is_recorded_as_it_was_named(lmeval):
    for name in ("own.py", "other.py"):
        (lmeval.folder / name).write_text(ADAPTERS)
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "own.py:Silent") == 0
    assert board(lmeval.folder)["flags"]["model"] == "own.py:Silent"
    assert lmeval("evaluate", "--task", "arithmetic", "--model", "other.py:Silent") == 2
    assert "differs in --model;" in lmeval.err


def test_answers_in_a_file_are_not_discarded_silently(lmeval):
    assert lmeval("evaluate", *PLAIN_RUN, "--include_per_example") == 0
    assert lmeval("evaluate", *PLAIN_RUN) == 2
    assert "they would be lost; pass --include_per_example" in lmeval.err
    assert lmeval("evaluate", *PLAIN_RUN, "--include_per_example") == 0
    assert lmeval("evaluate", *PLAIN_RUN, "--overwrite") == 0
    assert "per_example" not in board(lmeval.folder)["tasks"][0]


def test_tasks_and_shots_may_be_named_one_by_one(lmeval):
    arguments = ["--task", "arithmetic", "--task", "summary,generation", "--shots=0", "--shots=2"]
    assert lmeval("evaluate", *arguments, "--model", "toy") == 0
    found = [(task["task"], task["number_of_shots"]) for task in board(lmeval.folder)["tasks"]]
    names = ("arithmetic", "summary", "generation")
    assert found == [(name, shots) for name in names for shots in (0, 2)]


INTERRUPTED = """
class Interrupted:
    name = "interrupted"
    def generate(self, prompts):
        raise KeyboardInterrupt

class Marked(Interrupted):
    fingerprint = "1"
"""


@pytest.mark.parametrize(
    ("model", "more", "said"),
    [
        ("Marked", [], "the same command goes on from the answers that are stored"),
        ("Interrupted", [], "no answer is kept, since the model interrupted gives no fingerprint"),
        ("Marked", ["--nocache"], "with --nocache no answer is kept, so the next run begins anew"),
    ],
)
def test_a_stopped_run_says_what_is_kept(lmeval, model, more, said):
    (lmeval.folder / "own.py").write_text(INTERRUPTED)
    arguments = ["--task", "arithmetic", "--model", f"own.py:{model}", *more]
    assert lmeval("evaluate", *arguments) == 130
    assert "stopped; no leaderboard is written" in lmeval.err
    assert said in lmeval.err
    assert not (lmeval.folder / "leaderboard.json").exists()


def test_max_examples_and_per_example(lmeval):
    arguments = ["--task", "arithmetic", "--model", "toy", "--max_examples", "3"]
    assert lmeval("evaluate", *arguments, "--include_per_example") == 0
    (task,) = board(lmeval.folder)["tasks"]
    assert task["total"] == 3
    assert [
        set(row) >= {"id", "prompt", "prediction", "targets", "score"}
        for row in task["per_example"]
    ]
    assert len(task["per_example"]) == 3


def test_non_latin_text_makes_the_whole_way(lmeval):  # P002
    row = {"prompt": "naïve 東京 🙂", "targets": ["東京 🙂"], "metric": "substring_contains"}
    write_rows(lmeval.folder, "names", [row])
    (lmeval.folder / "own.py").write_text(
        "class Echo:\n    name = 'écho'\n    def generate(self, prompts): return list(prompts)\n"
    )
    arguments = ["--tasks_dir", "tasks", "--task", "names", "--model", "own.py:Echo"]
    assert lmeval("evaluate", *arguments, "--include_per_example") == 0
    written = board(lmeval.folder)
    assert written["tasks"][0]["per_example"][0]["prediction"] == "naïve 東京 🙂"
    assert written["adapter"] == "écho"


def test_a_fault_in_a_task_file_costs_no_call(lmeval):
    write_rows(lmeval.folder, "broken", [{"prompt": "q", "targets": [], "metric": "exact_match"}])
    arguments = ["--tasks_dir", "tasks", "--task", "broken", "--model", "toy"]
    assert lmeval("evaluate", *arguments) == 2
    assert "'targets' must be a list" in lmeval.err
    assert not (lmeval.folder / "leaderboard.json").exists()


def test_answers_that_cannot_be_found_have_a_column(lmeval):
    rows = [{"prompt": "A or B?", "targets": ["A"], "metric": "multiple_choice"}]
    write_rows(lmeval.folder, "letters", rows, {"answer_extraction": "letter"})
    (lmeval.folder / "own.py").write_text(ADAPTERS)
    arguments = ["--tasks_dir", "tasks", "--task", "letters", "--model", "own.py:Silent"]
    assert lmeval("evaluate", *arguments) == 0
    assert board(lmeval.folder)["tasks"][0]["no_answer"] == 1
    assert "no answer" in lmeval.out


def replay(lmeval, shared, tasks, predictions, *more):
    arguments = ["--tasks_dir", shared / "data" / tasks, "--task", "all", "--model", "replay"]
    path = shared / "data" / predictions
    return lmeval("evaluate", *arguments, "--model_args", f"path={path}", *more)


@pytest.mark.parametrize(
    ("kind", "more"),
    [("direct", []), ("cot", ["--output_regex", r"the answer is (.*?)\.?$"])],
)
def test_published_accuracies_of_big_bench_hard(lmeval, shared, kind, more):
    predictions = f"bbh_predictions/code-davinci-002-{kind}.jsonl"
    assert replay(lmeval, shared, "bbh", predictions, *more) == 0
    expected = json.loads((shared / "data" / "bbh_predictions" / "expected.json").read_text())
    found = {task["task"]: task for task in board(lmeval.folder)["tasks"]}
    assert set(found) == set(expected)
    for name, published in expected.items():
        assert found[name]["score"] == pytest.approx(published[kind], abs=1e-6), name
        assert found[name]["total"] == published["n"]


@pytest.mark.parametrize(("model", "right"), [("6b_finetuning", 286), ("6b_verification", 515)])
def test_recorded_answers_to_gsm8k(lmeval, shared, model, right):
    arguments = ["--tasks_dir", shared / "data", "--task", "gsm8k", "--model", "replay"]
    arguments += ["--model_args", f"path={shared / 'data' / 'gsm8k_predictions' / model}.jsonl"]
    assert lmeval("evaluate", *arguments, "--answer_extraction", "number") == 0
    (task,) = board(lmeval.folder)["tasks"]
    assert (task["correct"], task["total"]) == (right, 1319)


@pytest.mark.parametrize(("answers", "right"), [("canonical", 164), ("pass_statement", 0)])
def test_recorded_answers_to_humaneval(lmeval, shared, answers, right):
    arguments = ["--tasks_dir", shared / "data", "--task", "humaneval", "--model", "replay"]
    path = shared / "data" / "humaneval_predictions" / f"{answers}.jsonl"
    arguments += ["--model_args", f"path={path}", "--allow_code_exec"]
    assert lmeval("evaluate", *arguments) == 0
    (task,) = board(lmeval.folder)["tasks"]
    assert (task["correct"], task["total"]) == (right, 164)


def test_an_answer_that_was_not_recorded_is_named(lmeval):
    (lmeval.folder / "few.jsonl").write_text('{"task": "arithmetic", "id": "x", "prediction": "1"}')
    arguments = ["--task", "arithmetic", "--model", "replay", "--model_args", "path=few.jsonl"]
    assert lmeval("evaluate", *arguments) != 0
    assert "arithmetic" in lmeval.out + lmeval.err
