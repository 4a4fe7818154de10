"""Events in partitioned Parquet files: reading a partition, counting per user and item, repartitioning.

Sub-sampling needs all events of a user in one partition. `count_events` checks that while it counts;
`repartition_by_user` writes files that are not laid out so into partitions of whole users.
"""

from __future__ import annotations

import io
import json
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from truerank.core.checkpoint import Store, polars_path
from truerank.core.digest import content_digest
from truerank.core.errors import DataWarning, InvalidData, check_choice
from truerank.core.file_checks.parquet import check_parquet
from truerank.core.interactions import Interactions, Vocabulary, tell_of_blanks
from truerank.core.progress import SILENT, Progress
from truerank.core.types import IntArray
from truerank.data.clean import POLICIES
from truerank.data.read import read_table
from truerank.data.table import ColumnChoice, OpenTable, choose
from truerank.distributed.engine import Engine, EngineTask, Job, kept_partials
from truerank.distributed.storage import (
    UNREADABLE,
    PartialResult,
    changed_file,
    fetch_bytes,
    is_intact,
    is_remote,
    join,
    parquet_files,
    seal_of,
    unreadable_file,
    version_stamp,
    write_bytes,
)

#: What opening and reading a Parquet file raises.
BROKEN = (*UNREADABLE, pl.exceptions.PolarsError)
#: The files of one partition, in the order of their rows.
Partition = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """How the Parquet files of events are read.

    Parameters
    ----------
    columns : the column of each role, the same in all files
    duplicates : policy for repeated (user, item) pairs, as in ``merge_duplicates``
    """

    columns: ColumnChoice
    duplicates: str = "last"

    def read(
        self, partition: Partition, vocabularies: tuple[Vocabulary, Vocabulary] | None = None
    ) -> Interactions | None:
        """Return the events of a partition, None if it has none."""
        frame = pl.concat([self.scan(file) for file in partition], how="vertical_relaxed")
        names = [name for name in self._roles.values() if name]
        try:
            if frame.select(pl.len()).collect().item() == 0:
                return None
        except BROKEN as error:
            raise unreadable_file(partition[0], error) from None
        table = OpenTable(frame, names, is_text=False, where=f"'{partition[0]}'")
        return read_table(
            table, self.columns, duplicates=self.duplicates, vocabularies=vocabularies, notes=False
        )

    def scan(self, file: str) -> pl.LazyFrame:
        """Open the chosen columns of a file lazily."""
        frame = scan_file(file)
        chosen = choose(_names(frame, file), self._roles, where=f"'{file}'")
        wanted = (chosen.user, chosen.item, chosen.rating, chosen.timestamp)
        return frame.select([name for name in wanted if name is not None])

    @property
    def _roles(self) -> dict[str, str]:
        roles = {"user": self.columns.user, "item": self.columns.item}
        return roles | {"rating": self.columns.rating or "", "timestamp": self.columns.timestamp or ""}


def find_partitions(
    path: str, columns: Mapping[str, str] | None, duplicates: str
) -> tuple[Layout, list[Partition]]:
    """Return the layout of the files at a path, and the partitions: one per file.

    The columns are chosen by the names in the first file.
    """
    check_choice("duplicates", duplicates, POLICIES)
    files = parquet_files(path)
    names = _names(scan_file(files[0]), files[0])
    return Layout(choose(names, columns, where=f"'{files[0]}'"), duplicates), [(file,) for file in files]


def file_digest(layout: Layout, partitions: list[Partition]) -> str:
    """Return a digest that changes when a file, or the way it is read, changes."""
    stamps = [[file, version_stamp(file)] for partition in partitions for file in partition]
    text = json.dumps([asdict(layout), stamps], sort_keys=True)
    return content_digest([text], size=12)


def scan_file(file: str) -> pl.LazyFrame:
    """Open a Parquet file: lazily on this machine, read as a whole from a URL."""
    try:
        if is_remote(file):
            data = fetch_bytes(file)
            check_parquet(data)
            return pl.read_parquet(io.BytesIO(data)).lazy()
        check_parquet(file)
        return pl.scan_parquet(polars_path(file), glob=False, hive_partitioning=False)
    except BROKEN as error:
        raise unreadable_file(file, error) from None


