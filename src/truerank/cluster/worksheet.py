"""What workers are told about the users and items of their partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from truerank.cluster.census import Census, part_of, read_frame, write_frame
from truerank.cluster.drawing import Coded, Drawing, OfAll, OfEach
from truerank.cluster.partition import Layout, Partition
from truerank.cluster.place import join
from truerank.core.interactions import Interactions
from truerank.core.types import BoolArray, IntArray
from truerank.core.vocabulary import Vocabulary


@dataclass(frozen=True)
class Sheet:
    """What all partitions share: the items, and which of them are kept as a whole."""

    items: Vocabulary
    whole: BoolArray


@dataclass(frozen=True)
class Worksheet:
    """Files in the work folder: the codes of all items, and codes and quotas of each partition's users.

    Parameters
    ----------
    layout : how to read partitions
    folder : the work folder
    digest : of the files and the draw
    """

    layout: Layout
    folder: str
    digest: str

    def write(self, census: Census, drawing: Drawing) -> None:
        """Write what the driver has decided."""
        whole = drawing.whole if isinstance(drawing, OfAll) else None
        kept = np.zeros(census.items.height, np.bool_) if whole is None else whole
        write_frame(self._items, pl.DataFrame({"id": census.items["id"], "whole": kept}))
        quota = drawing.quota if isinstance(drawing, OfEach) else np.zeros(census.users.height, np.int64)
        told = census.users.select("id", "part").with_row_index("code").with_columns(quota=pl.Series(quota))
        told = told.sort("part", maintain_order=True)
        sizes = told.group_by("part", maintain_order=True).len()
        start = 0
        for number, size in sizes.iter_rows():
            write_frame(self._users(number), told.slice(start, size).select("id", "code", "quota"))
            start += size

    def open(self) -> Sheet:
        """Read what all partitions share."""
        frame = read_frame(self._items)
        return Sheet(Vocabulary(frame["id"]), frame["whole"].to_numpy())

    def read(self, sheet: Sheet, number: int, partition: Partition) -> tuple[Interactions, Coded]:
        """Return the events of a partition over its own users, and the same under everybody's codes."""
        told = read_frame(self._users(number))
        events = self.layout.read(partition, (Vocabulary(told["id"]), sheet.items))
        assert events is not None  # noqa: S101 - partitions without events are no tasks
        codes = told["code"].to_numpy()[events.user]
        return events, Coded(codes, events.item, events.value, events.time)

    def quota(self, number: int) -> IntArray:
        """Return how many events each user of a partition keeps."""
        return read_frame(self._users(number))["quota"].to_numpy()

    @property
    def _items(self) -> str:
        return join(self.folder, f"told-items-{self.digest}.parquet")

    def _users(self, number: int) -> str:
        return part_of(self.folder, f"told-{self.digest}", number)
