# SPDX-License-Identifier: Apache-2.0
"""What the engine's tests share: models that misbehave on request, a listener to messages."""

import threading

from lmeval.api.errors import UnsupportedByModel
from lmeval.api.model import BatchModel, Model, ModelData


class EchoModel(BatchModel):
    """Answers a prompt with itself in square brackets, and scores targets by their length."""

    deterministic = True

    def __init__(self, name="echo", fingerprint="echo-1", max_concurrency=1, deterministic=True):
        self.model_name = name
        self.stated_fingerprint = fingerprint
        self.max_concurrency = max_concurrency
        self.deterministic = deterministic
        self.batches = []
        self.lock = threading.Lock()

    @property
    def asked(self):
        """Every request that reached the model, in the order of arrival."""
        return [payload for batch in self.batches for payload in batch]

    def model_data(self):
        return ModelData("test", self.model_name)

    def fingerprint(self):
        return self.stated_fingerprint

    def record(self, batch):
        with self.lock:
            self.batches.append(list(batch))

    def complete(self, prompts, max_length, stops):
        self.record(prompts)
        return [self.answer(prompt) for prompt in prompts]

    def answer(self, prompt):
        return f"[{prompt}]"

    def score(self, contexts, targets):
        self.record(zip(contexts, map(tuple, targets), strict=True))
        return [[-float(len(target) + 1) for target in wanted] for wanted in targets]

    def rolling_log_prob(self, texts):
        self.record(texts)
        return [-float(len(text)) for text in texts]


class CountingModel(EchoModel):
    """Not deterministic: the n-th answer ever given to a prompt says so."""

    def __init__(self, **settings):
        super().__init__(deterministic=False, **settings)
        self.given = {}

    def answer(self, prompt):
        with self.lock:
            self.given[prompt] = self.given.get(prompt, 0) + 1
            return f"{prompt} answer {self.given[prompt]}"


class ScriptedModel(EchoModel):
    """Does what `script(prompts)` does with each batch of prompts."""

    def __init__(self, script, **settings):
        super().__init__(**settings)
        self.script = script

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        self.record(inputs)
        return self.script(inputs)

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        self.record(inputs)
        return self.script(inputs)


class TextOnlyModel(Model):
    """Writes text and can do nothing else."""

    def model_data(self):
        return ModelData("test", "text-only")

    def generate_text(self, inputs, max_length=None, stop_string=None, output_regex=None):
        return list(inputs)

    def cond_log_prob(self, inputs, targets, absolute_normalization=False):
        raise UnsupportedByModel("The model text-only cannot score given text.")


class Notices:
    """Shows no progress, and keeps the messages that an engine gives."""

    def __init__(self):
        self.messages = []

    def advanced(self, task, counts):
        pass

    def finished(self, task):
        pass

    def tick(self):
        pass

    def notice(self, message):
        self.messages.append(message)
