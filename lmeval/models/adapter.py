# SPDX-License-Identifier: Apache-2.0
"""The shortest way to plug in a model: any object with `name` and `generate(prompts)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from lmeval.api.errors import ModelError
from lmeval.api.model import BatchModel, ModelData


class Adapter(Protocol):
    """What `AdapterModel` wraps.

    Two further attributes are honoured where they exist: `max_concurrency`, how many calls may run
    at once (1 unless stated), and `fingerprint()`, everything that can change an answer in one
    string (without it answers are not stored for later runs).
    """

    @property
    def name(self) -> str:
        """The name that stands in tables and messages."""
        ...

    def generate(self, prompts: Sequence[str]) -> list[str]:
        """Continue each of n prompts; n strings in the same order."""
        ...


class AdapterModel(BatchModel):
    """A Model around an `Adapter`; it generates text and gives no log-probabilities."""

    def __init__(self, adapter: Adapter) -> None:
        """Wrap `adapter`.

        Raises:
          ModelError: it lacks `name` or `generate`, or an attribute of it is of the wrong type.
        """
        self._adapter = adapter
        self._name = _checked_name(adapter)
        self.max_concurrency = _checked_concurrency(adapter)

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return ModelData(model_family="adapter", model_name=self._name)

    def fingerprint(self) -> str | None:
        """The adapter's own `fingerprint()`, None where it has none.

        Raises:
          ModelError: it gave something else than a string or None.
        """
        state = getattr(self._adapter, "fingerprint", None)
        if callable(state):
            state = state()
        if state is not None and not isinstance(state, str):
            raise ModelError(
                f"The adapter {self._name} has a fingerprint that is a {type(state).__name__}; "
                "it must be a string, or None."
            )
        return state

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[str]:
        """See `BatchModel.complete`.

        Raises:
          ModelError: the adapter gave something else than a list of strings.
        """
        answers: object = self._adapter.generate(list(prompts))
        if isinstance(answers, (str, bytes)) or not isinstance(answers, Iterable):
            raise ModelError(
                f"generate of the adapter {self._name} gave a {type(answers).__name__}; "
                "it must give a list with one string for each prompt."
            )
        texts = list(answers)
        for position, text in enumerate(texts, 1):
            if not isinstance(text, str):
                raise ModelError(
                    f"generate of the adapter {self._name} gave a {type(text).__name__} as its "
                    f"answer number {position} of {len(texts)}; every answer must be a string."
                )
        return texts


def _checked_name(adapter: object) -> str:
    name = getattr(adapter, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise ModelError(
            f"The adapter {type(adapter).__name__} needs an attribute `name`, a string that is not "
            f"blank (got {name!r})."
        )
    if not callable(getattr(adapter, "generate", None)):
        raise ModelError(f"The adapter {name} needs a method generate(prompts) -> list of strings.")
    return name


def _checked_concurrency(adapter: Adapter) -> int:
    concurrency = getattr(adapter, "max_concurrency", 1)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ModelError(
            f"max_concurrency of the adapter {adapter.name} must be a whole number of at least 1 "
            f"(got {concurrency!r})."
        )
    return concurrency
