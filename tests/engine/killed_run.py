# SPDX-License-Identifier: Apache-2.0
"""The program that test_kill.py kills: three tasks, eight threads, a store and a leaderboard.

Usage: killed_run.py TASKS_DIR CACHE_DIR CALL_LOG LEADERBOARD. The model writes a line into CALL_LOG
for every request that reaches it.
"""

import os
import random
import sys
import time

from lmeval.api.leaderboard_file import write_leaderboard
from lmeval.api.model import BatchModel, ModelData
from lmeval.api.options import TaskOptions
from lmeval.engine.engine import Engine
from lmeval.engine.run import load_tasks, run_tasks
from lmeval.engine.settings import EngineSettings

WORKERS = 8


class LoggedModel(BatchModel):
    """Takes 1 to 4 ms for a request; every third answer is right."""

    max_concurrency = WORKERS
    deterministic = True

    def __init__(self, log):
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.rng = random.Random()

    def model_data(self):
        return ModelData("test", "logged")

    def fingerprint(self):
        return "logged-1"

    def complete(self, prompts, max_length, stops):
        for prompt in prompts:
            os.write(self.log, f"{prompt}\n".encode())
        time.sleep(self.rng.uniform(0.001, 0.004))
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, prompt):
        number = int(prompt.rsplit(" ", 1)[1])
        return str(2 * number) if number % 3 == 0 else f"not {prompt}"


def main(tasks_dir, cache_dir, log, leaderboard):
    options = TaskOptions(seed=0)
    tasks = load_tasks(["all"], options, [tasks_dir])
    settings = EngineSettings(cache_dir=cache_dir, batch_size=1, concurrency=WORKERS)
    with Engine(LoggedModel(log), settings) as engine:
        print("ready", flush=True)
        board = run_tasks(tasks, engine, options)
    write_leaderboard(board, leaderboard, include_per_example=True, overwrite=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
