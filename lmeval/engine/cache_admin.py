# SPDX-License-Identifier: Apache-2.0
"""Looking into the store of answers, thinning it out, and taking answers out of it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from lmeval.api.errors import ResultsError
from lmeval.engine.cache import STORE_NAME, open_store, text_of_column, transaction


@attrs.frozen(kw_only=True)
class StoredModel:
    """What the store holds of one model."""

    name: str
    fingerprint: str
    answers: int
    oldest: float
    """When its first answer was stored, in seconds since the epoch."""
    newest: float
    """When its last answer was stored, in seconds since the epoch."""


@attrs.frozen(kw_only=True)
class StoreSummary:
    """What stands in a folder of stored answers."""

    path: Path
    size_bytes: int
    models: tuple[StoredModel, ...]
    set_aside: tuple[Path, ...]
    """Damaged stores; nothing reads them, nor their `-wal` and `-shm` files, any more."""


def summarize_store(folder: Path) -> StoreSummary:
    """Count what a store holds.

    Raises:
      ResultsError: there is no store in `folder`, or it cannot be read.
    """
    query = (
        "SELECT name, fingerprint, COUNT(*), MIN(created), MAX(created) FROM answers "
        "JOIN models ON models.id = model GROUP BY models.id ORDER BY name, fingerprint"
    )
    with _opened(folder) as store:
        models = [
            StoredModel(
                name=text_of_column(name) or "",
                fingerprint=text_of_column(fingerprint) or "",
                answers=answers,
                oldest=oldest,
                newest=newest,
            )
            for name, fingerprint, answers, oldest, newest in store.execute(query)
        ]
    path = folder / STORE_NAME
    files = [path, *folder.glob(f"{STORE_NAME}-*")]
    return StoreSummary(
        path=path,
        size_bytes=sum(file.stat().st_size for file in files if file.exists()),
        models=tuple(models),
        set_aside=tuple(sorted(folder.glob(f"{STORE_NAME}.damaged-*[0-9]"))),
    )


def prune_store(
    folder: Path, model: str | None = None, before: float | None = None
) -> tuple[int, int]:
    """Delete answers and give their space back.

    Args:
      folder: where the store is.
      model: only those of the model of this name.
      before: only those stored before this time, in seconds since the epoch.

    Returns:
      How many answers were deleted, and how many are left.

    Raises:
      ResultsError: there is no store in `folder`, or it is in use or damaged.
    """
    where, values = _condition(model, before)
    with _opened(folder) as store:
        with transaction(store):
            deleted = store.execute(f"DELETE FROM answers WHERE {where}", values).rowcount
        store.execute("VACUUM")
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (left,) = store.execute("SELECT COUNT(*) FROM answers").fetchone()
    return deleted, left


def export_store(folder: Path, model: str | None = None) -> Iterator[dict[str, Any]]:
    """Every stored answer as JSON values, in the order in which they arrived.

    Raises:
      ResultsError: there is no store in `folder`, or it cannot be read.
    """
    where, values = _condition(model, None)
    query = (
        "SELECT name, fingerprint, kind, settings, occurrence, request, further, text, raw, "
        "latency_ms, facts, created FROM answers JOIN models ON models.id = model "
        f"WHERE {where} ORDER BY answers.id"
    )
    with _opened(folder) as store:
        for row in store.execute(query, values):
            yield _exported([text_of_column(value) for value in row])


def _exported(row: Sequence[Any]) -> dict[str, Any]:
    name, fingerprint, kind, settings, occurrence, request, further = row[:7]
    text, raw, latency_ms, facts, created = row[7:]
    answer: dict[str, Any] = {"answer": text}
    if kind != "generate_text":
        # -Infinity, which JSON has not, becomes null.
        log_probs = json.loads(text, parse_constant=lambda name: None)
        answer = {"log_probs": log_probs}
    elif raw is not None:
        answer["raw"] = raw
    return {
        "model": name,
        "fingerprint": fingerprint,
        "kind": kind,
        **json.loads(settings),
        "prompt": request,
        **json.loads(further or "{}"),
        "occurrence": occurrence,
        **answer,
        **json.loads(facts or "{}"),
        "latency_ms": latency_ms,
        "stored_at": created,
    }


def _condition(model: str | None, before: float | None) -> tuple[str, list[Any]]:
    parts: list[str] = ["1"]
    values: list[Any] = []
    if model is not None:
        parts.append("model IN (SELECT id FROM models WHERE name = ?)")
        values.append(model)
    if before is not None:
        parts.append("created < ?")
        values.append(before)
    return " AND ".join(parts), values


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[sqlite3.Connection]:
    path = folder / STORE_NAME
    if not os.path.exists(path):
        raise ResultsError(f"There are no stored answers in {folder}; --cache_dir names a folder.")
    try:
        with contextlib.closing(open_store(path)) as store:
            yield store
    except sqlite3.Error as error:
        raise ResultsError(
            f"The store of answers {path} cannot be used ({error}); delete it if no run uses it."
        ) from error
