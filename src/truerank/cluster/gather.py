"""Writing events anew in partitions that hold whole users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from truerank.cluster.census import write_frame
from truerank.cluster.partial import Partial
from truerank.cluster.partition import BROKEN, Layout, Partition, scan_file
from truerank.cluster.place import join, unreadable
from truerank.core.engine import Engine, Job, Task
from truerank.core.errors import InvalidData
from truerank.core.progress import SILENT, Progress
from truerank.core.store import Store

#: Rows that a worker holds at once.
ROWS = 1 << 22


@dataclass(frozen=True)
class GatherJob(Job):
    """Cut a slice of a file by users and write each bit to the partition of its users.

    Parameters
    ----------
    layout : how to read
    n_partitions : to write
    folder : where they lie
    """

    layout: Layout
    n_partitions: int
    folder: str

    @property
    def key(self) -> str:
        """Everything the bits depend on; the folder is named by the files."""
        return f"gather {self.n_partitions} {self.folder}"

    def open(self) -> None:
        """Open nothing."""

    def run(self, state: None, task: Task) -> bytes:
        """Cut one slice."""
        file, start, n_rows = task.payload
        user = pl.col(self.layout.columns.user)
        try:
            frame = self.layout.scan(file).slice(start, n_rows).collect()
            cut = frame.with_columns((user.hash(0) % self.n_partitions).alias("__partition")).partition_by(
                "__partition", as_dict=True, include_key=False, maintain_order=True
            )
        except BROKEN as error:
            raise unreadable(file, error) from None
        for (number,), bit in cut.items():
            write_frame(bit_of(self.folder, int(number), task.id), bit)
        return Partial(facts={"partitions": sorted(int(number) for (number,) in cut)}).pack()


def gather_users(
    engine: Engine,
    layout: Layout,
    partitions: Sequence[Partition],
    n_partitions: int,
    folder: str,
    *,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> list[Partition]:
    """Write the events in partitions of whole users and return these; rows of a user keep their order."""
    tasks = []
    for number, file in enumerate(file for partition in partitions for file in partition):
        n_rows = _n_rows(file)
        tasks += [
            Task(f"{number:06d}-{start:012d}", (file, start, min(ROWS, n_rows - start)))
            for start in range(0, n_rows, ROWS)
        ]
    job = GatherJob(layout, n_partitions, folder)
    found = engine.map(job, tasks, label=f"gathering on {engine.key}, slices", progress=progress, store=store)
    bits: dict[int, list[str]] = {}
    for task, partial in found.items():
        for number in Partial.unpack(partial).facts["partitions"]:
            bits.setdefault(number, []).append(bit_of(folder, number, task))
    if not bits:
        raise InvalidData("the files must hold at least one event, but they hold none. Check the path.")
    return [tuple(bits[number]) for number in sorted(bits)]


def bit_of(folder: str, number: int, task: str) -> str:
    """Return the file of what a slice adds to a partition."""
    return join(folder, f"gathered-{number:06d}/{task}.parquet")


def _n_rows(file: str) -> int:
    try:
        return int(scan_file(file).select(pl.len()).collect().item())
    except BROKEN as error:
        raise unreadable(file, error) from None
