# SPDX-License-Identifier: Apache-2.0
"""The model of the runs that test_kill.py kills: it logs every request that reaches it."""

import os
import random
import time

from lmeval.api.model import BatchModel, ModelData


class LoggedModel(BatchModel):
    """Takes 1 to 4 ms for a request; every third answer is right."""

    max_concurrency = 8
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
