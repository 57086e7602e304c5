# SPDX-License-Identifier: Apache-2.0
"""The store of answers: an SQLite file that runs resume from and that processes share.

Each answer is committed when its batch arrives, before a task sees it. The file is in WAL mode with
`synchronous=NORMAL`: a killed process loses nothing that was committed, a power cut at most the
last commits, and neither damages the file. Every answer carries a checksum of itself and its key.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import json
import os
import pathlib
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from lmeval.api.errors import UsageError
from lmeval.engine.kinds import Kind, Packed

STORE_NAME = "answers-v1.sqlite"
_KEYS_PER_QUERY = 500
_PAGES_PER_CHECKPOINT = 8000
_MOST_SET_ASIDES = 3
_BATCHES_PER_COMMIT = 8
_UNREACHABLE = ("locked", "full", "readonly", "unable to open", "disk I/O")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS models (
  id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
  id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, model INTEGER NOT NULL, created REAL NOT NULL,
  kind TEXT NOT NULL, settings TEXT NOT NULL, occurrence INTEGER NOT NULL,
  request TEXT NOT NULL, further TEXT, text TEXT NOT NULL, raw TEXT, latency_ms REAL,
  facts TEXT, checksum INTEGER NOT NULL);
"""
_INSERT = f"INSERT OR IGNORE INTO answers VALUES (NULL{', ?' * 13})"


@attrs.frozen
class NewAnswer:
    """An answer on its way into the store."""

    key: bytes
    occurrence: int
    kind: Kind
    payload: Any
    packed: Packed


def _column(text: str | None) -> str | bytes | None:
    """`text` as SQLite takes it: lone surrogates have no UTF-8 form, so they go in as bytes."""
    if text is None or text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def text_of_column(value: Any) -> Any:
    """What was stored: text that had to go in as bytes, or anything else as it is."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def _checksum(key: bytes, packed: Packed) -> int:
    text, raw, _, facts = packed
    checksum = zlib.crc32(text.encode("utf-8", "surrogatepass"), zlib.crc32(key))
    if raw is not None:
        checksum = zlib.crc32(raw.encode("utf-8", "surrogatepass"), checksum + 1)
    return zlib.crc32(facts.encode(), checksum) if facts is not None else checksum


def _stored_answers(
    connection: sqlite3.Connection, keys: Sequence[bytes]
) -> Iterator[tuple[bytes, Packed]]:
    rows = connection.execute(
        "SELECT key, text, raw, latency_ms, facts, checksum FROM answers "
        f"WHERE key IN (?{', ?' * (len(keys) - 1)})",
        keys,
    )
    for key, text, raw, latency_ms, facts, checksum in rows:
        try:
            packed = (text_of_column(text) or "", text_of_column(raw), latency_ms, facts)
            intact = _checksum(key, packed) == checksum
        except (UnicodeError, AttributeError, TypeError) as error:
            raise _Damaged(str(error)) from error
        if not intact:
            raise _Damaged("an answer does not match its checksum")
        yield key, packed


class _Damaged(Exception):
    """The store's content cannot be trusted."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is broken, and not that it cannot be reached."""
    if isinstance(error, OSError) or any(words in str(error) for words in _UNREACHABLE):
        return False
    # Other classes of sqlite3's errors say that a statement is wrong.
    return type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError, _Damaged)


