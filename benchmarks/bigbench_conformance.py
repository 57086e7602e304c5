# SPDX-License-Identifier: Apache-2.0
"""Runs lmeval against the original BIG-bench: its own unit tests, and every task of it.

    pip download --no-deps --no-binary :all: bigbench==1.0.0     # 358 MB; 1.8 GB unpacked
    python benchmarks/bigbench_conformance.py path/to/bigbench-1.0.0 [--tasks NAME ...]

Needs, besides lmeval: numpy scipy scikit-learn sacrebleu rouge-score typing_extensions pytest, and
for some task.py files absl-py editdistance tqdm RestrictedPython six. Each task is run twice, by
the original and by lmeval, each in a process of its own, with the same deterministic fake model.
JSON tasks are run with 0 and 2 shots, with 32 examples a sub-task where there are more than 500.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bigbench_reference

ROOT = Path(__file__).resolve().parents[1]
SHOTS = [0, 2]
SEED = 0
NOT_REPEATABLE = {
    "convinceme": "draws from an unseeded generator",
    "training_on_test_set": "ignores the seed on purpose",
    "self_awareness": "its prompts hold facts of the running interpreter",
}
LEAST_EXAMPLES = {"gender_sensitivity_chinese": 50, "gender_sensitivity_english": 50}
UNIT_TESTS = {
    "api/test_task_metrics.py": "not bleurt",
    "api/test_results.py": "",
    "models/test_model_utils.py": "",
    "api/test_tasks.py": "not all_tasks and not huggingface",
}
CONFTEST = """
import sys, types
from pathlib import Path
from lmeval.bigbench.shim.modules import TaskModules
try:
    import immutabledict
except ImportError:
    sys.modules["immutabledict"] = types.SimpleNamespace(immutabledict=dict)
installed = TaskModules(Path({tasks!r})).installed(0)
installed.__enter__()
def pytest_generate_tests(metafunc):
    if "tasks" in metafunc.fixturenames:
        metafunc.parametrize("tasks", [""])
