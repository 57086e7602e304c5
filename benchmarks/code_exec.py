# SPDX-License-Identifier: Apache-2.0
"""What one prediction costs in the sandbox, beside the ways without walls.

    python benchmarks/code_exec.py [--predictions 300] [--rounds 5] [--python /path/to/python]

Prints, for each way, predictions per second and CPU milliseconds each: user and system time of all
processes together, from the kernel. The ways take turns within each round, so that a busy machine
is busy for all of them. A trivial prediction is one line, called three times.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lmeval.sandbox import Job, Sandbox, extract_source

TRIVIAL = "def f(x):\n    return x * 2\n"
INPUTS = [1, 2, 3]
ANSWERS = [2, 4, 6]
REALISTIC = """Here is a solution with a sieve:

```python
import math
import re
from collections import Counter
from typing import List

def sieve(n: int) -> List[int]:
    flags = [True] * (n + 1)
    for i in range(2, math.isqrt(n) + 1):
        if flags[i]:
            for j in range(i * i, n + 1, i):
                flags[j] = False
    return [i for i in range(2, n + 1) if flags[i]]

def f(n):
    digits = Counter(re.findall(r"[0-9]", " ".join(map(str, sieve(n)))))
    return [len(sieve(n)), digits["3"]]
```

It counts the primes up to n, and the threes in them.
"""
REALISTIC_PAIRS = [(10, [4, 1]), (20, [8, 2]), (30, [10, 3]), (50, [15, 6]), (100, [25, 9])]

SCRIPT = "\n".join([TRIVIAL, "import json", f"print(json.dumps([f(x) for x in {INPUTS}]))"])
# (wall seconds, CPU seconds) of a number of predictions
Way = Callable[[int], tuple[float, float]]


def own_cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def worker_cpu(sandbox: Sandbox) -> float:
    """CPU seconds of the sandbox's workers and of their children that have ended."""
    total = 0
    for worker in sandbox._pool:
        stat = Path(f"/proc/{worker.pid}/stat").read_text(encoding="utf-8")
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def in_sandbox(sandbox: Sandbox, job: Job) -> Way:
    def way(count: int) -> tuple[float, float]:
        start, cpu = time.perf_counter(), own_cpu() + worker_cpu(sandbox)
        verdicts = sandbox.evaluate([job] * count)
        spent = time.perf_counter() - start, own_cpu() + worker_cpu(sandbox) - cpu
        if any(verdict.score != 1.0 for verdict in verdicts):
            raise SystemExit(f"wrong score: {verdicts[0]}")
        return spent

    return way


def one_by_one(run: Callable[[], Any]) -> Way:
    def way(count: int) -> tuple[float, float]:
        start, cpu = time.perf_counter(), own_cpu()
        for _ in range(count):
            if run() != ANSWERS:
                raise SystemExit("wrong answer")
        return time.perf_counter() - start, own_cpu() - cpu

    return way


def run_subprocess(command: Sequence[str]) -> Any:
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def answer(pipe: Connection) -> None:
    namespace: dict[str, Any] = {}
    exec(TRIVIAL, namespace)
    pipe.send([namespace["f"](x) for x in INPUTS])


def run_multiprocessing() -> Any:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(sender,))
    process.start()
    sender.close()
    result = receiver.recv()
    process.join()
    receiver.close()
    return result


def measure(ways: dict[str, tuple[Way, int]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """(seconds, CPU seconds) per prediction of each way, one entry a round."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, (way, count) in ways.items():
            wall, cpu = way(count)
            costs[name].append((wall / count, cpu / count))
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--predictions", type=int, default=300, help="per way and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    count, few = options.predictions, max(1, options.predictions // 10)

    trivial = Job(TRIVIAL, INPUTS, [[right] for right in ANSWERS])
    realistic = Job(
        extract_source(REALISTIC),
        [given for given, _ in REALISTIC_PAIRS],
        [[right] for _, right in REALISTIC_PAIRS],
    )
    bare = [options.python, "-I", "-S", "-c", SCRIPT]
    start = time.perf_counter()
    with (
        Sandbox(workers=1, python=options.python) as one,
        Sandbox(workers=2, python=options.python) as two,
    ):
        one.start()
        first = time.perf_counter() - start
        two.evaluate([trivial] * 4)
        ways: dict[str, tuple[Way, int]] = {
            "sandbox, 1 worker": (in_sandbox(one, trivial), count),
            "multiprocessing fork": (one_by_one(run_multiprocessing), count),
            "subprocess": (
                one_by_one(lambda: run_subprocess([options.python, "-c", SCRIPT])),
                few,
            ),
            "subprocess -I -S": (one_by_one(lambda: run_subprocess(bare)), few),
            "sandbox, 2 workers": (in_sandbox(two, trivial), count),
            "sandbox, realistic": (in_sandbox(one, realistic), count),
        }
        costs = measure(ways, options.rounds)
        held = one.report()

    print(
        f"Python {held['python']}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]}"
    )
    print(f"from Sandbox() to the first verdict: {first * 1000:.0f} ms\n")
    print(f"{'way':22} {'best/s':>8} {'median/s':>9} {'best CPU ms':>12} {'median CPU ms':>14}")
    for name, per_round in costs.items():
        walls, cpus = zip(*per_round, strict=True)
        print(
            f"{name:22} {1 / min(walls):8.0f} {1 / statistics.median(walls):9.0f} "
            f"{min(cpus) * 1000:12.2f} {statistics.median(cpus) * 1000:14.2f}"
        )
    ours = min(cpu for _, cpu in costs["sandbox, 1 worker"])
    print()
    for name in ("subprocess", "subprocess -I -S", "multiprocessing fork"):
        print(f"CPU of {name}: {min(cpu for _, cpu in costs[name]) / ours:.1f} times the sandbox's")
    print(f"1,000 trivial predictions: {ours * 1000:.2f} s of CPU")


if __name__ == "__main__":
    main()
