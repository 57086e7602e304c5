# SPDX-License-Identifier: Apache-2.0
"""Answers from a file, for scoring what a model wrote earlier."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmeval.api.errors import TaskFileError, UnsupportedByModel
from lmeval.api.example import parse_object, read_lines
from lmeval.api.model import BatchModel, ModelData, occurrence_numbers

_Key = tuple[str, str] | bytes
_SHOWN = 3


class ReplayModel(BatchModel):
    """Gives the recorded answer to each prompt.

    The file holds JSON lines of the form `{"task", "id", "prediction"}`, matched by the task's name
    and the example's id, or `{"prompt", "prediction"}`, matched by the exact prompt (used too where
    a task's prompts carry no id). Further keys are of no effect. A line answers all occurrences
    of its question. With `samples`, several lines may answer one question: the n-th of them answers
    its n-th occurrence.
    """

    is_costly = False

    def __init__(
        self, *, path: str | os.PathLike[str], name: str | None = None, samples: bool = False
    ) -> None:
        """Read the recorded answers.

        Args:
          path: a `.jsonl` or `.jsonl.gz` file.
          name: the name that stands in tables; the file's name without its endings unless given.
          samples: whether several lines for one question are its samples; else they are refused.

        Raises:
          TaskFileError: the file cannot be read or a line is not as it must be.
        """
        self._path = Path(path)
        self._samples = samples
        self._name = name or self._path.name.removesuffix(".gz").removesuffix(".jsonl")
        self._answers: dict[_Key, str | list[str]] = {}
        for line, text in read_lines(path):
            self._add(parse_object(path, line, text), line)
        if not self._answers:
            raise TaskFileError(path, "holds no recorded answer; write one JSON object per line.")
        self._sha256 = _sha256_of(self._path)

    def _add(self, row: dict[str, Any], line: int) -> None:
        key = _key_of_row(self._path, row, line)
        prediction = _text(self._path, row, "prediction", line)
        earlier = self._answers.get(key)
        if earlier is None:
            self._answers[key] = prediction
        elif not self._samples:
            question = f"{key[0]} {key[1]!r}" if isinstance(key, tuple) else "the same prompt"
            raise TaskFileError(
                self._path,
                f"a second answer to {question}; pass samples=true if each is a sample of its own.",
                line,
            )
        elif isinstance(earlier, str):
            self._answers[key] = [earlier, prediction]
        else:
            earlier.append(prediction)

    def model_data(self) -> ModelData:
        """See `Model.model_data`; the file's name and sha256 say whose answers these are."""
        return ModelData(
            model_family="replay",
            model_name=self._name,
            description="Recorded answers.",
            decoding_params={"file": self._path.name, "sha256": self._sha256},
        )

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[str]:
        """See `BatchModel.complete`.

        Raises:
          UnsupportedByModel: some of the prompts have no recorded answer; the text names them. It
            is no fault of single rows, because a score over part of them would mislead.
        """
        keys: list[_Key] = []
        missing: list[str] = []
        for prompt in prompts:
            key = self._key_of_prompt(prompt)
            if key is None:
                missing.append(prompt)
            else:
                keys.append(key)
        if missing:
            raise UnsupportedByModel(self._missing_message(missing, len(prompts)))
        numbers = occurrence_numbers(prompts)
        return [
            self._answer(prompt, key, number)
            for prompt, key, number in zip(prompts, keys, numbers, strict=True)
        ]

    def _key_of_prompt(self, prompt: str) -> _Key | None:
        by_id = (getattr(prompt, "task", ""), getattr(prompt, "id", ""))
        for key in (by_id, _digest(prompt)):
            if key in self._answers:
                return key
        return None

    def _answer(self, prompt: str, key: _Key, occurrence: int) -> str:
        recorded = self._answers[key]
        if isinstance(recorded, str):
            return recorded
        if occurrence >= len(recorded):
            raise UnsupportedByModel(
                f"The model {self._name} has {len(recorded)} recorded answers to "
                f"{_described(prompt)}, but sample number {occurrence + 1} is asked for; "
                f"{self._path} must hold one line for each sample."
            )
        return recorded[occurrence]

    def _missing_message(self, missing: Sequence[str], n_asked: int) -> str:
        shown = ", ".join(_described(prompt) for prompt in missing[:_SHOWN])
        more = ", ..." if len(missing) > _SHOWN else ""
        return (
            f"The model {self._name} has no recorded answer to {len(missing)} of {n_asked} "
            f"requests ({shown}{more}); {self._path} must hold a line for each, with "
            '"task" and "id", or "prompt".'
        )


def _key_of_row(path: Path, row: dict[str, Any], line: int) -> _Key:
    if "task" in row and "id" in row:
        # One string object for all rows of a task.
        return sys.intern(_text(path, row, "task", line)), _id_text(path, row, line)
    if "prompt" in row:
        return _digest(_text(path, row, "prompt", line))
    raise TaskFileError(
        path,
        '"task" and "id", or "prompt", must say what was asked; found the keys '
        f"{', '.join(map(repr, row)) or 'none'}.",
        line,
    )


def _digest(prompt: str) -> bytes:
    """16 bytes in place of a prompt that may be long; lone surrogates are text like any other."""
    return hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _id_text(path: Path, row: dict[str, Any], line: int) -> str:
    if type(row["id"]) is int:  # as in task files, 7 is the id "7"; True is none
        return str(row["id"])
    return _text(path, row, "id", line)


def _text(path: Path, row: dict[str, Any], key: str, line: int) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        found = repr(value)[:40] if key in row else "nothing"
        raise TaskFileError(path, f"{key!r} must be a string, found {found}.", line)
    return value


def _described(prompt: str) -> str:
    task, example_id = getattr(prompt, "task", ""), getattr(prompt, "id", "")
    if task or example_id:
        return f"task {task!r}, id {example_id!r}"
    return f"prompt {prompt[:60]!r}"


def _sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
