"""How a strategy draws from partitions: what the driver decides from counts, and what is left to workers.

What workers are told about the users and items of their partition.

The random key from which on events are kept, found without bringing the keys of all events together.

Keys are uniform, so the k-th largest of n lies near 1 - k/n of their range. Workers count what lies above
a narrow window around that place and send the keys within: some ten times the square root of n.
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
from truerank.distributed.partitions import Census, Layout, Partition, part_of, read_partition, write_frame
from truerank.distributed.storage import Partial, join
from truerank.subsampling.base import ProxyStrategy, Strategy, wanted
from truerank.subsampling.graph import Centrality, ForestFire, RandomWalk
from truerank.subsampling.random import MostRecent, Random, Stratified, quotas
from truerank.subsampling.selection import EventKeys, Keys
from truerank.subsampling.units import UnitStrategy

By: TypeAlias = Literal["key", "time", "user"]
POSSIBLE = "random, stratified, temporal, random-user, head-user, random-item or head-item"


@dataclass(frozen=True, eq=False)
class OfEach:
    """Some events of each user.

    Parameters
    ----------
    stage : of the random keys
    quota : how many, of every user
    by : what decides which: random keys, the time, or nothing but keys because nearly all or none are kept
    """

    stage: str
    quota: IntArray
    by: By


@dataclass(frozen=True, eq=False)
class OfAll:
    """The events of largest random key, among all or among those of one item.

    Parameters
    ----------
    stage : of the random keys
    n_keep, n_events : how many of how many
    item : the code of the one item; None draws among all events
    whole : (n_items,) items whose events are all kept beside them
    """

    stage: str
    n_keep: int
    n_events: int
    item: int | None = None
    whole: BoolArray | None = None


Drawing: TypeAlias = OfEach | OfAll


def check_possible(strategy: Strategy) -> None:
    """Raise unless workers that see one partition each can follow the strategy."""
    if isinstance(strategy, Random | Stratified | MostRecent | UnitStrategy):
        return
    reason = "must see all events at once, which no worker does"
    if isinstance(strategy, ProxyStrategy):
        reason = "fits its proxy to all events, which no worker holds"
    elif isinstance(strategy, Centrality | RandomWalk | ForestFire):
        reason = "follows the graph of all users and items, which no worker holds"
    raise InvalidParameter(
        f"strategy {str(strategy)!r} {reason}. Use {POSSIBLE}, or a machine that holds the data in one file."
    )


def make_drawing(strategy: Strategy, census: Census, fraction: float, seed: int) -> Drawing:
    """Decide all that counts decide; the rest is drawn in the partitions."""
    counts, n_events = census.user_counts.astype(np.int64), census.n_events
    if isinstance(strategy, MostRecent) and census.time is None:
        raise InvalidData(
            f"strategy {str(strategy)!r} needs a timestamp for each event, but the files have none. "
            "Name the column with --columns timestamp=NAME or use strategy 'stratified'."
        )
    if fraction in (0, 1):
        return OfEach("", counts if fraction == 1 else np.zeros_like(counts), "user")
    if isinstance(strategy, Stratified | MostRecent):
        stage = f"subsample/{strategy.key}"
        quota = quotas(counts, fraction, seed, stage, legacy=strategy.legacy)
        return OfEach(stage, quota, "time" if isinstance(strategy, MostRecent) else "key")
    if isinstance(strategy, UnitStrategy) and strategy.side == 0:
        return OfEach(strategy.stage, strategy.quota(counts, fraction, seed), "user")
    if isinstance(strategy, UnitStrategy):
        items = census.item_counts.astype(np.int64)
        quota = strategy.quota(items, fraction, seed)
        parted = np.flatnonzero((quota > 0) & (quota < items))
        whole = quota == items
        if len(parted) == 0:
            return OfAll(strategy.stage, 0, 0, -1, whole)
        item = int(parted[0])
        return OfAll(strategy.stage, int(quota[item]), int(items[item]), item, whole)
    return OfAll("subsample/random", wanted(fraction, n_events), n_events)


@dataclass(frozen=True, eq=False)
class Coded:
    """The events of a partition under the codes of all users and items."""

    user: IntArray
    item: IntArray
    value: AnyArray | None
    time: AnyArray | None


@dataclass(frozen=True)
class SelectionRule:
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

    def open(self) -> SelectionRule:
        """Read what all partitions share."""
        frame = read_partition(self._items)
        return SelectionRule(Vocabulary(frame["id"]), frame["whole"].to_numpy())

    def read(self, sheet: SelectionRule, number: int, partition: Partition) -> tuple[Interactions, Coded]:
        """Return the events of a partition over its own users, and the same under everybody's codes."""
        told = read_partition(self._users(number))
        events = self.layout.read(partition, (Vocabulary(told["id"]), sheet.items))
        assert events is not None  # noqa: S101 - partitions without events are no tasks
        codes = told["code"].to_numpy()[events.user]
        return events, Coded(codes, events.item, events.value, events.time)

    def quota(self, number: int) -> IntArray:
        """Return how many events each user of a partition keeps."""
        return read_partition(self._users(number))["quota"].to_numpy()

    @property
    def _items(self) -> str:
        return join(self.folder, f"told-items-{self.digest}.parquet")

    def _users(self, number: int) -> str:
        return part_of(self.folder, f"told-{self.digest}", number)


