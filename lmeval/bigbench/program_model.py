# SPDX-License-Identifier: Apache-2.0
"""The model as a task.py sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, TextIO

from lmeval.api.model import Model, ModelData, StopStrings


class ProgramModel(Model):
    """A model that takes what BIG-bench's tasks give: numpy's strings and numbers, tuples, arrays.

    Zero and empty limits are none.
    """

    def __init__(self, model: Model, stdout: TextIO | None = None) -> None:
        """Wrap a model.

        Args:
          model: what to ask.
          stdout: where what it prints goes; None leaves standard output alone.
        """
        self._model = model
        self._stdout = stdout

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return self._model.model_data()

    def generate_text(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        max_length: int | None = None,
        stop_string: StopStrings = None,
        output_regex: str | None = None,
    ) -> str | list[str]:
        """See `Model.generate_text`."""
        limits = (
            int(max_length) if max_length else None,
            stop_string or None,
            output_regex or None,
        )
        with self._printing():
            texts: str | list[str] = self._model.generate_text(_plain(inputs), *limits)
        return texts

    def cond_log_prob(  # type: ignore[override]
        self,
        inputs: str | Sequence[str],
        targets: Sequence[str] | Sequence[Sequence[str]],
        absolute_normalization: bool | None = False,
    ) -> list[float] | list[list[float]]:
        """See `Model.cond_log_prob`."""
        wanted: Any = list(map(_plain, targets))
        with self._printing():
            return self._model.cond_log_prob(_plain(inputs), wanted, bool(absolute_normalization))

    def _printing(self) -> contextlib.AbstractContextManager[object]:
        if self._stdout is None:
            return contextlib.nullcontext()
        return contextlib.redirect_stdout(self._stdout)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, str) else [str(text) for text in value]
