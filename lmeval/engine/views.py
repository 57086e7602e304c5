# SPDX-License-Identifier: Apache-2.0
"""The methods of a model, carried out by an engine: for everybody, or in the name of one task."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from lmeval.api.errors import InvalidValueError
from lmeval.api.model import (
    Completion,
    LogProbs,
    Model,
    ModelData,
    StopStrings,
    compile_output_regex,
    finish_completion,
    paired_targets,
    stop_strings,
)
from lmeval.engine.kinds import ScoreRequest, TextRequest, WholeTextRequest
from lmeval.engine.occurrences import Occurrences
from lmeval.engine.schedule import Tally

if TYPE_CHECKING:
    from lmeval.engine.engine import Engine


class Asker(Model):
    """The methods of a model, carried out by an engine in the name of one task."""

    max_concurrency = 1_000_000  # the engine orders its callers itself

    def __init__(self, engine: Engine, tally: Tally) -> None:
        self._engine = engine
        self.tally = tally

    def generate_text(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        max_length: int | None = None,
        stop_string: StopStrings = None,
        output_regex: str | None = None,
    ) -> str | list[str]:
        """See `Model.generate_text`; a request that fails gives a Completion with `error`.

        Raises:
          UnsupportedByModel: the model writes no text.
          InvalidValueError: an argument cannot be right.
          RunStopped: the run was stopped meanwhile.
        """
        pattern = compile_output_regex(output_regex)
        stops = stop_strings(stop_string)
        prompts = [inputs] if isinstance(inputs, str) else list(inputs)
        _check_texts("generate_text", prompts)
        answers = self._engine.ask(self, TextRequest(max_length, stops), prompts)
        finished = [finish_completion(text, max_length, stops, pattern) for text in answers]
        return finished[0] if isinstance(inputs, str) else list(finished)

    def cond_log_prob(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        targets: Sequence[str] | Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> list[float] | list[list[float]]:
        """See `Model.cond_log_prob`; a request that fails gives LogProbs with `error`.

        Raises:
          UnsupportedByModel: the model cannot score given text.
          InvalidValueError: an argument cannot be right.
          RunStopped: the run was stopped meanwhile.
        """
        contexts, target_lists = paired_targets(inputs, targets)
        _check_texts("cond_log_prob", contexts)
        kind = ScoreRequest(bool(absolute_normalization))
        pairs = list(zip(contexts, target_lists, strict=True))
        answers = self._engine.ask(self, kind, pairs)
        return answers[0] if isinstance(inputs, str) else list(answers)

    def generate_text_as_completed(
        self, inputs: Sequence[str], max_length: int | None = None, stop_string: StopStrings = None
    ) -> Generator[list[tuple[int, Completion]]]:
        """See `Model.generate_text_as_completed`; what has come is given four times a second.

        Raises:
          UnsupportedByModel: the model writes no text.
          InvalidValueError: an argument cannot be right.
          RunStopped: the run was stopped meanwhile.
        """
        stops = stop_strings(stop_string)
        prompts = list(inputs)
        _check_texts("generate_text_as_completed", prompts)
        kind = TextRequest(max_length, stops)
        with contextlib.closing(self._engine.ask_as_completed(self, kind, prompts)) as parts:
            for part in parts:
                yield [(at, finish_completion(text, max_length, stops, None)) for at, text in part]

    def cond_log_prob_as_completed(
        self,
        inputs: Sequence[str],
        targets: Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> Generator[list[tuple[int, LogProbs]]]:
        """See `Model.cond_log_prob_as_completed`; what has come is given four times a second.

        Raises:
          UnsupportedByModel: the model cannot score given text.
          InvalidValueError: an argument cannot be right.
          RunStopped: the run was stopped meanwhile.
        """
        contexts, target_lists = paired_targets(list(inputs), targets)
        _check_texts("cond_log_prob_as_completed", contexts)
        kind = ScoreRequest(bool(absolute_normalization))
        pairs = list(zip(contexts, target_lists, strict=True))
        return self._engine.ask_as_completed(self, kind, pairs)

    def rolling_log_prob(self, texts: Sequence[str]) -> list[float]:
        """See `Model.rolling_log_prob`.

        Returns:
          LogProbs with one number a text; -inf stands for a request that failed, and `error` says
          why the first of them did.

        Raises:
          UnsupportedByModel: the model cannot score whole texts.
          InvalidValueError: an argument cannot be right.
          RunStopped: the run was stopped meanwhile.
        """
        whole_texts = list(texts)
        _check_texts("rolling_log_prob", whole_texts)
        answers = self._engine.ask(self, WholeTextRequest(), whole_texts)
        error = next((answer.error for answer in answers if answer.error is not None), None)
        return LogProbs([answer[0] for answer in answers], error=error)

    def number(self, keys: Sequence[bytes]) -> list[int]:
        """How often each key was asked for before; later ones count earlier ones."""
        return Occurrences().count(keys)


class TaskView(Asker):
    """The engine as one task sees it; see `Engine.for_task`."""

    def __init__(self, engine: Engine, tally: Tally) -> None:
        super().__init__(engine, tally)
        self.deterministic = engine.deterministic
        self._occurrences = Occurrences()

    def number(self, keys: Sequence[bytes]) -> list[int]:
        """See `Asker.number`: in a task, also requests of different calls are counted."""
        return self._occurrences.count(keys)

    @property
    def name(self) -> str:
        """See `Model.name`."""
        return self._engine.name

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return self._engine.model_data()

    def fingerprint(self) -> str | None:
        """See `Model.fingerprint`."""
        return self._engine.fingerprint()

    def usage(self) -> dict[str, float]:
        """See `Model.usage`."""
        return self._engine.usage()


def _check_texts(method: str, texts: list[Any]) -> None:
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidValueError(
                f"{method} got {text!r:.100} as input {place}, a {type(text).__name__}; "
                "inputs must be strings."
            )
