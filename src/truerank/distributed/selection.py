"""Which events of partitioned data a sub-sample keeps, decided without one machine seeing all of them.

The driver knows how many events each user and item has, and turns a strategy into a `Selection`: a quota per
user, which a worker that has all events of the user can fill alone, or a number of events with the largest
random keys among all partitions. The quotas reach the workers as files of a `PartitionPlan`.

The threshold of the largest keys is found without bringing all keys together. Keys are uniform, so the k-th
largest of n lies near the quantile 1 - k/n. Workers count the keys above a narrow window around it and send
those within, which are some ten times the square root of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.progress import SILENT, Progress
from truerank.core.types import AnyArray, BoolArray, IntArray
from truerank.distributed.engine import Engine, EngineTask, Job
from truerank.distributed.partitions import (
    EventCounts,
    Layout,
    Partition,
    partition_file,
    read_partition,
    write_frame,
)
from truerank.distributed.storage import PartialResult, join
from truerank.subsampling.base import ProxyStrategy, Strategy, nearest_count
from truerank.subsampling.graph import Centrality, ForestFire, RandomWalk
from truerank.subsampling.random import MostRecent, Random, Stratified, history_quotas
from truerank.subsampling.selection import EventKeys, Keys
from truerank.subsampling.units import UnitStrategy

By: TypeAlias = Literal["key", "time", "user"]
DISTRIBUTABLE = "random, stratified, temporal, random-user, head-user, random-item or head-item"


@dataclass(frozen=True, eq=False)
class QuotaPerUser:
    """A number of events of each user.

    Parameters
    ----------
    stage : name of the random stream of the keys
    quota : (n_users,) how many events each user keeps
    by : which ones: those with the largest ``key``, the latest ``time``, or by ``user`` where whole users are
        kept or dropped and random keys choose within the few users that are kept in part
    """

    stage: str
    quota: IntArray
    by: By


@dataclass(frozen=True, eq=False)
class LargestKeys:
    """The events with the largest random keys, among all events or among those of one item.

    Parameters
    ----------
    stage : name of the random stream of the keys
    n_keep, n_events : how many events to keep, of how many
    item : code of the one item; None selects among all events
    whole : (n_items,) items of which all events are kept in addition
    """

    stage: str
    n_keep: int
    n_events: int
    item: int | None = None
    whole: BoolArray | None = None


Selection: TypeAlias = QuotaPerUser | LargestKeys


def check_distributable(strategy: Strategy) -> None:
    """Raise unless the strategy can be followed by workers that see one partition each."""
    if isinstance(strategy, Random | Stratified | MostRecent | UnitStrategy):
        return
    reason = "needs all events at once, and a worker has one partition"
    if isinstance(strategy, ProxyStrategy):
        reason = "fits its proxy model to all events, and a worker has one partition"
    elif isinstance(strategy, Centrality | RandomWalk | ForestFire):
        reason = "needs the graph of all users and items, and a worker has one partition"
    raise InvalidParameter(
        f"strategy {str(strategy)!r} {reason}. "
        f"Use {DISTRIBUTABLE}, or sub-sample one file on a machine that holds all of it."
    )


def make_selection(strategy: Strategy, census: EventCounts, fraction: float, seed: int) -> Selection:
    """Return what the counts of users and items decide; random keys decide the rest in the partitions."""
    counts, n_events = census.user_counts.astype(np.int64), census.n_events
    if isinstance(strategy, MostRecent) and census.time is None:
        raise InvalidData(
            f"strategy {str(strategy)!r} needs a timestamp for each event, but the files have none. "
            "Name the column with columns={'timestamp': NAME} or use strategy 'stratified'."
        )
    if fraction in (0, 1):
        return QuotaPerUser("", counts if fraction == 1 else np.zeros_like(counts), "user")
    if isinstance(strategy, Stratified | MostRecent):
        stage = f"subsample/{strategy.key}"
        quota = history_quotas(counts, fraction, seed, stage, legacy=strategy.legacy)
        return QuotaPerUser(stage, quota, "time" if isinstance(strategy, MostRecent) else "key")
    if isinstance(strategy, UnitStrategy) and strategy.side == 0:
        return QuotaPerUser(strategy.stage, strategy.quota(counts, fraction, seed), "user")
    if isinstance(strategy, UnitStrategy):
        items = census.item_counts.astype(np.int64)
        quota = strategy.quota(items, fraction, seed)
        parted = np.flatnonzero((quota > 0) & (quota < items))
        whole = quota == items
        if len(parted) == 0:
            return LargestKeys(strategy.stage, 0, 0, -1, whole)
        item = int(parted[0])
        return LargestKeys(strategy.stage, int(quota[item]), int(items[item]), item, whole)
    return LargestKeys("subsample/random", nearest_count(fraction, n_events), n_events)


@dataclass(frozen=True, eq=False)
class CodedEvents:
    """The events of a partition, with users and items as codes of the whole data set."""

    user: IntArray
    item: IntArray
    value: AnyArray | None
    time: AnyArray | None


@dataclass(frozen=True)
class ItemPlan:
    """What all partitions share: the items, and of which of them all events are kept."""

    items: Vocabulary
    whole: BoolArray


@dataclass(frozen=True)
class PartitionPlan:
    """Files in the work folder: the codes of all items, and the codes and quotas of each partition's users.

    Parameters
    ----------
    layout : how to read partitions
    folder : the work folder
    digest : of strategy, fraction and seed; part of the names of the files
    seal : of the file with the items, once it is written
    """

    layout: Layout
    folder: str
    digest: str
    seal: str = ""

    def write(self, census: EventCounts, selection: Selection) -> tuple[PartitionPlan, dict[int, str]]:
        """Write the codes and quotas that the driver has decided.

        Returns
        -------
        tuple
            The plan with the seal of its items, and the seals of the files of partitions by number, which
            their tasks carry.
        """
        whole = selection.whole if isinstance(selection, LargestKeys) else None
        kept = np.zeros(census.items.height, np.bool_) if whole is None else whole
        seal = write_frame(self._items, pl.DataFrame({"id": census.items["id"], "whole": kept}))
        quota = (
            selection.quota
            if isinstance(selection, QuotaPerUser)
            else np.zeros(census.users.height, np.int64)
        )
        users = census.users.select("id", "part").with_row_index("code").with_columns(quota=pl.Series(quota))
        users = users.sort("part", maintain_order=True)
        sizes = users.group_by("part", maintain_order=True).len()
        start, seals = 0, {}
        for number, size in sizes.iter_rows():
            frame = users.slice(start, size).select("id", "code", "quota")
            seals[int(number)] = write_frame(self._users(number), frame)
            start += size
        return replace(self, seal=seal), seals

    def open(self) -> ItemPlan:
        """Read what all partitions share."""
        frame = read_partition(self._items, self.seal)
        return ItemPlan(Vocabulary(frame["id"]), frame["whole"].to_numpy())

    def read(
        self, item_plan: ItemPlan, number: int, partition: Partition, seal: str
    ) -> tuple[Interactions, CodedEvents]:
        """Return the events of a partition, coded over its own users and over all users."""
        users = read_partition(self._users(number), seal)
        events = self.layout.read(partition, (Vocabulary(users["id"]), item_plan.items))
        assert events is not None  # noqa: S101 - partitions without events are no tasks
        codes = users["code"].to_numpy()[events.user]
        return events, CodedEvents(codes, events.item, events.value, events.time)

    def quota(self, number: int, seal: str) -> IntArray:
        """Return how many events each user of a partition keeps."""
        return read_partition(self._users(number), seal)["quota"].to_numpy()

    @property
    def _items(self) -> str:
        return join(self.folder, f"told-items-{self.digest}.parquet")

    def _users(self, number: int) -> str:
        return partition_file(self.folder, f"told-{self.digest}", number)


LARGEST_KEY = (1 << 64) - 1
#: Half the width of the window: standard deviations of the threshold, and a number of events for small data.
DEVIATIONS, ADDED = 8.0, 64.0


@dataclass(frozen=True)
class KeyWindow:
    """Keys from low to high, both included.

    Examples
    --------
    >>> KeyWindow.around(500, 1000, 1.0) == KeyWindow(), KeyWindow.around(10**8, 10**10, 1.0).width < 1e-4
    (True, True)
    """

    low: int = 0
    high: int = LARGEST_KEY

    @classmethod
    def around(cls, n_keep: int, n_events: int, times: float) -> KeyWindow:
        """Return the window that holds the smallest kept key, nearly surely with ``times`` = 1."""
        quantile = 1 - n_keep / n_events
        half = times * (DEVIATIONS * math.sqrt(quantile * (1 - quantile) / n_events) + ADDED / n_events)
        low, high = max(0.0, quantile - half), min(1.0, quantile + half)
        if high - low > 0.1:
            return cls()
        return cls(int(low * 2.0**64), min(LARGEST_KEY, int(high * 2.0**64)))

    @property
    def width(self) -> float:
        """Fraction of all keys."""
        return (self.high - self.low) / LARGEST_KEY


@dataclass(frozen=True)
class KeyThreshold:
    """Which events are kept: those with larger keys, and a number per partition of those with this key.

    Parameters
    ----------
    key : the threshold
    at : pairs of partition and number of events with exactly this key to keep; usually there is one such
        event
    """

    key: int
    at: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KeysJob(Job):
    """Return the random keys of a partition that lie within a window, and how many lie above it."""

    plan: PartitionPlan
    stage: str
    seed: int
    item: int | None
    window: KeyWindow

    @property
    def key(self) -> str:
        """Everything the keys depend on."""
        return (
            f"keys {self.plan.folder} {self.plan.digest} {self.stage} {self.seed} {self.item} {self.window}"
        )

    def open(self) -> ItemPlan:
        """Read the items, which all partitions share."""
        return self.plan.open()

    def run(self, state: ItemPlan, task: EngineTask) -> bytes:
        """Return the keys of one partition."""
        _, coded = self.plan.read(state, *task.payload)
        _, keys = event_keys(coded, self.seed, self.stage, self.item)
        above = int((keys > np.uint64(self.window.high)).sum())
        inside = keys[(keys >= np.uint64(self.window.low)) & (keys <= np.uint64(self.window.high))]
        return PartialResult({"keys": np.sort(inside).view(np.int64)}, {"above": above}).pack()


def event_keys(coded: CodedEvents, seed: int, stage: str, item: int | None) -> tuple[IntArray, Keys]:
    """Return the rows of all events, or of those of one item, and their random keys."""
    keys = EventKeys(coded, seed, stage)
    if item is None:
        return np.arange(len(coded.user)), keys.all()
    rows = np.flatnonzero(coded.item == item)
    return rows, keys.of(rows)


def find_threshold(
    engine: Engine,
    job: KeysJob,
    tasks: Sequence[EngineTask],
    n_keep: int,
    n_events: int,
    *,
    progress: Progress = SILENT,
) -> KeyThreshold:
    """Return the threshold that keeps ``n_keep`` of ``n_events`` events."""
    if n_keep == 0:
        return KeyThreshold(LARGEST_KEY)
    times = 1.0
    while True:
        window = KeyWindow.around(n_keep, n_events, times)
        windowed = replace(job, window=window)
        packed = engine.map(windowed, tasks, label=f"sampling on {engine.key}, files", progress=progress)
        partials = [PartialResult.unpack(partial) for partial in packed.values()]
        above = sum(one.facts["above"] for one in partials)
        keys = [one.arrays["keys"].view(np.uint64) for one in partials]
        if above < n_keep <= above + sum(map(len, keys)):
            break
        times *= 64  # the threshold lies outside of the window: widen it
    inside = np.sort(np.concatenate(keys))
    threshold = inside[len(inside) - (n_keep - above)]
    missing = n_keep - above - int((inside > threshold).sum())
    at = []
    for task, partition_keys in zip(tasks, keys, strict=True):
        taken = min(missing, int((partition_keys == threshold).sum()))
        missing -= taken
        if taken:
            at.append((int(task.payload[0]), taken))
    return KeyThreshold(int(threshold), tuple(at))
