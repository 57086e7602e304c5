# SPDX-License-Identifier: Apache-2.0
"""What the engine costs: `python benchmarks/engine.py [rows]`.

Its own CPU time for each row, its memory, how near it comes to the ideal rate with a slow model,
and what it makes of single requests that several threads send at the same time. The model answers
at once, or sleeps; what it does itself is part of the figures.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from processes import print_rows

from lmeval.api.example import Example
from lmeval.api.json_task import JsonTask
from lmeval.api.model import BatchModel, Model, ModelData
from lmeval.api.options import TaskOptions
from lmeval.engine.engine import Engine
from lmeval.engine.run import LoadedTask, run_tasks
from lmeval.engine.samples import SampledRun
from lmeval.engine.samples_folder import SamplesFolder
from lmeval.engine.settings import EngineSettings

PROMPT = "compute: {0} + {0}; answer with the number alone, please. " + "Think first. " * 8


class BenchmarkModel(BatchModel):
    """Sleeps for `seconds`, then answers every prompt with 30 characters."""

    deterministic = True

    def __init__(self, seconds: float = 0.0, max_concurrency: int = 1) -> None:
        self.seconds = seconds
        self.max_concurrency = max_concurrency
        self.calls = 0

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return ModelData("benchmark", "benchmark")

    def fingerprint(self) -> str:
        """See `Model.fingerprint`."""
        return "benchmark"

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[str]:
        """See `BatchModel.complete`."""
        self.calls += 1
        if self.seconds:
            time.sleep(self.seconds)
        return [f"an answer of {prompt[9:17]} and more" for prompt in prompts]


def texts(rows: int) -> list[str]:
    return [PROMPT.format(number) for number in range(rows)]


def cost_per_row(rows: int) -> None:
    table = []
    prompts = texts(rows)
    with tempfile.TemporaryDirectory() as folder:
        for label, store in (
            ("no store", None),
            ("store, all new", folder),
            ("store, all answered", folder),
        ):
            for batch_size in (32, 1):
                cache_dir = None if store is None else Path(store) / str(batch_size)
                settings = EngineSettings(cache_dir=cache_dir, batch_size=batch_size)
                with Engine(BenchmarkModel(), settings) as engine:
                    cpu, wall = time.process_time(), time.perf_counter()
                    engine.generate_text(prompts, 200, "\n")
                    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                table.append([label, str(batch_size), f"{cpu / rows * 1e6:.1f}", f"{wall:.2f}"])
    print(f"The engine alone, {rows:,} rows of {len(prompts[0])} characters in one call\n")
    print_rows(["", "batch size", "CPU µs a row", "wall s"], table)


def in_new_process(function: Callable[..., list[str]], *arguments: object) -> list[str]:
    """What `function` gives in a process of its own, so that memory is that of this job alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def whole_run(rows: int, cache_dir: str | None, samples_dir: str | None) -> list[str]:
    examples = [
        Example(id=str(number), prompt=text, targets=("7",), metric="exact_match")
        for number, text in enumerate(texts(rows))
    ]
    options = TaskOptions()
    task = LoadedTask("big", JsonTask("big", examples), "0")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    model = BenchmarkModel()
    with Engine(model, EngineSettings(cache_dir=cache_dir)) as engine:
        samples = None
        if samples_dir is not None:
            run = SampledRun(
                adapter=engine.name,
                model=engine.model_data(),
                fingerprint=engine.fingerprint(),
                options=options,
            )
            samples = SamplesFolder(samples_dir, run, {"big": "0"})
        run_tasks([task], engine, options, samples=samples)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    return [
        f"{cpu / rows * 1e6:.1f}",
        f"{wall:.2f}",
        f"{growth * 1024 / rows:.0f}",
        f"{model.calls:,}",
    ]


def whole_runs(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = [
            [label, *in_new_process(whole_run, rows, cache_dir, samples_dir)]
            for label, cache_dir, samples_dir in (
                ("no store, no samples", None, None),
                ("store and samples", folder, f"{folder}/samples"),
                ("the same again, all stored", folder, f"{folder}/samples"),
            )
        ]
    print(f"\nA whole task of {rows:,} rows, all kept: prompts, engine, scores, statistics\n")
    print_rows(["", "CPU µs a row", "wall s", "peak memory, bytes a row", "calls"], table)
    print("target: under 60 µs and 2 KB a row with store and samples; under 5 s when all is stored")


def memory_left(rows: int, deterministic: bool) -> list[str]:
    model = BenchmarkModel()
    model.deterministic = deterministic
    settled = rows // 10 // 1000 * 1000
    before = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        Engine(model, EngineSettings(cache_dir=Path(folder))) as engine,
    ):
        view = engine.for_task("t")
        for start in range(0, rows, 1000):
            if start == settled:
                before = _resident_bytes()
            view.generate_text([PROMPT.format(n) for n in range(start, start + 1000)])
        return [f"{(_resident_bytes() - before) / (rows - settled):.0f}"]


def memory_of_answered_rows(rows: int) -> None:
    table = [
        ["deterministic", *in_new_process(memory_left, rows, True)],
        ["samples numbered while a task runs", *in_new_process(memory_left, rows, False)],
    ]
    print("\nMemory that answered rows leave behind when the task forgets them, store on\n")
    print_rows(["model", "bytes a row"], table)
    print("target: none")


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def rate_of_threads() -> None:
    table = []
    for threads in (1, 8, 32, 128):
        for stored in (False, True):
            rows = 100 * threads
            with tempfile.TemporaryDirectory() as folder:
                settings = EngineSettings(
                    batch_size=1, concurrency=threads, cache_dir=Path(folder) if stored else None
                )
                with Engine(BenchmarkModel(0.05, 1000), settings) as engine:
                    cpu, wall = time.process_time(), time.perf_counter()
                    engine.generate_text(texts(rows))
                    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            share = rows / threads * 0.05 / wall
            table.append(
                [
                    str(threads),
                    "yes" if stored else "no",
                    f"{rows / wall:,.0f}",
                    f"{share:.1%}",
                    f"{cpu / rows * 1e6:.0f}",
                ]
            )
    print("\nA model that sleeps 50 ms, one request a call\n")
    print_rows(["threads", "store", "rows a second", "of the ideal rate", "CPU µs a row"], table)
    print("target: 95% with 8 threads, 90% with 128")


def send_one_by_one(model: Model) -> None:
    for turn in range(200):
        model.generate_text(f"turn {turn}")


def gathering() -> None:
    table = []
    for tasks in (1, 8):
        model = BenchmarkModel(0.005)
        model.deterministic = False  # so that equal requests are not shared
        with Engine(model) as engine, ThreadPoolExecutor(tasks) as pool:
            views = [engine.for_task(str(task)) for task in range(tasks)]
            wall = time.perf_counter()
            list(pool.map(send_one_by_one, views))
            wall = time.perf_counter() - wall
        requests = 200 * tasks
        table.append([str(tasks), f"{requests / wall:,.0f}", f"{requests / model.calls:.1f}"])
    print("\nTasks that send one request at a time to a model that takes 5 ms a batch\n")
    print_rows(["tasks side by side", "rows a second", "requests in a batch"], table)


def main(rows: int = 100_000) -> None:
    cost_per_row(rows)
    whole_runs(rows)
    memory_of_answered_rows(rows)
    rate_of_threads()
    gathering()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