class AnswerStore:
    """The answers of one model in the store of one folder; its methods may be called by threads.

    Args:
      folder: where the store's file is, or will be.
      model_name: shown by `lmeval cache`.
      fingerprint: everything that can change the model's answers.
      notify: gets a sentence for the user when the store is set aside or cannot be written.
      clock: seconds since the epoch.

    Raises:
      UsageError: the folder or the file cannot be made or opened.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        model_name: str,
        fingerprint: str,
        notify: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = folder / STORE_NAME
        self._model_name = model_name
        self._fingerprint = fingerprint
        self._notify = notify
        self._clock = clock
        self._lock = threading.Lock()
        self._entry = threading.Lock()
        self._waiting: collections.deque[Sequence[NewAnswer]] = collections.deque()
        self._arrived = self._written = 0
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._set_asides = 0
        with self._lock, self._guarded():
            self._open()

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Packed]:
        """The stored answers among `keys`."""
        found: dict[bytes, Packed] = {}
        with self._lock, self._guarded():
            for start in range(0, len(keys), _KEYS_PER_QUERY):
                if self._connection is not None:
                    chunk = keys[start : start + _KEYS_PER_QUERY]
                    found.update(_stored_answers(self._connection, chunk))
        return found

    def add(self, answers: Sequence[NewAnswer]) -> None:
        """Keep `answers`; when this returns, they are committed.

        Threads that arrive while another one writes have their answers written in one commit, but
        only a few of them: all would go on at the same moment, and arrive together for ever.
        """
        with self._entry:
            self._waiting.append(answers)
            self._arrived += 1
            mine = self._arrived
        with self._lock:
            while self._written < mine:
                batches = list(itertools.islice(self._waiting, _BATCHES_PER_COMMIT))
                with self._guarded():
                    if self._connection is not None:
                        self._write(self._connection, list(itertools.chain(*batches)))
                        self._forget(len(batches))
                if self._connection is None:
                    self._forget(len(batches))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = open_store(self._path)
            with transaction(self._connection):
                for statement in _SCHEMA.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(
                    "INSERT OR IGNORE INTO models (fingerprint, name) VALUES (?, ?)",
                    (_column(self._fingerprint), _column(self._model_name)),
                )
            self._model = self._connection.execute(
                "SELECT id FROM models WHERE fingerprint = ?", (_column(self._fingerprint),)
            ).fetchone()[0]
            self._identity = _identity(self._path)
        except (OSError, sqlite3.DatabaseError) as error:
            if is_damage(error):
                raise
            raise UsageError(
                f"The store of answers {self._path} cannot be opened ({error}); "
                "choose another folder with --cache_dir, or run with --nocache."
            ) from error

    def _write(self, connection: sqlite3.Connection, answers: Sequence[NewAnswer]) -> None:
        now = self._clock()
        kinds = {new.kind for new in answers}
        settings = {kind: json.dumps(kind.settings(), sort_keys=True) for kind in kinds}
        rows = []
        for new in answers:
            text, raw, latency_ms, facts = new.packed
            request, further = new.kind.record(new.payload)
            asked = (new.key, self._model, now, new.kind.name, settings[new.kind], new.occurrence)
            asked_for = (_column(request), json.dumps(further) if further else None)
            kept = (_column(text), _column(raw), latency_ms, facts, _checksum(new.key, new.packed))
            rows.append((*asked, *asked_for, *kept))
        if len(rows) == 1:
            connection.execute(_INSERT, rows[0])  # one statement is a transaction of its own
        else:
            with transaction(connection):
                connection.executemany(_INSERT, rows)

    def _forget(self, n_batches: int) -> None:
        for _ in range(n_batches):
            self._waiting.popleft()
        self._written += n_batches

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Go on with an empty store after damage, and without one where none can be written."""
        try:
            yield
        except (sqlite3.DatabaseError, _Damaged) as error:
            self._close()
            if is_damage(error):
                self._set_aside(error)
            else:
                self._notify(
                    f"The store of answers {self._path} cannot be used any more ({error}); "
                    "the run goes on, but its further answers are not kept."
                )

    def _set_aside(self, error: Exception) -> None:
        aside = f"{self._path}.damaged-{int(self._clock())}-{os.getpid()}"
        self._set_asides += 1
        try:
            # Where another process has set it aside already, a healthy new file stands there.
            if self._identity in (None, _identity(self._path)):
                for suffix in ("", "-wal", "-shm"):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self._path}{suffix}", aside + suffix)
            if self._set_asides <= _MOST_SET_ASIDES:
                self._open()
        except (OSError, sqlite3.Error, UsageError) as second:
            error = second
        outcome = "is set aside" if self._connection else "stays; further answers are not kept"
        self._notify(
            f"The store of answers {self._path} is damaged ({error}); it {outcome}, "
            f"see {aside}, and the run goes on."
        )

    def _close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def open_store(path: pathlib.Path) -> sqlite3.Connection:
    """A connection to the store's file for use by several threads under a lock."""
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_PER_CHECKPOINT}")
    return connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is written inside, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # the first error says more
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _identity(path: pathlib.Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
