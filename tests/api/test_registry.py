# SPDX-License-Identifier: Apache-2.0
"""Finding tasks by name, pattern, path and `all`; hashes of their content; faults in programs."""

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmeval import TaskOptions
from lmeval.api.errors import LmevalError, TaskError, TaskFileError, UsageError
from lmeval.api.registry import (
    TaskCatalog,
    content_hash,
    inherited_files,
    load_task,
    source_of,
    summarize_task,
)

ROW = '{"prompt": "q", "targets": ["a"], "metric": "exact_match"}\n'
PROGRAM = """
from lmeval import ScoreData, Task, TaskMetadata
class Mine(Task):
    def get_task_details(self):
        return TaskMetadata("mine", "d", ["k"], 1, 1)
    def evaluate_model(self, model):
        return ScoreData({"s": 1.0}, "s", 0, 0, 1)
"""


@pytest.fixture
def tasks(tmp_path):
    for name in ("sums", "sums_long", "words"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "task.jsonl").write_text(ROW)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "task.py").write_text(PROGRAM)
    (tmp_path / "bare.jsonl").write_text(ROW)
    (tmp_path / "_private").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "README.md").write_text("notes")
    return tmp_path


def names(catalog, *wanted):
    return [source.name for source, _ in catalog.select(wanted)]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["all"], ["bare", "mine", "sums", "sums_long", "words"]),
        (["words", "sums"], ["words", "sums"]),
        (["sums*"], ["sums", "sums_long"]),
        (["sums", "sums*"], ["sums", "sums_long"]),
        (["arithmetic"], ["arithmetic"]),
    ],
)
def test_selection(tasks, wanted, found):
    assert names(TaskCatalog.of([tasks]), *wanted) == found


def test_a_path_names_a_task(tasks):
    assert names(TaskCatalog.of(), str(tasks / "words")) == ["words"]


def test_the_users_folder_goes_before_the_shipped_tasks(tasks):
    (tasks / "arithmetic").mkdir()
    (tasks / "arithmetic" / "task.jsonl").write_text(ROW)
    ((source, _),) = TaskCatalog.of([tasks]).select(["arithmetic"])
    assert source.path == tasks / "arithmetic"


def test_folders_of_the_environment_are_found(tasks, monkeypatch):
    monkeypatch.setenv("LMEVAL_TASKS_PATH", str(tasks))
    assert "words" in names(TaskCatalog.of(), "all")


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("sumss", "did you mean sums"),
        ("zzz", "lists them all"),
        ("zz*", "no task 'zz"),
        ("", "no task"),
    ],
)
def test_an_unknown_name_is_said(tasks, wanted, hint):
    with pytest.raises(UsageError, match=hint):
        TaskCatalog.of([tasks]).select([wanted])


def test_no_name_at_all_is_said(tasks):
    with pytest.raises(UsageError, match="No task given"):
        TaskCatalog.of([tasks]).select([])


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(UsageError, match="There is no tasks folder"):
        TaskCatalog.of([tmp_path / "none"])


@pytest.mark.parametrize("use", [summarize_task, lambda source: load_task(source, TaskOptions())])
def test_a_folder_with_two_tasks_is_refused_and_stands_in_nobodys_way(tasks, use):
    (tasks / "mine" / "task.jsonl").write_text(ROW)
    (source, _), (other, _) = TaskCatalog.of([tasks]).select(["mine", "sums"])
    with pytest.raises(TaskError, match=r"mine holds both a task\.py and a task\.jsonl"):
        use(source)
    assert use(other) is not None


def load(path, **options):
    return load_task(source_of(path), TaskOptions(**options))


