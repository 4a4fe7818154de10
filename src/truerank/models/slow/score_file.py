"""Scores that a slow model gave, kept in memory and in a file, so that no score is asked for twice.

The file is an SQLite database with one row per score, which may hold several models and versions of them. A
score is in the file as soon as the call that gave it has returned (a write-ahead log; what was committed
survives the death of the process). A file belongs to one split of one data set and to one run at a time.
"""

from __future__ import annotations

import sqlite3
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.checkpoint import check_input, check_output, replace_bytes
from truerank.core.digest import content_digest, data_hash
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, excerpt
from truerank.core.split import Split
from truerank.core.table import count_of, listed_in_words
from truerank.core.types import FloatArray, IntArray
from truerank.models.saving import pack_ids

_WHAT = "scores"
_APPLICATION, _FORMAT = 0x54725363, 1  # "TrSc" in the header of the file, and the version of its tables
_TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE models (model INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, "
    "UNIQUE (name, version))",
    "CREATE TABLE scores (model INTEGER NOT NULL, user INTEGER NOT NULL, item INTEGER NOT NULL, "
    "score REAL NOT NULL, digest INTEGER NOT NULL, PRIMARY KEY (model, user, item)) WITHOUT ROWID",
)
_WRITING = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
_ROW = np.dtype([("user", np.int64), ("item", np.int64), ("score", np.float64), ("digest", np.int64)])