"""


def run_unit_tests(source: Path) -> tuple[int, int]:
    """Run the original's own tests with lmeval in place of its modules.

    Returns:
      How many passed, and how many there were.
    """
    passed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        tasks = source / "bigbench" / "benchmark_tasks"
        Path(folder, "conftest.py").write_text(CONFTEST.format(tasks=str(tasks)))
        for test, selection in UNIT_TESTS.items():
            file = Path(folder, Path(test).name)
            shutil.copy(source / "bigbench" / test, file)
            command = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
            command += [str(file), "-k", selection, "--junitxml", f"{folder}/result.xml"]
            subprocess.run(
                command, cwd=folder, env=_environment(), capture_output=True, check=False
            )
            suite = xml.etree.ElementTree.parse(f"{folder}/result.xml").getroot()[0]
            n = int(suite.attrib["tests"])
            bad = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
            print(f"  {test:<28} {n - bad} of {n}")
            passed, total = passed + n - bad, total + n
    return passed, total


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}


def run_worker(kind: str, source: Path, task: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Run one task in a process of its own; gives what it asked and scored, or `error`."""
    command = [sys.executable, "-B", "-W", "ignore", __file__, str(source), "--worker", kind]
    command += ["--tasks", task, "--plan", json.dumps(plan)]
    result = subprocess.run(command, env=_environment(), capture_output=True, text=True)
    lines = result.stdout.strip().splitlines()
    if result.returncode != 0 or not lines:
        return {"error": (result.stderr.strip().splitlines() or ["no word"])[-1][:200]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def work(kind: str, source: Path, name: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Run one task here, by the original code or by lmeval."""
    folder = source / "bigbench" / "benchmark_tasks" / name
    is_program = (folder / "task.py").is_file()
    model = bigbench_reference.Recorder({} if is_program else bigbench_reference.lookup(folder))
    started = time.perf_counter()
    run = _run_original if kind == "original" else _run_lmeval
    scores, plan = run(source, folder, is_program, plan, model)
    return {
        "seconds": time.perf_counter() - started,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "calls": model.calls,
        "scores": [_score(score) for score in scores],
        "plan": plan,
    }


def _run_original(
    source: Path, folder: Path, is_program: bool, plan: dict[str, Any], model: Any
) -> tuple[list[Any], dict[str, Any]]:
    sys.path.insert(0, str(source))
    bigbench_reference.install_stubs()
    if is_program:
        plan = {"shots": [0], "max_examples": LEAST_EXAMPLES.get(folder.name, 32)}
        task = bigbench_reference.load_program_task(folder.name, SEED)
        wishes = {"max_examples": plan["max_examples"], "random_seed": SEED}
        accepted = inspect.signature(task.evaluate_model).parameters
        scores = task.evaluate_model(model, **{k: v for k, v in wishes.items() if k in accepted})
        return scores if isinstance(scores, list) else [scores], plan
    task = bigbench_reference.load_json_task(source, folder, SHOTS)
    n_leaves = max(1, len(task.subtasks))
    limit = None if task.num_examples <= 500 else 32 * n_leaves
    plan = {"shots": task.shot_list, "max_examples": limit}
    return task.evaluate_model(model, max_examples=limit), plan


def _run_lmeval(
    source: Path, folder: Path, is_program: bool, plan: dict[str, Any], model: Any
) -> tuple[list[Any], dict[str, Any]]:
    from lmeval import bigbench
    from lmeval.api.metrics import metric
    from lmeval.api.options import TaskOptions
    from lmeval.sandbox import Sandbox

    metric("bleurt")(lambda prediction, targets, extras: 0.0)
    shots, limit = tuple(plan["shots"]), plan["max_examples"]
    with Sandbox() as sandbox:
        if is_program:
            options = TaskOptions(max_examples=limit, seed=SEED, sandbox=sandbox)
            task = bigbench.load_program_task(folder, folder.name, options)
        else:
            options = TaskOptions(shots=shots, max_examples=limit)
            task = bigbench.load_json_task(folder, folder.name, options, rouge_seed=0)
        scores = task.evaluate_model(model)
    return scores if isinstance(scores, list) else [scores], plan


def _score(score: Any) -> dict[str, Any]:
    names = ("preferred_score", "number_of_shots", "low_score", "high_score", "subtask_description")
    return {
        "score_dict": {str(name): _plain(value) for name, value in score.score_dict.items()},
        **{name: _plain(getattr(score, name)) for name in names},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def equal_scores(original: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]) -> int:
    """How many of the original's scores are there again, in order, to 1e-9."""
    return sum(_same(a, b) for a, b in zip(original, ours, strict=False))


def _same(original: Any, ours: Any) -> bool:
    if isinstance(original, dict):
        further = {key for key in ours if key not in original and not key.endswith("_corrected")}
        return not further and all(
            key in ours and _same(v, ours[key]) for key, v in original.items()
        )
    if isinstance(original, (int, float)) and isinstance(ours, (int, float)):
        return original == ours or abs(original - ours) <= 1e-9 or (original != original != ours)
    return bool(original == ours)


class Totals:
    """What the tasks have come to so far; the sums are over repeatable tasks."""

    def __init__(self) -> None:
        self.counts = [0, 0, 0, 0]
        self.seconds = [0.0, 0.0]
        self.failed: list[str] = []

    def add(self, name: str, original: dict[str, Any], ours: dict[str, Any]) -> str:
        """Take account of a task; gives its line in the table."""
        if "error" in ours:
            self.failed.append(name)
            return f"lmeval fails: {ours['error']}"
        calls = zip(original["calls"], ours["calls"], strict=False)
        counts = [
            sum(a == b for a, b in calls),
            len(original["calls"]),
            equal_scores(original["scores"], ours["scores"]),
            len(original["scores"]),
        ]
        if len(original["calls"]) != len(ours["calls"]):
            counts[0] = 0
        self.seconds[0] += original["seconds"]
        self.seconds[1] += ours["seconds"]
        note = ""
        if name in NOT_REPEATABLE:
            note = f"  ({NOT_REPEATABLE[name]})"
        else:
            self.counts = [a + b for a, b in zip(self.counts, counts, strict=True)]
        return (
            f"{counts[0]:>5}/{counts[1]:<5} {counts[2]:>5}/{counts[3]:<5} "
            f"{original['seconds']:7.1f} {ours['seconds']:7.1f} "
            f"{original['peak_mb']:>5} {ours['peak_mb']:>5}{note}"
        )


def compare(source: Path, names: Sequence[str]) -> None:
    """Run the tasks by both, and print what agrees, the time and the memory."""
    print(f"{'task':<48} {'calls':>11} {'scores':>11} {'seconds':>15} {'peak MB':>11}")
    totals = Totals()
    for name in names:
        original = run_worker("original", source, name, {})
        if "error" in original:
            line = f"the original fails: {original['error']}"
        else:
            line = totals.add(name, original, run_worker("lmeval", source, name, original["plan"]))
        print(f"{name:<48} {line}", flush=True)
    calls, all_calls, scores, all_scores = totals.counts
    print(
        f"\nrepeatable tasks: {calls} of {all_calls} calls and {scores} of {all_scores} scores "
        f"agree; {totals.seconds[0]:.0f} s by the original, {totals.seconds[1]:.0f} s by lmeval; "
        f"lmeval fails on {len(totals.failed)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="the unpacked source of bigbench 1.0.0")
    parser.add_argument("--tasks", nargs="*", help="only these")
    parser.add_argument("--worker", choices=["original", "lmeval"], help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    source = arguments.source.resolve()
    if arguments.worker:
        with contextlib.redirect_stdout(sys.stderr):
            result = work(arguments.worker, source, arguments.tasks[0], arguments.plan)
        print(json.dumps(result))
        return
    print("the original's own tests, run on lmeval:")
    passed, total = run_unit_tests(source)
    print(f"  {passed} of {total} pass\n")
    folder = source / "bigbench" / "benchmark_tasks"
    files = [*folder.glob("*/task.json"), *folder.glob("*/task.py")]
    compare(source, arguments.tasks or sorted({file.parent.name for file in files}))


if __name__ == "__main__":
    main()
