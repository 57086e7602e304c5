# SPDX-License-Identifier: Apache-2.0
"""From names to tasks: finding task folders and loading what they hold.

A task is a folder (or a bare `NAME.jsonl`) in a tasks folder; see docs/task_format.md. The dialects
are imported only when a folder of theirs is loaded.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import attrs

from lmeval.api.errors import TaskError, UsageError
from lmeval.api.options import TaskOptions
from lmeval.api.task import Task, TaskMetadata

TaskKind = Literal["jsonl", "python", "bigbench-json", "bigbench-python", "ambiguous"]

TASKS_PATH_VARIABLE = "LMEVAL_TASKS_PATH"
ROW_FILES = ("task.jsonl", "task.jsonl.gz")
_TASK_FILES = (*ROW_FILES, "task.json", "task.py")
_IMPORTS_BIGBENCH = re.compile(rb"^\s*(import|from)\s+bigbench\b", re.MULTILINE)
_NOT_CONTENT = ("__pycache__", "results")


@attrs.frozen
class TaskSource:
    """Where a task is and of which kind it is; nothing of it is loaded yet."""

    name: str
    """The task's name: that of its folder, or of its file without the ending."""
    path: Path
    """The folder, or the bare `NAME.jsonl`."""
    kind: TaskKind
    """Which loader reads it."""


def built_in_folder() -> Path:
    """The folder of the tasks that lmeval ships."""
    return Path(__file__).resolve().parents[1] / "tasks"


def source_of(path: Path) -> TaskSource | None:
    """What kind of task `path` is; None when it is none.

    Args:
      path: a task's folder, one of the files that make a folder a task, or a bare JSONL file.

    A folder with two tasks in it is "ambiguous": it cannot be loaded, but stands in nobody's way.
    """
    if path.name in ("", ".."):
        path = path.resolve()
    if path.is_file():
        if path.name in _TASK_FILES:
            return source_of(path.parent)
        name = path.name.removesuffix(".gz")
        return (
            TaskSource(name[: -len(".jsonl")], path, "jsonl") if name.endswith(".jsonl") else None
        )
    kinds: list[TaskKind] = []
    if any((path / rows).is_file() for rows in ROW_FILES):
        kinds.append("jsonl")
    if (path / "task.py").is_file():
        kinds.append("bigbench-python" if _mentions_bigbench(path / "task.py") else "python")
    if not kinds and (path / "task.json").is_file():
        kinds.append("bigbench-json")
    if len(kinds) > 1:
        return TaskSource(path.name, path, "ambiguous")
    return TaskSource(path.name, path, kinds[0]) if kinds else None


def _refuse_ambiguous(source: TaskSource) -> None:
    if source.kind == "ambiguous":
        raise TaskError(
            f"{source.path} holds both a task.py and a task.jsonl; keep the one that is the task."
        )


def _mentions_bigbench(program: Path) -> bool:
    return _IMPORTS_BIGBENCH.search(program.read_bytes()) is not None