LAST = (1 << 64) - 1
#: Half the window, in standard deviations of the place of the cut; and what small numbers of events add.
DEVIATIONS, ADDED = 8.0, 64.0


@dataclass(frozen=True)
class Window:
    """Keys from low to high, both included.

    Examples
    --------
    >>> Window.around(500, 1000, 1.0).high == LAST, Window.around(10**8, 10**10, 1.0).width < 1e-4
    (True, True)
    """

    low: int = 0
    high: int = LAST

    @classmethod
    def around(cls, n_keep: int, n_events: int, times: float) -> Window:
        """Return where the key of the last kept event lies, nearly surely with ``times`` = 1."""
        share = 1 - n_keep / n_events
        half = times * (DEVIATIONS * math.sqrt(share * (1 - share) / n_events) + ADDED / n_events)
        low, high = max(0.0, share - half), min(1.0, share + half)
        if high - low > 0.1:
            return cls()
        return cls(int(low * 2.0**64), min(LAST, int(high * 2.0**64)))

    @property
    def width(self) -> float:
        """As a share of all keys."""
        return (self.high - self.low) / LAST


@dataclass(frozen=True)
class Cut:
    """Which keys are kept: those above, and of those at the cut so many of each partition.

    Parameters
    ----------
    key : the cut
    at : by partition, how many events at the cut are kept; usually there is one such event
    """

    key: int
    at: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KeysJob(Job):
    """Send the keys within a window, and how many lie above it."""

    sheet: Worksheet
    stage: str
    seed: int
    item: int | None
    window: Window

    @property
    def key(self) -> str:
        """Everything the keys depend on."""
        return (
            f"keys {self.sheet.folder} {self.sheet.digest} {self.stage} {self.seed} {self.item} {self.window}"
        )

    def open(self) -> SelectionRule:
        """Open what all partitions share."""
        return self.sheet.open()

    def run(self, state: SelectionRule, task: EngineTask) -> bytes:
        """Look at one partition."""
        _, coded = self.sheet.read(state, *task.payload)
        _, keys = keys_of(coded, self.seed, self.stage, self.item)
        above = int((keys > np.uint64(self.window.high)).sum())
        inside = keys[(keys >= np.uint64(self.window.low)) & (keys <= np.uint64(self.window.high))]
        return Partial({"keys": np.sort(inside).view(np.int64)}, {"above": above}).pack()


def keys_of(coded: Coded, seed: int, stage: str, item: int | None) -> tuple[IntArray, Keys]:
    """Return the rows that keys decide about, and their keys: all events, or those of one item."""
    keys = EventKeys(coded, seed, stage)
    if item is None:
        return np.arange(len(coded.user)), keys.all()
    rows = np.flatnonzero(coded.item == item)
    return rows, keys.of(rows)


def find_cut(
    engine: Engine,
    job: KeysJob,
    tasks: Sequence[EngineTask],
    n_keep: int,
    n_events: int,
    *,
    progress: Progress = SILENT,
) -> Cut:
    """Return the cut above and at which ``n_keep`` of ``n_events`` keys lie."""
    if n_keep == 0:
        return Cut(LAST)
    times = 1.0
    while True:
        window = Window.around(n_keep, n_events, times)
        asked = replace(job, window=window)
        found = engine.map(asked, tasks, label=f"drawing on {engine.key}, files", progress=progress)
        partials = [Partial.unpack(partial) for partial in found.values()]
        above = sum(one.facts["above"] for one in partials)
        keys = [one.arrays["keys"].view(np.uint64) for one in partials]
        if above < n_keep <= above + sum(map(len, keys)):
            break
        times *= 64  # keys that are not uniform: look at more of them
    inside = np.sort(np.concatenate(keys))
    cut = inside[len(inside) - (n_keep - above)]
    missing = n_keep - above - int((inside > cut).sum())
    at = []
    for task, own in zip(tasks, keys, strict=True):
        taken = min(missing, int((own == cut).sum()))
        missing -= taken
        if taken:
            at.append((int(task.payload[0]), taken))
    return Cut(int(cut), tuple(at))
