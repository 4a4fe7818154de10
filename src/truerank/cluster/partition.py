"""Partitions: events in Parquet files, of which a worker reads one partition at a time."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import polars as pl

from truerank.cluster.place import UNREADABLE, fetch_bytes, is_remote, parquet_files, stamp, unreadable
from truerank.core.check import check_choice
from truerank.core.interactions import Interactions
from truerank.core.vocabulary import Vocabulary
from truerank.data.columns import ColumnChoice, choose
from truerank.data.duplicate import POLICIES
from truerank.data.read import read_table
from truerank.data.scan import Table

#: What opening and reading a Parquet file raises.
BROKEN = (*UNREADABLE, pl.exceptions.PolarsError)
#: The files of one partition, in the order of their rows.
Partition = tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """How events lie in files.

    Parameters
    ----------
    columns : which columns hold what, the same in all files
    duplicates : what becomes of repeated pairs, as in ``merge_duplicates``
    """

    columns: ColumnChoice
    duplicates: str = "last"

    def read(
        self, partition: Partition, vocabularies: tuple[Vocabulary, Vocabulary] | None = None
    ) -> Interactions | None:
        """Return the events of a partition; None where it has none."""
        frame = pl.concat([self.scan(file) for file in partition], how="vertical_relaxed")
        names = [name for name in self._roles.values() if name]
        try:
            if frame.select(pl.len()).collect().item() == 0:
                return None
        except BROKEN as error:
            raise unreadable(partition[0], error) from None
        table = Table(frame, names, is_text=False, where=f"'{partition[0]}'")
        return read_table(table, self.columns, duplicates=self.duplicates, vocabularies=vocabularies)

    def scan(self, file: str) -> pl.LazyFrame:
        """Open a file for its chosen columns."""
        frame = scan_file(file)
        chosen = choose(_names(frame, file), self._roles, where=f"'{file}'")
        wanted = (chosen.user, chosen.item, chosen.rating, chosen.timestamp)
        return frame.select([name for name in wanted if name is not None])

    @property
    def _roles(self) -> dict[str, str]:
        roles = {"user": self.columns.user, "item": self.columns.item}
        return roles | {"rating": self.columns.rating or "", "timestamp": self.columns.timestamp or ""}


def find_partitions(
    place: str, columns: Mapping[str, str] | None, duplicates: str
) -> tuple[Layout, list[Partition]]:
    """Return how events lie at a place, and its partitions: one per file.

    The first file says which columns there are.
    """
    check_choice("duplicates", duplicates, POLICIES)
    files = parquet_files(place)
    names = _names(scan_file(files[0]), files[0])
    return Layout(choose(names, columns, where=f"'{files[0]}'"), duplicates), [(file,) for file in files]


def digest_of(layout: Layout, partitions: list[Partition]) -> str:
    """Return what changes when a file or the way it is read does."""
    stamps = [[file, stamp(file)] for partition in partitions for file in partition]
    text = json.dumps([asdict(layout), stamps], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def scan_file(file: str) -> pl.LazyFrame:
    """Open a Parquet file: one of this machine lazily, any other as a whole."""
    try:
        if is_remote(file):
            return pl.read_parquet(io.BytesIO(fetch_bytes(file))).lazy()
        return pl.scan_parquet(file, glob=False, hive_partitioning=False)
    except BROKEN as error:
        raise unreadable(file, error) from None


def _names(frame: pl.LazyFrame, file: str) -> list[str]:
    try:
        return frame.collect_schema().names()
    except BROKEN as error:
        raise unreadable(file, error) from None
