# SPDX-License-Identifier: Apache-2.0
"""Requests a second and CPU a request against a server that takes 50 ms, beside lm-eval.

usage: python benchmarks/models_http.py [--concurrency 32,64,128] [--seconds 4] [--repeats 3]
                                        [--only WORD]

Ideal is concurrency / 50 ms. CPU is that of the asking process. All are measured in turn, several
times; each figure is the median, and the best stands in brackets. "bare sockets" is http.client and
nothing around it: what it misses of the ideal is the machine's and the server's.
lm-eval is measured where it is installed (pip install 'lm-eval[api]').
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib.util
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

DELAY_S = 0.05
Contender = Callable[[str, int, Sequence[str]], None]
"""Asks the server at a URL, so many requests at once, for the answers to prompts."""


def in_threads(n_threads: int, prompts: Sequence[str], ask: Callable[[str], object]) -> None:
    """Call `ask` for every prompt from `n_threads` threads."""
    waiting = iter(prompts)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                prompt = next(waiting, None)
            if prompt is None:
                return
            ask(prompt)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bare_sockets(url: str, concurrency: int, prompts: Sequence[str]) -> None:
    """http.client with a connection a thread, and nothing around it."""
    mine = threading.local()
    host = url.removeprefix("http://").removesuffix("/v1")

    def ask(prompt: str) -> None:
        if not hasattr(mine, "connection"):
            mine.connection = http.client.HTTPConnection(host)
        messages = [{"role": "user", "content": prompt}]
        body = json.dumps({"model": "m", "messages": messages, "temperature": 0})
        mine.connection.request("POST", "/v1/chat/completions", body)
        json.loads(mine.connection.getresponse().read())

    in_threads(concurrency, prompts, ask)


def lmeval_model(url: str, concurrency: int, prompts: Sequence[str]) -> None:
    """The model openai, called from threads."""
    from lmeval.models.openai import OpenAIModel

    model = OpenAIModel(model="m", base_url=url, max_concurrency=concurrency)
    in_threads(concurrency, prompts, model.generate_text)
    model.close()


def lmeval_engine(url: str, concurrency: int, prompts: Sequence[str]) -> None:
    """The same behind the engine, without a store."""
    from lmeval.engine.engine import Engine
    from lmeval.engine.settings import EngineSettings
    from lmeval.models.openai import OpenAIModel

    model = OpenAIModel(model="m", base_url=url, max_concurrency=concurrency)
    with Engine(model, EngineSettings(concurrency=concurrency, batch_size=1)) as engine:
        answers = engine.generate_text(list(prompts))
    assert all(answer.startswith("answer ") for answer in answers)


def lm_eval(url: str, concurrency: int, prompts: Sequence[str]) -> None:
    """lm-eval's local-completions, called as its evaluator calls it."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI

    model = LocalCompletionsAPI(
        base_url=f"{url}/completions",
        model="m",
        tokenizer_backend=None,
        tokenized_requests=False,
        num_concurrent=concurrency,
    )
    wishes = {"until": ["\n"], "max_gen_toks": 16, "temperature": 0}
    requests = [
        Instance("generate_until", {}, (prompt, dict(wishes)), number)
        for number, prompt in enumerate(prompts)
    ]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        model.generate_until(requests)  # its progress bar can't be turned off


CONTENDERS: dict[str, Contender] = {
    "bare sockets": bare_sockets,
    "lmeval, model": lmeval_model,
    "lmeval, engine": lmeval_engine,
    "lm-eval, local-completions": lm_eval,
}
LM_EVAL_NEEDS = ("lm_eval", "aiohttp", "requests", "tenacity", "tqdm")
"""Without these it fails in the midst of a run."""


@contextlib.contextmanager
def load_server() -> Iterator[str]:
    """Run the server in a process of its own; gives its base URL."""
    program = Path(__file__).with_name("http_server.py")
    command = [sys.executable, str(program), str(DELAY_S * 1000)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}/v1"
        finally:
            process.terminate()


def cpu_s() -> float:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@attrs.frozen
class Figures:
    """What a measurement gives."""

    rate: float
    """Requests a second."""
    share: float
    """The rate as a part of the ideal one."""
    cpu_ms: float
    """CPU milliseconds a request."""


def measure(contender: Contender, url: str, concurrency: int, n_requests: int) -> Figures:
    """Let a contender ask `n_requests` times."""
    prompts = [f"{number}. What is the capital of France? " * 4 for number in range(n_requests)]
    contender(url, concurrency, prompts[:concurrency])  # what is imported at the first call
    cpu, started = cpu_s(), time.perf_counter()
    contender(url, concurrency, prompts)
    rate = n_requests / (time.perf_counter() - started)
    return Figures(rate, rate * DELAY_S / concurrency, (cpu_s() - cpu) * 1000 / n_requests)


def line(name: str, concurrency: int, measured: Sequence[Figures]) -> str:
    """A line of the table."""
    rate = statistics.median(one.rate for one in measured)
    share = statistics.median(one.share for one in measured)
    cpu_ms = statistics.median(one.cpu_ms for one in measured)
    best_share = f"({max(one.share for one in measured):.1%})"
    best_cpu_ms = f"({min(one.cpu_ms for one in measured):.3f})"
    figures = f"{rate:12.0f}{share:10.1%}{best_share:>9}{cpu_ms:8.3f}{best_cpu_ms:>8}"
    return f"{name:28}{concurrency:8}{figures}"


def measurable(word: str) -> dict[str, Contender]:
    """The contenders with `word` in their names; says which of them cannot be measured."""
    found = {name: contender for name, contender in CONTENDERS.items() if word in name}
    missing = [name for name in LM_EVAL_NEEDS if importlib.util.find_spec(name) is None]
    for name in [name for name, contender in found.items() if contender is lm_eval and missing]:
        del found[name]
        said = f"{', '.join(missing)} not installed (pip install 'lm-eval[api]')"
        print(f"{name}: not measured, {said}\n")
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--concurrency", default="32,64,128")
    parser.add_argument("--seconds", type=float, default=4, help="ideal time of a measurement")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each")
    parser.add_argument("--only", default="", help="a word in the names of those to measure")
    options = parser.parse_args()
    os.environ.pop("OPENAI_API_KEY", None)
    logging.disable(logging.WARNING)
    print(f"load of the machine at the start: {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs\n")
    contenders = measurable(options.only)
    print(f"{'':28}{'at once':>8}{'requests/s':>12}{'of ideal':>10}{'':9}{'CPU ms':>8}")
    with load_server() as url:
        for concurrency in map(int, options.concurrency.split(",")):
            n_requests = int(options.seconds * concurrency / DELAY_S)
            measured: dict[str, list[Figures]] = {name: [] for name in contenders}
            for _ in range(options.repeats):
                for name, contender in contenders.items():
                    measured[name].append(measure(contender, url, concurrency, n_requests))
            for name, figures in measured.items():
                print(line(name, concurrency, figures), flush=True)


if __name__ == "__main__":
    main()