def _names(frame: pl.LazyFrame, file: str) -> list[str]:
    try:
        return frame.collect_schema().names()
    except BROKEN as error:
        raise unreadable_file(file, error) from None


class WritesFiles(Job):
    """A job whose tasks write files and return their seals."""

    @abstractmethod
    def written(self, task: EngineTask, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return the seals of the files that a task wrote, by path."""


#: Rows of new counts that are summed at once.
MERGE_ROWS = 1 << 22


@dataclass(frozen=True)
class CountJob(WritesFiles):
    """Count the events of each user and item of a partition, and write the counts to the work folder.

    Parameters
    ----------
    layout : how to read the files
    folder : where counts are written
    digest : of the files, as in `file_digest`
    """

    layout: Layout
    folder: str
    digest: str

    @property
    def key(self) -> str:
        """Everything the counts depend on."""
        return f"counts {self.digest}"

    def open(self) -> None:
        """Open nothing."""

    def written(self, task: EngineTask, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return the seals of the counts of one partition; of none where it has no events."""
        seals = facts.get("seals", {})
        return {partition_file(self.folder, name, task.payload[0]): seal for name, seal in seals.items()}

    def run(self, state: None, task: EngineTask) -> bytes:
        """Count one partition."""
        number, partition = task.payload
        events = self.layout.read(partition)
        if events is None:
            return PartialResult(facts={"n_events": 0}).pack()
        seals: dict[str, str] = {}
        for name, vocabulary, counts in (
            ("users", events.users, events.user_counts()),
            ("items", events.items, events.item_counts()),
        ):
            ids = vocabulary.ids if vocabulary.ids.dtype == pl.String else vocabulary.ids.cast(pl.Int64)
            frame = pl.DataFrame({"id": ids, "n": counts})
            seals[name] = write_frame(partition_file(self.folder, name, number), frame)
        types = {
            "user": str(events.users.ids.dtype == pl.String),
            "item": str(events.items.ids.dtype == pl.String),
            "value": None if events.value is None else events.value.dtype.str,
            "time": None if events.time is None else events.time.dtype.str,
        }
        return PartialResult(facts={"n_events": len(events), "types": types, "seals": seals}).pack()


@dataclass(frozen=True, eq=False)
class EventCounts:
    """Number of events per user and per item of all partitions.

    Parameters
    ----------
    users : columns ``id``, ``n`` (events) and ``part`` (number of the partition), sorted by id: the row is
        the user's code
    items : columns ``id`` and ``n``, sorted by id
    parts : numbers of the partitions that have events
    value, time : dtypes of ratings and times, None where there are none
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
        """Number of events after repeated pairs were merged."""
        return int(self.user_counts.sum())


def count_events(
    engine: Engine,
    layout: Layout,
    partitions: Sequence[Partition],
    folder: str,
    digest: str,
    *,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> EventCounts:
    """Count the events of all partitions on an engine.

    Raises
    ------
    InvalidData
        When a user has events in two partitions, when files differ in the kind of ids, or when there is no
        event at all.
    """
    tasks = [EngineTask(f"{number:06d}", (number, files)) for number, files in enumerate(partitions)]
    job = CountJob(layout, folder, digest)
    partials = map_writing(
        engine, job, tasks, label=f"counting on {engine.key}, files", progress=progress, store=store
    )
    facts = [PartialResult.unpack(partial).facts for partial in partials.values()]
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
    seals = {number: facts[number]["seals"] for number in parts}
    counts = EventCounts(
        _users(folder, {number: one["users"] for number, one in seals.items()}, partitions),
        sum_counts(
            read_partition(partition_file(folder, "items", number), one["items"])
            for number, one in seals.items()
        ),
        parts,
        _widest([one["value"] for one in types]),
        _widest([one["time"] for one in types]),
    )
    for column, found in ((layout.columns.user, counts.users), (layout.columns.item, counts.items)):
        tell_of_blanks(found["id"], f"column {column!r} of the files")
    return counts


def sum_counts(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the sum of ``n`` for each ``id``, sorted by id; only a few frames are in memory at a time."""
    frames_held: list[pl.DataFrame] = []
    n_rows = n_merged = 0
    for frame in frames:
        frames_held.append(frame)
        n_rows += frame.height
        if n_rows > MERGE_ROWS + 2 * n_merged:
            frames_held = [pl.concat(frames_held).group_by("id").agg(pl.col("n").sum())]
            n_rows = n_merged = frames_held[0].height
    return pl.concat(frames_held).group_by("id").agg(pl.col("n").sum()).sort("id")


def partition_file(folder: str, name: str, number: int) -> str:
    """Return the path of the file of one partition."""
    return join(folder, f"{name}-{number:06d}.parquet")


def write_frame(path: str, frame: pl.DataFrame, *, what: str = "files of the work folder") -> str:
    """Write a table as Parquet, atomically, and return its seal; its folder is made if needed."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1)
    write_bytes(path, buffer.getvalue(), what=what)
    return seal_of(buffer.getvalue())


def read_partition(path: str, seal: str) -> pl.DataFrame:
    """Read a table that `write_frame` wrote, which must have the seal that it returned.

    Raises
    ------
    InvalidData
        When the file was changed since, or cannot be read.
    """
    data = fetch_bytes(path)
    if seal_of(data) != seal:
        raise changed_file(path)
    return pl.read_parquet(io.BytesIO(data))


@dataclass(frozen=True)
class IntactJob(Job):
    """Find the files of earlier tasks that are no longer there as these wrote them."""

    name: str

    @property
    def key(self) -> str:
        """The job that wrote the files."""
        return f"intact {self.name}"

    def open(self) -> None:
        """Open nothing."""

    def run(self, state: None, task: EngineTask) -> bytes:
        """Check the files of one task."""
        is_whole = all(is_intact(path, seal) for path, seal in task.payload)
        return PartialResult(facts={"is_whole": is_whole}).pack()


def map_writing(
    engine: Engine,
    job: WritesFiles,
    tasks: Sequence[EngineTask],
    *,
    label: str,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> dict[str, bytes]:
    """Return what ``Engine.map`` does; finished tasks whose files are not as they wrote them run again.

    Results of earlier runs tell what these wrote into the work folder, which somebody may have changed since.
    """
    damaged = [] if store is None else _damaged(engine, job, tasks, store, progress)
    others = [task for task in tasks if task not in damaged]
    partials = engine.map(job, others, label=label, progress=progress, store=store)
    if damaged:
        warnings.warn(
            f"the work folder was damaged: files of {len(damaged):,} of {len(tasks):,} finished tasks were "
            "not as they had been written, and are written anew.",
            DataWarning,
            stacklevel=4,
        )
        partials |= engine.map(job, damaged, label=label, progress=progress)
    return {task.id: partials[task.id] for task in tasks}


def _damaged(
    engine: Engine, job: WritesFiles, tasks: Sequence[EngineTask], store: Store, progress: Progress
) -> list[EngineTask]:
    """Return the finished tasks of which a file is missing or has changed."""
    kept = kept_partials(store, job, tasks)
    finished = [task for task in tasks if task.id in kept]
    checks = [
        EngineTask(task.id, tuple(job.written(task, PartialResult.unpack(kept[task.id]).facts).items()))
        for task in finished
    ]
    if not checks:
        return []
    label = f"checking on {engine.key}, files"
    found = engine.map(IntactJob(job.key), checks, label=label, progress=progress)
    return [task for task in finished if not PartialResult.unpack(found[task.id]).facts["is_whole"]]


def _users(folder: str, seals: Mapping[int, str], partitions: Sequence[Partition]) -> pl.DataFrame:
    frames: list[pl.DataFrame] = []
    n_rows, n_checked = 0, MERGE_ROWS
    for number, seal in seals.items():
        frame = read_partition(partition_file(folder, "users", number), seal)
        frames.append(frame.with_columns(pl.lit(number, pl.Int32).alias("part"), pl.col("n").cast(pl.UInt32)))
        n_rows += frame.height
        if n_rows > n_checked:  # fail before users spread over all files fill the memory
            frames, n_checked = [pl.concat(frames)], 2 * n_rows
            _check_apart(frames[0], partitions)
    users = pl.concat(frames).sort("id")
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
        f"such as {spread['id'][0]!r} in '{first}' and '{second}'. Repartition them with gather=64, "
        "or write the files by user."
    )


def _widest(types: list[str | None]) -> str | None:
    """Return the dtype that holds the values of all files."""
    known: list[Any] = [np.dtype(one) for one in types if one is not None]
    return np.result_type(*known).str if known else None


#: Rows of one slice, which a worker reads at once.
SLICE_ROWS = 1 << 22


@dataclass(frozen=True)
class RepartitionJob(WritesFiles):
    """Split a slice of a file by a hash of the user and write each fragment to the partition of its users.

    Parameters
    ----------
    layout : how to read the files
    n_partitions : number of partitions to write
    folder : where they are written
    """

    layout: Layout
    n_partitions: int
    folder: str

    @property
    def key(self) -> str:
        """Everything the fragments depend on; the name of the folder holds the digest of the files."""
        return f"gathered {self.n_partitions} {self.folder}"

    def open(self) -> None:
        """Open nothing."""

    def written(self, task: EngineTask, facts: Mapping[str, Any]) -> dict[str, str]:
        """Return the seals of the fragments of one slice."""
        return {
            fragment_file(self.folder, int(number), task.id): seal for number, seal in facts["seals"].items()
        }

    def run(self, state: None, task: EngineTask) -> bytes:
        """Split one slice."""
        file, start, n_rows = task.payload
        user = pl.col(self.layout.columns.user)
        try:
            frame = self.layout.scan(file).slice(start, n_rows).collect()
            cut = frame.with_columns((user.hash(0) % self.n_partitions).alias("__partition")).partition_by(
                "__partition", as_dict=True, include_key=False, maintain_order=True
            )
        except BROKEN as error:
            raise unreadable_file(file, error) from None
        seals = {
            str(number): write_frame(fragment_file(self.folder, int(number), task.id), fragment)
            for (number,), fragment in sorted(cut.items())
        }
        return PartialResult(facts={"seals": seals}).pack()


def repartition_by_user(
    engine: Engine,
    layout: Layout,
    partitions: Sequence[Partition],
    n_partitions: int,
    folder: str,
    *,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> list[Partition]:
    """Write the events into partitions of whole users and return these; rows of a user keep their order."""
    tasks = []
    for number, file in enumerate(file for partition in partitions for file in partition):
        n_rows = _n_rows(file)
        tasks += [
            EngineTask(f"{number:06d}-{start:012d}", (file, start, min(SLICE_ROWS, n_rows - start)))
            for start in range(0, n_rows, SLICE_ROWS)
        ]
    job = RepartitionJob(layout, n_partitions, folder)
    partials = map_writing(
        engine, job, tasks, label=f"repartitioning on {engine.key}, slices", progress=progress, store=store
    )
    fragments: dict[int, list[str]] = {}
    for task, partial in partials.items():
        for number in map(int, PartialResult.unpack(partial).facts["seals"]):
            fragments.setdefault(number, []).append(fragment_file(folder, number, task))
    if not fragments:
        raise InvalidData("the files must hold at least one event, but they hold none. Check the path.")
    return [tuple(fragments[number]) for number in sorted(fragments)]


def fragment_file(folder: str, number: int, task: str) -> str:
    """Return the path of the file with the rows that one slice adds to a partition."""
    return join(folder, f"gathered-{number:06d}/{task}.parquet")


def _n_rows(file: str) -> int:
    try:
        return int(scan_file(file).select(pl.len()).collect().item())
    except BROKEN as error:
        raise unreadable_file(file, error) from None
