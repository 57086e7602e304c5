# SPDX-License-Identifier: Apache-2.0
"""`lmeval check`: look at a task folder as a reviewer would, without a real model."""

from __future__ import annotations

import collections
import contextlib
import importlib.resources
import inspect
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import attrs
from absl import flags

from lmeval.api.errors import LmevalError, TaskError, UsageError
from lmeval.cli.tables import counted, printable

if TYPE_CHECKING:
    from lmeval.api.json_task import JsonTask
    from lmeval.api.model import Model
    from lmeval.api.registry import TaskSource
    from lmeval.api.task import ScoreData, Task, TaskMetadata
    from lmeval.sandbox import Sandbox

USAGE = "check TASK_FOLDER… [flags]"
HELP = "Look at task folders as a reviewer would."

_SHOWN = 3
_MOST_QUERIES = 5000


@attrs.frozen
class Finding:
    """One thing that a check looked at."""

    kind: Literal["ok", "fault", "note"]
    text: str


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define this verb's flags."""
    flags.DEFINE_boolean(
        "allow_code_exec",
        False,
        "Run the answers of mute and echo models as code, in a sandbox.",
        flag_values=flag_values,
    )
    flags.DEFINE_string(
        "keywords",
        None,
        "A keywords.md of yours, in place of lmeval's.",
        flag_values=flag_values,
    )


def run(args: list[str], flag_values: flags.FlagValues, out: TextIO) -> int:
    """Check task folders; 1 if one has a fault."""
    if not args:
        raise UsageError("check takes task folders: lmeval check my_tasks/my_task")
    known_keywords = read_keywords(flag_values.keywords)
    faults = 0
    with contextlib.ExitStack() as stack:
        sandbox = None
        if flag_values.allow_code_exec:
            from lmeval.sandbox import Sandbox

            sandbox = stack.enter_context(Sandbox())
        for folder in args:
            print(printable(folder), file=out)
            for finding in _findings(Path(folder), known_keywords, sandbox):
                faults += finding.kind == "fault"
                mark = "FAULT" if finding.kind == "fault" else finding.kind
                print(f"  {mark:<6} {printable(finding.text)}", file=out)
    print(counted(faults, "fault") if faults else "no faults", file=out)
    return int(faults > 0)


def read_keywords(path: str | None = None) -> frozenset[str]:
    """The keywords that a keywords.md lists as `- keyword: meaning`.

    Raises:
      UsageError: the file cannot be read.
    """
    try:
        if path is None:
            source = importlib.resources.files("lmeval") / "keywords.md"
            text = source.read_text(encoding="utf-8")
        else:
            text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--keywords {path}: cannot be read: {error}.") from None
    return frozenset(re.findall(r"^- ([^:\n]+):", text, re.MULTILINE))


def _findings(
    folder: Path, known_keywords: frozenset[str], sandbox: Sandbox | None
) -> Iterator[Finding]:
    """What `review` says; what ends it is the last fault, so that other folders are looked at."""
    try:
        yield from review(folder, known_keywords, sandbox)
    except LmevalError as error:
        yield Finding("fault", str(error))
    except OSError as error:
        yield Finding("fault", f"{error.filename or folder}: {error.strerror or error}.")


def review(
    folder: Path, known_keywords: frozenset[str], sandbox: Sandbox | None = None
) -> Iterator[Finding]:
    """Everything that there is to say of a task folder, faults and what is well.

    Raises:
      LmevalError: the task cannot be loaded, or its metric fails.
    """
    from lmeval.api.json_task import JsonTask
    from lmeval.api.options import TaskOptions
    from lmeval.api.registry import load_task, source_of

    source = source_of(folder) if folder.exists() else None
    if source is None:
        yield Finding("fault", "is no task: no task.jsonl, task.py or task.json there.")
        return
    program = source.path / "task.py"
    task = load_task(source, TaskOptions(sandbox=sandbox))
    details = _details(task, program)
    yield Finding("ok", f"loads ({source.kind}, max_queries {details.max_queries:,})")
    yield from _review_details(source, details, known_keywords)
    if isinstance(task, JsonTask):
        yield from _review_rows(task)
    if source.kind == "bigbench-json" and details.max_queries > _MOST_QUERIES:
        # Some hold millions of examples; a part of them shows what these models score.
        yield Finding("note", f"mute and echo models answer about {_MOST_QUERIES:,} examples.")
        task = load_task(source, TaskOptions(max_examples=_MOST_QUERIES, sandbox=sandbox))
    yield from _review_scores(task, program)


def _details(task: Task, program: Path) -> TaskMetadata:
    from lmeval.api.failures import describe_failure
    from lmeval.api.task import TaskMetadata

    try:
        details: object = task.get_task_details()
    except LmevalError:
        raise
    except (Exception, SystemExit) as error:  # a task of the user's may raise anything
        raise TaskError(f"get_task_details fails: {describe_failure(error, program)}") from error
    if not isinstance(details, TaskMetadata):
        raise TaskError(f"get_task_details gives {details!r}, which is no TaskMetadata.")
    return details