def test_a_program_is_loaded(tasks):
    assert load(tasks / "mine").get_task_details().name == "mine"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("x = list[int]", r"task\.py: must define one complete subclass of Task, found none"),
        (PROGRAM + "class Other(Mine): pass", "found Mine, Other"),
        (PROGRAM.replace("evaluate_model", "evaluate"), "Mine lacks evaluate_model"),
        ("import nothing_of_that_name", r"task\.py, line 1: ModuleNotFoundError"),
        ("x = (", r"task\.py, line 1: "),
        ("\n1 / 0", r"task\.py, line 2: ZeroDivisionError"),
        (PROGRAM + "    def __init__(self): raise ValueError('no')", "ValueError: no"),
    ],
)
def test_a_faulty_program_is_one_sentence(tasks, program, reason):
    (tasks / "mine" / "task.py").write_text(program)
    with pytest.raises(TaskError, match=reason):
        load(tasks / "mine")


def test_a_task_may_bring_its_own_metric(tasks):
    folder = tasks / "words"
    (folder / "metrics.py").write_text(
        "from lmeval import metric\n"
        "@metric('first_letter')\n"
        "def first_letter(prediction, targets, extras):\n"
        "    return float(prediction[:1] == targets[0][:1])\n"
    )
    (folder / "task.jsonl").write_text(ROW.replace("exact_match", "first_letter"))
    assert load(folder).metric.name == "first_letter"


def test_shots_come_from_their_own_file(tasks):
    folder = tasks / "words"
    (folder / "shots.jsonl").write_text(ROW.replace('"q"', '"shown"'))
    assert load(folder, shots=(1,)).prompts(1) == ["shown\na\n\nq"]


def test_the_name_in_task_json_is_the_folders(tasks):
    (tasks / "words" / "task.json").write_text('{"name": "other"}')
    with pytest.raises(TaskFileError, match="'name' is 'other', but the folder is 'words'"):
        load(tasks / "words")


def test_the_summary_reads_no_rows(tasks):
    folder = tasks / "words"
    (folder / "task.json").write_text(json.dumps({"description": "d", "keywords": ["k"]}))
    (folder / "task.jsonl").write_text("no JSON at all")
    summary = summarize_task(source_of(folder))
    assert (summary.description, summary.keywords) == ("d", ("k",))


def test_the_hash_of_a_file_is_that_of_its_bytes(tasks):
    assert content_hash(tasks / "bare.jsonl") == hashlib.sha256(ROW.encode()).hexdigest()


def test_the_hash_of_a_folder_is_that_of_its_files(tasks):
    digest = hashlib.sha256(ROW.encode()).hexdigest()
    expected = hashlib.sha256(f"{digest}  task.jsonl\n".encode()).hexdigest()
    assert content_hash(tasks / "words") == expected


def test_the_hash_changes_with_content_alone(tasks):
    before = content_hash(tasks / "words")
    (tasks / "words" / "README.md").write_text("notes")
    (tasks / "words" / "__pycache__").mkdir()
    (tasks / "words" / "__pycache__" / "x.pyc").write_text("x")
    assert content_hash(tasks / "words") == before
    (tasks / "words" / "shots.jsonl").write_text(ROW)
    assert content_hash(tasks / "words") != before


@pytest.mark.parametrize("kind", ["python", "metrics"])
def test_programs_of_two_tasks_may_have_modules_of_one_name(tmp_path, kind):
    for name, value in (("a", 0.1), ("b", 0.2)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "helper.py").write_text(f"VALUE = {value}")
        if kind == "python":
            late = PROGRAM.replace('{"s": 1.0}', '{"s": VALUE + late()}').replace("\nclass", LATE)
            (folder / "task.py").write_text(late)
        else:
            (folder / "metrics.py").write_text(METRIC.replace("NAME", name))
            (folder / "task.jsonl").write_text(ROW.replace("exact_match", f"constant_{name}"))
    tasks = [load(tmp_path / name) for name in "ab"]
    if kind == "python":
        assert [task.evaluate_model(None).score for task in tasks] == [0.2, 0.4]
    else:
        assert [task.metric.function("", (), {}) for task in tasks] == [0.1, 0.2]


LATE = """
from helper import VALUE
def late():
    import helper
    return helper.VALUE
class"""
METRIC = """
import helper
from lmeval import metric
@metric("constant_NAME")
def constant(prediction, targets, extras):
    return helper.VALUE
"""