def find_sources(folder: Path) -> list[TaskSource]:
    """Every task in a tasks folder, sorted by name.

    Raises:
      UsageError: there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(
            f"There is no tasks folder {folder}; --tasks_dir and {TASKS_PATH_VARIABLE} name "
            "folders of tasks."
        )
    if any((folder / file).is_file() for file in _TASK_FILES):
        raise UsageError(
            f"{folder} is a task itself; name the folder that it is in, or run it with "
            f"--task {folder}{os.sep}"
        )
    entries = sorted(
        entry.name for entry in os.scandir(folder) if not entry.name.startswith((".", "_"))
    )
    sources = [s for name in entries if (s := source_of(folder / name)) is not None]
    for first, second in itertools.pairwise(sorted(sources, key=lambda source: source.name)):
        if first.name == second.name:
            raise UsageError(
                f"{first.path} and {second.path} are both the task {first.name}; rename one."
            )
    return sources


@attrs.frozen
class TaskCatalog:
    """The tasks that can be named in a run; earlier folders win where names clash."""

    sources: tuple[TaskSource, ...]
    """What `all` and patterns stand for."""
    further_sources: tuple[TaskSource, ...] = ()
    """What can be named besides."""

    @classmethod
    def of(cls, tasks_dirs: Sequence[str | os.PathLike[str]] = ()) -> TaskCatalog:
        """The catalog of a run.

        Args:
          tasks_dirs: the user's tasks folders. With any, `all` and patterns mean their tasks; the
            others (of LMEVAL_TASKS_PATH, of installed plug-ins, shipped) can still be named.
        """
        named = [source for folder in tasks_dirs for source in find_sources(Path(folder))]
        folders = [*_folders_of_environment(), *_folders_of_plugins(), built_in_folder()]
        rest = [source for folder in folders for source in find_sources(folder)]
        if not tasks_dirs:
            return cls(tuple(_first_of_each_name(rest)))
        return cls(tuple(_first_of_each_name(named)), tuple(_first_of_each_name(rest)))

    def select(self, wanted: Sequence[str]) -> list[tuple[TaskSource, str | None]]:
        """The tasks that names, patterns, paths and `all` stand for, each once, in order.

        Args:
          wanted: names, `NAME.SUBTASK`, glob patterns, paths of task folders, or `all`.

        Returns:
          Pairs of a task and the sub-task asked for (None for the whole task).

        Raises:
          UsageError: a name stands for nothing; close names are offered.
        """
        if not wanted:
            raise UsageError("No task given; name one with --task, or all of them with --task all.")
        chosen: dict[tuple[str, str | None], tuple[TaskSource, str | None]] = {}
        for word in wanted:
            for source, subtask in self._resolve(word):
                chosen.setdefault((str(source.path), subtask), (source, subtask))
        paths: dict[str, Path] = {}
        for source, _ in chosen.values():
            other = paths.setdefault(source.name, source.path)
            if other != source.path:
                raise UsageError(
                    f"{other} and {source.path} are both the task {source.name}; run them apart."
                )
        return list(chosen.values())

    def _resolve(self, word: str) -> list[tuple[TaskSource, str | None]]:
        if word == "all":
            return [(source, None) for source in self.sources]
        by_name = {source.name: source for source in (*self.further_sources, *self.sources)}
        by_name |= {source.name: source for source in self.sources}
        if word in by_name:
            return [(by_name[word], None)]
        task, _, subtask = word.partition(".")
        if subtask and task in by_name:
            return [(by_name[task], subtask)]
        if any(letter in word for letter in "*?["):
            matching = [s for s in self.sources if fnmatch.fnmatchcase(s.name, word)]
            if matching:
                return [(source, None) for source in matching]
        elif (os.sep in word or word in (".", "..")) and (
            source := source_of(Path(word))
        ) is not None:
            return [(source, None)]
        raise UsageError(self._not_found(word, list(by_name)))

    def _not_found(self, word: str, names: list[str]) -> str:
        close = difflib.get_close_matches(word, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`lmeval tasks` lists them all."
        return f"There is no task {word!r}; {hint}"


def _first_of_each_name(sources: Iterable[TaskSource]) -> list[TaskSource]:
    first: dict[str, TaskSource] = {}
    for source in sources:
        first.setdefault(source.name, source)
    return list(first.values())


def _folders_of_environment() -> list[Path]:
    value = os.environ.get(TASKS_PATH_VARIABLE, "")
    return [Path(folder) for folder in value.split(os.pathsep) if folder]


def _folders_of_plugins() -> list[Path]:
    """The tasks folders of installed packages: entry points of the group `lmeval.tasks`.

    The value of an entry point is a package whose folder is a tasks folder.
    """
    import importlib.metadata
    import importlib.util

    folders = []
    for entry in importlib.metadata.entry_points(group="lmeval.tasks"):
        spec = importlib.util.find_spec(entry.value)
        if spec is None or not spec.submodule_search_locations:
            raise TaskError(
                f"The entry point {entry.name!r} of the group lmeval.tasks names {entry.value!r}, "
                "which is no installed package; mend or uninstall the plug-in."
            )
        folders += [Path(folder) for folder in spec.submodule_search_locations]
    return folders


def load_task(source: TaskSource, options: TaskOptions, subtask: str | None = None) -> Task:
    """Load a task; a model is not needed yet.

    Raises:
      TaskError: the task is faulty, or has no such sub-task.
    """
    _refuse_ambiguous(source)
    if source.kind.startswith("bigbench"):
        from lmeval import bigbench

        if source.kind == "bigbench-json":
            return bigbench.load_json_task(source.path, source.name, options, subtask)
        if subtask is None:
            return bigbench.load_program_task(source.path, source.name, options)
    if subtask is not None:
        raise UsageError(f"The task {source.name} has no sub-tasks that can be named.")
    from lmeval.api import loading

    if source.kind == "jsonl":
        return loading.load_jsonl_task(source.path, source.name, options)
    return loading.load_program(source.path, source.name)


def content_hash(path: Path, inherited: Iterable[Path] = ()) -> str:
    """The SHA-256 of a task's content.

    For a bare file it is that of its bytes. For a folder it is that of the lines
    `SHA256  RELATIVE/PATH` of its files, sorted by path; documentation (`*.md`), caches, results
    and hidden files do not count.

    Args:
      path: the task's folder or file.
      inherited: further files that make the task what it is, named `inherited/NAME` in the lines;
        see `inherited_files`.
    """
    if path.is_file():
        return _file_hash(path)
    lines = [(f"inherited/{file.name}", _file_hash(file)) for file in inherited]
    for folder, folder_names, file_names in os.walk(path):
        folder_names[:] = [n for n in folder_names if n not in _NOT_CONTENT and n[0] != "."]
        for name in file_names:
            if name[0] != "." and not name.endswith((".md", ".pyc")):
                file = Path(folder, name)
                lines.append((file.relative_to(path).as_posix(), _file_hash(file)))
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(lines))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def inherited_files(task: Task, folder: Path) -> list[Path]:
    """The files outside `folder` that define the classes which a task inherits from.

    Python's and lmeval's own classes do not count: their versions stand in the leaderboard.
    """
    files = []
    for base in type(task).__mro__:
        package = base.__module__.partition(".")[0]
        own = base.__module__.startswith(("lmeval.api.", "lmeval.bigbench."))
        if own or package in sys.stdlib_module_names:
            continue
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if file and folder.resolve() not in Path(file).resolve().parents:
            files.append(Path(file))
    return files


def _file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@attrs.frozen
class TaskSummary:
    """What a list of tasks says of one, read without loading its rows."""

    source: TaskSource
    description: str
    keywords: tuple[str, ...]


def summarize_task(source: TaskSource) -> TaskSummary:
    """Describe a task as cheaply as its kind allows.

    Raises:
      TaskError: the task is faulty.
    """
    _refuse_ambiguous(source)
    if source.kind.startswith("bigbench"):
        from lmeval import bigbench

        details = bigbench.read_metadata(source.path)
        return TaskSummary(source, details.description, tuple(details.keywords))
    if source.kind == "python":
        from lmeval.api.loading import load_program

        metadata = load_program(source.path, source.name).get_task_details()
        if not isinstance(metadata, TaskMetadata):
            raise TaskError(f"{source.path}: get_task_details gave {metadata!r}, no TaskMetadata.")
        return TaskSummary(source, metadata.description, tuple(metadata.keywords))
    settings_file = source.path / "task.json"
    if not settings_file.is_file():
        return TaskSummary(source, "", ())
    from lmeval.api.settings import read_settings

    settings = read_settings(settings_file)
    return TaskSummary(source, settings.description, settings.keywords)
