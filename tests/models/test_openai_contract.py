# SPDX-License-Identifier: Apache-2.0
"""The contract of models, kept with both interfaces of a scripted server."""

from collections.abc import Iterator

import pytest
from scripted_server import ScriptedServer, small_model

from lmeval.api.model import Model
from lmeval.models.openai import OpenAIModel
from lmeval.testing import ModelTestMixin


class _WithServer(ModelTestMixin):
    server: ScriptedServer

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with ScriptedServer(small_model) as self.server:
            yield


class TestChat(_WithServer):
    def make_model(self) -> Model:
        return OpenAIModel(model="m", base_url=self.server.url)


class TestChatWithStopsSent(_WithServer):
    def make_model(self) -> Model:
        return OpenAIModel(model="m", base_url=self.server.url, send_stop=True)


class TestCompletions(_WithServer):
    prompts = ("compute: 2 + 2", "Wie heißt die Hauptstadt von 日本? 🙂", "x")
    scores_text = True

    def make_model(self) -> Model:
        return OpenAIModel(model="m", base_url=self.server.url, api="completions")


class TestCompletionsFromAStartText(TestCompletions):
    scores_whole_texts = True

    def make_model(self) -> Model:
        return OpenAIModel(
            model="m",
            base_url=self.server.url,
            api="completions",
            prompts_per_request=8,
            start_text="<s>",
        )