def test_packages_and_relative_imports_work_beside_a_task(tasks):
    package = tasks / "mine" / "parts"
    package.mkdir()
    (package / "__init__.py").write_text("from .deep import NAME")
    (package / "deep.py").write_text("import other\nNAME = other.NAME")
    (tasks / "mine" / "other.py").write_text("NAME = 'mine'")
    head = "import parts.deep\nfrom parts import deep, NAME\nfrom . import other\n"
    head += "assert parts.deep is deep and other.NAME == NAME == 'mine'\n"
    (tasks / "mine" / "task.py").write_text(head + PROGRAM)
    assert load(tasks / "mine").get_task_details().name == "mine"


@pytest.mark.parametrize("file", ["task.jsonl", "task.json"])
def test_a_file_of_a_folder_means_the_folder(tasks, file):
    (tasks / "words" / "task.json").write_text("{}")
    assert source_of(tasks / "words" / file) == source_of(tasks / "words")


def test_a_folder_of_tasks_is_no_task(tasks):
    with pytest.raises(UsageError, match="words is a task itself"):
        TaskCatalog.of([tasks / "words"])


def test_two_tasks_of_one_name_in_a_folder_are_refused(tasks):
    (tasks / "words.jsonl").write_text(ROW)
    with pytest.raises(UsageError, match="are both the task words; rename one"):
        TaskCatalog.of([tasks])


def test_two_tasks_of_one_name_in_a_run_are_refused(tasks, tmp_path):
    other = tmp_path / "elsewhere" / "words"
    other.mkdir(parents=True)
    (other / "task.jsonl").write_text(ROW)
    with pytest.raises(UsageError, match="are both the task words; run them apart"):
        TaskCatalog.of([tasks]).select(["words", str(other)])


def test_the_current_folder_is_named_by_its_name(tasks, monkeypatch):
    monkeypatch.chdir(tasks / "words")
    from pathlib import Path

    assert source_of(Path(".")).name == "words"


def test_mentioning_bigbench_is_no_import(tasks):
    (tasks / "mine" / "task.py").write_text("# import bigbench is not needed\n" + PROGRAM)
    assert source_of(tasks / "mine").kind == "python"


def test_what_a_program_inherits_is_part_of_its_content(tasks, monkeypatch):
    shared = tasks / "shared_base.py"
    shared.write_text(PROGRAM.replace("class Mine", "class Base"))
    monkeypatch.syspath_prepend(str(tasks))
    (tasks / "mine" / "task.py").write_text(
        "import shared_base\nclass Mine(shared_base.Base): pass"
    )
    task = load(tasks / "mine")
    files = inherited_files(task, tasks / "mine")
    assert files == [shared]
    before = content_hash(tasks / "mine", files)
    shared.write_text(shared.read_text() + "# changed")
    assert content_hash(tasks / "mine", files) != before


def test_a_plain_program_inherits_no_files(tasks):
    assert inherited_files(load(tasks / "mine"), tasks / "mine") == []


FOLDER_FILES = {
    "task.jsonl": ROW * 1,
    "task.json": json.dumps(
        {"description": "naïve", "keywords": ["k"], "stop_string": ["\n"], "output_regex": "(a)b"}
    ),
    "shots.jsonl": ROW.replace('"q"', '"shown"'),
}


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(sorted(FOLDER_FILES)), data=st.data())
def test_a_folder_with_broken_files_loads_or_gives_one_error(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("broken") / "task"
    folder.mkdir()
    for file, text in FOLDER_FILES.items():
        (folder / file).write_text(text, encoding="utf-8")
    content = bytearray(FOLDER_FILES[name].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(content) - 1, 0)))
        content[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=3))
    (folder / name).write_bytes(content)
    try:
        load(folder, shots=(1,)).prompts(1)
    except LmevalError as error:
        assert str(folder) in str(error) or "shots asked for" in str(error)