def _review_details(
    source: TaskSource, details: TaskMetadata, known_keywords: frozenset[str]
) -> Iterator[Finding]:
    if details.name != source.name:
        yield Finding("fault", f"is named {details.name!r} in its details; use the folder's name.")
    if not details.description.strip():
        yield Finding("fault", "has no description.")
    if not details.keywords:
        yield Finding("fault", "has no keywords; keywords.md lists those in use.")
    unknown = [word for word in details.keywords if word not in known_keywords]
    if unknown:
        yield Finding(
            "fault", f"keywords that keywords.md does not list: {', '.join(map(repr, unknown))}."
        )
    elif details.keywords:
        yield Finding("ok", f"keywords known: {', '.join(details.keywords)}")


def _review_rows(task: JsonTask) -> Iterator[Finding]:
    by_prompt = collections.defaultdict(list)
    for row in task.examples:
        by_prompt[row.prompt].append(row)
    repeated = [rows for rows in by_prompt.values() if len(rows) > 1]
    contradicting = [rows for rows in repeated if len({row.targets for row in rows}) > 1]
    if contradicting:
        yield Finding("fault", f"same prompt, other targets: {_ids(contradicting)}.")
    agreeing = [rows for rows in repeated if rows not in contradicting]
    if agreeing:
        yield Finding("fault", f"duplicates: {_ids(agreeing)}.")
    if not repeated:
        yield Finding("ok", f"{counted(len(task.examples), 'row')}, no prompt twice")
    yield from _review_targets(task)


def _ids(groups: list[list[Any]]) -> str:
    shown = [" = ".join(row.id for row in rows[:_SHOWN]) for rows in groups[:_SHOWN]]
    more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return ", ".join(shown) + more


def _review_targets(task: JsonTask) -> Iterator[Finding]:
    """Whether a model that answers with the target itself would be right."""
    from lmeval.api.scoring import Answer, AnswerReader, score_answers

    if task.metric.kind != "example":
        yield Finding(
            "note", f"whether targets can be reached is not checked for {task.metric.name}."
        )
        return
    reader = AnswerReader.from_settings(task.settings)
    unreached = []
    for row in task.examples:
        for target in row.targets:
            text = target[: task.settings.max_length]
            reading = reader.read(text) or ""
            (score,) = score_answers(task.metric, [Answer(row, reading)])
            if score.score < 1.0:
                unreached.append(f"{row.id} ({target!r} scores {score.score:g})")
    if unreached:
        more = f" and {len(unreached) - _SHOWN} more" if len(unreached) > _SHOWN else ""
        yield Finding(
            "fault",
            f"targets that their own text does not reach: {', '.join(unreached[:_SHOWN])}{more}.",
        )
    else:
        yield Finding("ok", "every target is right as an answer")


def _review_scores(task: Task, program: Path) -> Iterator[Finding]:
    from lmeval import testing
    from lmeval.api.failures import describe_failure

    for model in (testing.mute_model(), testing.echo_model()):
        try:
            scores = _evaluate(task, model)
        except UsageError as error:
            yield Finding("note", f"not evaluated: {error}")
            return
        except LmevalError as error:
            yield Finding("fault", f"fails with the {model.name} model: {error}")
            continue
        except (Exception, SystemExit) as error:  # a task of the user's may raise anything
            reason = describe_failure(error, program)
            yield Finding("fault", f"fails with the {model.name} model: {reason}")
            continue
        yield from _review_score_data(model.name, scores)


def _evaluate(task: Task, model: Model) -> list[ScoreData]:
    from lmeval.api.task import ScoreData

    accepted = inspect.signature(task.evaluate_model).parameters
    seed = {"random_seed": 0} if "random_seed" in accepted else {}
    scores: Any = task.evaluate_model(model, **seed)
    listed = list(scores) if isinstance(scores, (list, tuple)) else [scores]
    if not listed or not all(isinstance(score, ScoreData) for score in listed):
        raise TaskError(f"evaluate_model gives {scores!r}, where ScoreData are due.")
    return listed


def _review_score_data(model_name: str, scores: list[ScoreData]) -> Iterator[Finding]:
    high = [score for score in scores if score.score >= score.high_score]
    if high:
        where = ", ".join(score.subtask_description or "the task" for score in high[:_SHOWN])
        yield Finding("fault", f"the {model_name} model reaches the high score in {where}.")
    else:
        mean = math.fsum(score.score for score in scores) / len(scores)
        yield Finding("ok", f"the {model_name} model scores {mean:.4f}")
    if any(score.high_score <= score.low_score for score in scores):
        yield Finding("fault", "high_score must be above low_score.")
    marks = collections.Counter((s.subtask_description, s.number_of_shots) for s in scores)
    twice = [description for (description, _), count in marks.items() if count > 1]
    if twice:
        yield Finding("fault", f"sub-tasks that cannot be told apart: {twice[:_SHOWN]}.")