class KeptScores:
    """Scores of one model by pairs of user and item; may be added to from several threads.

    The first score of a pair is its score: a model that answers otherwise when it is asked again is not asked
    again.

    Parameters
    ----------
    n_items : size of the catalogue
    file, model : where scores are written as they come, and under which number; None for memory alone

    Examples
    --------
    >>> kept = KeptScores(10)
    >>> kept.add(np.array([3, 3]), np.array([7, 7]), np.array([0.5, 0.9]))
    >>> kept.find(np.array([3, 4]), np.array([7, 7])).tolist()
    [0.5, nan]
    """

    def __init__(self, n_items: int, file: ScoreFile | None = None, model: int = 0) -> None:
        self.n_items, self.file, self.model = n_items, file, model
        self._keys: IntArray = np.zeros(0, np.int64)
        self._scores: FloatArray = np.zeros(0)
        self._new: list[tuple[IntArray, FloatArray]] = []
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._sort()
            return len(self._keys)

    def find(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return the score of each pair, NaN where there is none."""
        with self._lock:
            self._sort()
            wanted = np.asarray(users, np.int64) * self.n_items + items
            at = np.searchsorted(self._keys, wanted)
            is_there = np.append(self._keys, -1)[at] == wanted
            found: FloatArray = np.where(is_there, np.append(self._scores, np.nan)[at], np.nan)
            return found

    def add(self, users: IntArray, items: IntArray, scores: FloatArray) -> None:
        """Keep scores, in the file first; those of pairs that have one already are dropped.

        Raises
        ------
        InvalidParameter
            When the file cannot be written.
        """
        scores = np.asarray(scores, np.float64) + 0.0  # SQLite knows no -0.0
        if self.file is not None:
            self.file.write(self.model, users, items, scores)
        self.hold(users, items, scores)

    def hold(self, users: IntArray, items: IntArray, scores: FloatArray) -> None:
        """Keep scores in memory alone."""
        with self._lock:
            self._new.append((np.asarray(users, np.int64) * self.n_items + items, scores))

    def _sort(self) -> None:
        if self._new:
            keys = np.concatenate([self._keys, *(keys for keys, _ in self._new)])
            scores = np.concatenate([self._scores, *(scores for _, scores in self._new)])
            self._keys, first = np.unique(keys, return_index=True)
            self._scores = scores[first]
            self._new = []


class ScoreFile:
    """File of all scores that slow models gave for one split of one data set.

    It is made when it does not exist. While it is open no other run can use it. Use it as a context manager.

    Parameters
    ----------
    path : the file
    split : the data; scores of other data are refused

    Raises
    ------
    InvalidData
        When the file is not of this kind, is damaged, or holds scores for other data.
    InvalidParameter
        When the file cannot be written or another run uses it.
    """

    def __init__(self, path: str | Path, split: Split) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        about = {
            "data": split.train.name,
            "users": str(split.train.n_users),
            "items": str(split.train.n_items),
            "split": split.method,
            "digest": _digest_of(split),
        }
        check_input(self.path, _WHAT)
        if not self.path.exists() or self.path.stat().st_size == 0:
            replace_bytes(self.path, _empty_file(about), _WHAT)
        else:
            check_output(self.path, _WHAT)
            self._check_header()  # before SQLite touches what may be somebody else's
        self._connection = self._opened()
        try:
            self._check(about)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ScoreFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let other runs use the file."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.close()

    def scores(self, name: str, version: str, n_items: int) -> KeptScores:
        """Return the scores of a model, which may be none yet, and keep those that are added to them.

        Rows that are not as they were written are removed with a `DataWarning`, to be asked for again.
        """
        with self._reading():
            found = self._connection.execute(
                "SELECT model FROM models WHERE name = ? AND version = ?", (name, version)
            ).fetchone()
        if found is None:
            with self._writing() as connection:
                connection.execute("INSERT INTO models (name, version) VALUES (?, ?)", (name, version))
                found = connection.execute("SELECT last_insert_rowid()").fetchone()
        kept = KeptScores(n_items, self, int(found[0]))
        rows = self._read(kept.model)
        is_whole = rows["digest"] == _row_digests(kept.model, rows["user"], rows["item"], rows["score"])
        if not is_whole.all():
            self._remove(kept.model, rows[~is_whole])
        whole = rows[is_whole]
        kept.hold(whole["user"], whole["item"], whole["score"])
        return kept

    def versions(self, name: str) -> list[str]:
        """Return the versions of a model that the file has scores of."""
        with self._reading():
            found = self._connection.execute(
                "SELECT version FROM models WHERE name = ? AND EXISTS "
                "(SELECT 1 FROM scores WHERE scores.model = models.model) ORDER BY model",
                (name,),
            ).fetchall()
        return [str(row[0]) for row in found]

    def write(self, model: int, users: IntArray, items: IntArray, scores: FloatArray) -> None:
        """Write scores and commit them; those that are there stay."""
        digests = _row_digests(model, users, items, scores)
        columns = (np.asarray(column).tolist() for column in (users, items, scores, digests))
        rows = [(model, *row) for row in zip(*columns, strict=True)]
        with self._writing() as connection:
            connection.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?, ?, ?, ?)", rows)

    def _opened(self) -> sqlite3.Connection:
        with self._reading():
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=0.2
            )
        try:
            for pragma in (
                *("trusted_schema = OFF", "locking_mode = EXCLUSIVE"),
                *("journal_mode = WAL", "synchronous = NORMAL"),
            ):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeError) as error:
            connection.close()
            raise self._failed(error) from None
        return connection

    def _check_header(self) -> None:
        with self.path.open("rb") as file:
            header = file.read(100)
        if not header.startswith(b"SQLite format 3\0") or len(header) < 100:
            raise self._damaged("file is not a database")
        if struct.unpack(">I4xI", header[60:72]) != (_FORMAT, _APPLICATION):
            raise self._other()

    def _check(self, about: dict[str, str]) -> None:
        """Raise unless these are the tables of this module, whole, and for these data."""
        with self._reading():
            ask = self._connection.execute
            tables = {row[0] for row in ask("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
            if tables != set(_TABLES):
                raise self._other()
            health = ask("PRAGMA quick_check(1)").fetchone()[0]
            found = dict(ask("SELECT name, value FROM about"))
        if health != "ok":
            raise self._damaged(str(health).splitlines()[0])
        if found.get("digest") == about["digest"]:
            return
        if found.keys() != about.keys():
            raise self._damaged("it does not say of which data it is")
        raise InvalidData(
            f"'{self.path}' must hold scores for this split of {about['data']!r}, but it holds those for "
            f"{'another one' if found['data'] == about['data'] else repr(found['data'])} "
            f"({found['users']} users, {found['items']} items, {found['split'] or 'no named split'}). Name "
            "another file."
        )

    def _read(self, model: int) -> Any:
        with self._reading():
            rows = self._connection.execute(
                "SELECT user, item, score, digest FROM scores WHERE model = ?", (model,)
            )
            try:
                return np.fromiter(rows, _ROW)
            except (TypeError, ValueError, OverflowError):
                raise self._damaged("a score is no number") from None

    def _remove(self, model: int, rows: Any) -> None:
        """Remove rows that are not as they were written, and say so."""
        warnings.warn(
            f"{count_of(len(rows), 'score')} in '{self.path}' {'is' if len(rows) == 1 else 'are'} not as "
            "written, and asked for again.",
            DataWarning,
            stacklevel=4,
        )
        pairs = [(model, int(row["user"]), int(row["item"])) for row in rows]
        with self._writing() as connection:
            connection.executemany("DELETE FROM scores WHERE model = ? AND user = ? AND item = ?", pairs)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:  # messages of SQLite may repeat what is damaged
            raise self._failed(error) from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction."""
        with self._lock, self._reading():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except (sqlite3.Error, UnicodeError):
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _failed(self, error: sqlite3.Error | UnicodeError) -> InvalidData | InvalidParameter:
        """Return the sentence for what SQLite says."""
        if isinstance(error, UnicodeError):
            return self._damaged("its text is not UTF-8")
        name = getattr(error, "sqlite_errorname", "") or ""
        reason = str(error).rstrip(".")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return InvalidParameter(
                f"{_WHAT} must be a file that no other run uses, but '{self.path}' is in use. Wait for that "
                "run, or name another file."
            )
        if name.startswith(_WRITING):
            return InvalidParameter(
                f"{_WHAT} must be written to '{self.path}', but that failed ({reason}). Make room, or choose "
                "another path."
            )
        return self._damaged(excerpt(reason.splitlines()[0]))

    def _other(self) -> InvalidData:
        return InvalidData(
            f"'{self.path}' must be a file of scores that truerank wrote, but it is another database. Name "
            "another file."
        )

    def _damaged(self, reason: str) -> InvalidData:
        return InvalidData(
            f"'{self.path}' must be a whole file of scores that truerank wrote, but it is not ({reason}). "
            "Name another file, or remove this one."
        )


def _digest_of(split: Split) -> str:
    """Return a digest of the ids and of all events of a split."""
    ids = {**pack_ids(split.train.users, "user"), **pack_ids(split.train.items, "item")}
    named = (piece for name, array in ids.items() for piece in (f"{name} {len(array)};", array))
    return content_digest([data_hash(split), *named])


def _empty_file(about: dict[str, str]) -> bytes:
    """Return the bytes of a file without scores."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
        for table in _TABLES:
            connection.execute(table)
        connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        return connection.serialize()
    finally:
        connection.close()


def _row_digests(model: int, users: IntArray, items: IntArray, scores: FloatArray) -> IntArray:
    """Return a digest of each row, which finds damage: the finaliser of SplitMix64 over its columns."""
    state = np.full(len(scores), model, np.uint64)
    for column in (users, items, scores):
        kind = np.float64 if column is scores else np.int64
        state = (state ^ np.ascontiguousarray(column, kind).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    digests: IntArray = state.view(np.int64)
    return digests


def told_versions(version: str, versions: list[str]) -> list[str]:
    """Return a sentence where there are scores of other versions of a model, which are not used.

    Examples
    --------
    >>> told_versions("3", ["1", "2", "3"]), told_versions("3", ["3"])
    (['Kept scores of version 1 and 2 are not used, because this is version 3.'], [])
    """
    others = [one for one in versions if one != version]
    if not others:
        return []
    return [
        f"Kept scores of version {listed_in_words(others)} are not used, because this is version {version}."
    ]
