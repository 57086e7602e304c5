# SPDX-License-Identifier: Apache-2.0
"""What the engine tells of its progress. Drawing it is the command line's affair."""

from __future__ import annotations

import logging
from typing import Protocol

from lmeval.engine.settings import Counts

_LOGGER = logging.getLogger("lmeval")


class ProgressSink(Protocol):
    """Whoever shows progress. Its methods are called from several threads and return quickly."""

    def advanced(self, task: str, counts: Counts) -> None:
        """The requests of `task` so far; later calls hold all that earlier ones did."""

    def finished(self, task: str) -> None:
        """`task` will make no further request."""

    def tick(self) -> None:
        """Time passes; called at least once a second while the engine waits for the model."""

    def notice(self, message: str) -> None:
        """A sentence that the user should read."""


class LoggedProgress:
    """The sink that is used where none is given: it logs the notices and shows nothing else."""

    def advanced(self, task: str, counts: Counts) -> None:
        """See `ProgressSink.advanced`."""

    def finished(self, task: str) -> None:
        """See `ProgressSink.finished`."""

    def tick(self) -> None:
        """See `ProgressSink.tick`."""

    def notice(self, message: str) -> None:
        """See `ProgressSink.notice`."""
        _LOGGER.warning(message)
