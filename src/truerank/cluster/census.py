"""A census of partitioned events: how many events each user and each item has."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from truerank.cluster.partial import Partial
from truerank.cluster.partition import Layout, Partition
from truerank.cluster.place import fetch_bytes, join, write_bytes
from truerank.core.engine import Engine, Job, Task
from truerank.core.errors import InvalidData
from truerank.core.progress import SILENT, Progress
from truerank.core.store import Store
from truerank.core.types import IntArray

#: Rows that are added up at once, beside what is added up already.
MERGE_ROWS = 1 << 22


@dataclass(frozen=True)
class CountJob(Job):
    """Count the events of each user and item of a partition, and leave the counts in the work folder.

    Parameters
    ----------
    layout : how to read
    folder : where counts are written
    digest : of the files
    """

    layout: Layout
    folder: str
    digest: str

    @property
    def key(self) -> str:
        """Everything the counts depend on."""
        return f"count {self.digest}"

    def open(self) -> None:
        """Open nothing."""

    def run(self, state: None, task: Task) -> bytes:
        """Count one partition."""
        number, partition = task.payload
        events = self.layout.read(partition)
        if events is None:
            return Partial(facts={"n_events": 0}).pack()
        for name, vocabulary, counts in (
            ("users", events.users, events.user_counts()),
            ("items", events.items, events.item_counts()),
        ):
            ids = vocabulary.ids if vocabulary.ids.dtype == pl.String else vocabulary.ids.cast(pl.Int64)
            write_frame(part_of(self.folder, name, number), pl.DataFrame({"id": ids, "n": counts}))
        types = {
            "user": str(events.users.ids.dtype == pl.String),
            "item": str(events.items.ids.dtype == pl.String),
            "value": None if events.value is None else events.value.dtype.str,
            "time": None if events.time is None else events.time.dtype.str,
        }
        return Partial(facts={"n_events": len(events), "types": types}).pack()


@dataclass(frozen=True, eq=False)
class Census:
    """What was counted; it has a row per user and per item, none per event.

    Parameters
    ----------
    users : ``id``, ``n`` (events) and ``part`` (number of the partition), by id: a user's code is the row
    items : ``id`` and ``n``, by id
    parts : the numbers of the partitions that have events
    value, time : the types of ratings and times, None where there are none
    """

    users: pl.DataFrame
    items: pl.DataFrame
    parts: tuple[int, ...]
    value: str | None
    time: str | None

    @property
    def user_counts(self) -> IntArray:
        """Events of each user."""
        return self.users["n"].to_numpy()

    @property
    def item_counts(self) -> IntArray:
        """Events of each item."""
        return self.items["n"].to_numpy()

    @property
    def n_events(self) -> int:
        """All events, repeated pairs merged."""
        return int(self.user_counts.sum())


def count(
    engine: Engine,
    layout: Layout,
    partitions: Sequence[Partition],
    folder: str,
    digest: str,
    *,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> Census:
    """Count all partitions on an engine.

    Raises
    ------
    InvalidData
        When a user has events in two partitions, when files differ in the kind of ids, or when there is no
        event at all.
    """
    tasks = [Task(f"{number:06d}", (number, files)) for number, files in enumerate(partitions)]
    job = CountJob(layout, folder, digest)
    found = engine.map(job, tasks, label=f"counting on {engine.key}, files", progress=progress, store=store)
    facts = [Partial.unpack(partial).facts for partial in found.values()]
    parts = tuple(number for number, one in enumerate(facts) if one["n_events"])
    if not parts:
        raise InvalidData("the files must hold at least one event, but they hold none. Check the path.")
    types = [facts[number]["types"] for number in parts]
    for role in ("user", "item"):
        if len({one[role] for one in types}) > 1:
            raise InvalidData(
                f"{role} ids must be integers in all files or text in all files, but they are both. "
                "Write them anew with one type."
            )
    return Census(
        _users(folder, parts, partitions),
        add_up(read_frame(part_of(folder, "items", number)) for number in parts),
        parts,
        _widest([one["value"] for one in types]),
        _widest([one["time"] for one in types]),
    )


def add_up(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the sum of ``n`` for each ``id``, by id; few frames are held at a time."""
    held: list[pl.DataFrame] = []
    n_rows = n_merged = 0
    for frame in frames:
        held.append(frame)
        n_rows += frame.height
        if n_rows > MERGE_ROWS + 2 * n_merged:
            held = [pl.concat(held).group_by("id").agg(pl.col("n").sum())]
            n_rows = n_merged = held[0].height
    return pl.concat(held).group_by("id").agg(pl.col("n").sum()).sort("id")


def part_of(folder: str, name: str, number: int) -> str:
    """Return the file of one partition in the work folder."""
    return join(folder, f"{name}-{number:06d}.parquet")


def write_frame(place: str, frame: pl.DataFrame) -> None:
    """Write a table, with its folder, in one step."""
    held = io.BytesIO()
    frame.write_parquet(held, compression="zstd", compression_level=1)
    write_bytes(place, held.getvalue())


def read_frame(place: str) -> pl.DataFrame:
    """Read a table that `write_frame` wrote."""
    return pl.read_parquet(io.BytesIO(fetch_bytes(place)))


def _users(folder: str, parts: Sequence[int], partitions: Sequence[Partition]) -> pl.DataFrame:
    held: list[pl.DataFrame] = []
    n_rows, n_checked = 0, MERGE_ROWS
    for number in parts:
        frame = read_frame(part_of(folder, "users", number))
        held.append(frame.with_columns(pl.lit(number, pl.Int32).alias("part"), pl.col("n").cast(pl.UInt32)))
        n_rows += frame.height
        if n_rows > n_checked:  # users that lie everywhere must not fill the memory first
            held, n_checked = [pl.concat(held)], 2 * n_rows
            _check_apart(held[0], partitions)
    users = pl.concat(held).sort("id")
    _check_apart(users, partitions)
    return users


def _check_apart(users: pl.DataFrame, partitions: Sequence[Partition]) -> None:
    """Raise when a user has events in several partitions."""
    if users["id"].n_unique() == users.height:
        return
    spread = users.group_by("id").agg(pl.col("part")).filter(pl.col("part").list.len() > 1).sort("id")
    first, second = (partitions[number][0] for number in spread["part"][0].sort()[:2])
    raise InvalidData(
        f"all events of a user must lie in one file, but {spread.height:,} users have theirs in several, "
        f"such as {spread['id'][0]!r} in '{first}' and '{second}'. Let them be gathered by --gather 64 "
        "(gather=64 in Python), or write the files by user."
    )


def _widest(types: list[str | None]) -> str | None:
    """Return the type that holds what all files have."""
    known: list[Any] = [np.dtype(one) for one in types if one is not None]
    return np.result_type(*known).str if known else None
