# SPDX-License-Identifier: Apache-2.0
"""A run that is killed again and again ends as if nothing had happened, and asks nothing twice."""

import collections
import json
import pathlib
import random
import subprocess
import sys
import time

import pytest

from lmeval.api.leaderboard_file import without_times

PROGRAM = "import sys; from lmeval.cli.main import main; sys.exit(main(sys.argv[1:]))"
MODEL = pathlib.Path(__file__).with_name("logged_model.py")
ROWS = (700, 650, 650)
WORKERS = 8


def write_tasks(folder):
    for task, n_rows in enumerate(ROWS):
        rows = [
            {
                "id": str(number),
                "prompt": f"task {task} number {number}",
                "targets": [str(2 * number)],
                "metric": "exact_match",
            }
            for number in range(n_rows)
        ]
        (folder / f"task{task}").mkdir(parents=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"task{task}" / "task.jsonl").write_text(text, encoding="utf-8")


class Runs:
    """Runs the command in one folder; `asked` holds what reached the model, one list a run."""

    def __init__(self, folder, tasks, *flags, concurrency=WORKERS):
        self.folder = folder
        self.log = folder / "calls.log"
        self.command = [
            *(sys.executable, "-c", PROGRAM, "evaluate", "--task=all", f"--tasks_dir={tasks}"),
            *(f"--model={MODEL}:LoggedModel", "--model_args=log=calls.log", "--cache_dir=cache"),
            *("--batch_size=1", f"--concurrency={concurrency}", "--samples_dir=samples", "--quiet"),
            *("--include_per_example", *flags),
        ]
        self.asked = []
        folder.mkdir()
        self.log.touch()

    def run(self, until=None):
        """Run to the end, or until `until()`, called at the first request, returns.

        Gives whether the run was killed before its end.
        """
        seen = self.log.stat().st_size
        with subprocess.Popen(self.command, cwd=self.folder, stdout=subprocess.DEVNULL) as process:
            if until is not None:
                while self.log.stat().st_size == seen and process.poll() is None:
                    time.sleep(0.005)
                until()
                process.kill()
        with open(self.log, encoding="utf-8") as file:
            file.seek(seen)
            self.asked.append(file.read().splitlines())
        if until is None:
            assert process.returncode == 0
        return process.returncode != 0

    def content(self):
        """The leaderboard and the samples without times."""
        lines = (self.folder / "leaderboard.json").read_bytes(), *self._samples()
        return [json.dumps(without_times(json.loads(line))) for line in lines]

    def _samples(self):
        for path in sorted((self.folder / "samples").iterdir()):
            yield from path.read_bytes().splitlines()

    def scored(self):
        """Every answer in the samples; a line that is cut off may only be the last of its file."""
        rows = []
        for path in (self.folder / "samples").glob("*.jsonl"):
            head, *lines, _ = path.read_bytes().split(b"\n")
            assert json.loads(head)["schema"] == "samples.v1"
            rows += [row for row in map(json.loads, lines) if "id" in row]
        return [
            json.dumps({key: row[key] for key in ("task", "id", "sample", "prediction", "score")})
            for row in rows
        ]


@pytest.mark.parametrize("parallel_tasks", [1, 3])
@pytest.mark.parametrize(
    "kills", [pytest.param(3, id="short"), pytest.param(30, id="long", marks=pytest.mark.slow)]
)
def test_a_killed_run_goes_on_where_it_stopped(tmp_path, kills, parallel_tasks):
    rng = random.Random()
    write_tasks(tmp_path / "tasks")
    unbroken = Runs(tmp_path / "unbroken", tmp_path / "tasks")
    unbroken.run()
    assert collections.Counter(unbroken.asked[0]).most_common(1)[0][1] == 1
    assert len(unbroken.asked[0]) == sum(ROWS)

    parallel = f"--parallel_tasks={parallel_tasks}"
    broken = Runs(tmp_path / "broken", tmp_path / "tasks", parallel)
    # The work takes about 0.7 s in all, after the first request.
    killed = 0
    expected = unbroken.scored()
    for _ in range(kills):
        killed += broken.run(until=lambda: time.sleep(rng.uniform(0, 0.7 / kills)))
        scored = broken.scored()
        assert set(scored) <= set(expected)
        assert len(set(scored)) == len(scored)
    broken.run()
    assert killed > 0
    assert broken.content() == unbroken.content()
    assert set().union(*broken.asked) == set(unbroken.asked[0])
    for number, asked in enumerate(broken.asked):
        assert len(set(asked)) == len(asked)
        again = set(asked).intersection(*[set().union(*broken.asked[number + 1 :])])
        # Asked once more is only what was in flight: at most one request a worker.
        assert len(again) <= WORKERS
    broken.run()
    assert broken.asked[-1] == []


def test_a_killed_run_leaves_the_answers_that_were_scored(tmp_path):
    write_tasks(tmp_path / "tasks")
    runs = Runs(tmp_path / "run", tmp_path / "tasks", concurrency=1)
    path = runs.folder / "samples" / "task0.jsonl"

    def until_rows_are_there():
        deadline = time.monotonic() + 30
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.005)

    assert runs.run(until=until_rows_are_there)
    asked = len(runs.asked[0])
    scored = runs.scored()
    assert 0 < len(scored) <= asked < ROWS[0]  # the whole task takes more than a second
    words = ["rescore", "samples", "--tasks_dir=../tasks", "--output=again.json"]
    again = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=runs.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 1
    assert f"broke off after {len(scored)} scored answers; run its command again" in again.stdout
    runs.run()
    assert len(runs.scored()) == len({*runs.scored()}) == sum(ROWS)
    assert len(runs.asked[1]) <= sum(ROWS) - asked + 1
