"""How a strategy draws from partitions: what the driver decides from counts, and what is left to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from truerank.cluster.census import Census
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.strategy import ProxyStrategy, Strategy, wanted
from truerank.core.types import AnyArray, BoolArray, IntArray
from truerank.subsample.centrality import Centrality
from truerank.subsample.history import Stratified, Temporal, quotas
from truerank.subsample.interaction import Random
from truerank.subsample.unit import UnitStrategy
from truerank.subsample.walk import ForestFire, RandomWalk

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
    if isinstance(strategy, Random | Stratified | Temporal | UnitStrategy):
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
    if isinstance(strategy, Temporal) and census.time is None:
        raise InvalidData(
            f"strategy {str(strategy)!r} needs a timestamp for each event, but the files have none. "
            "Name the column with --columns timestamp=NAME or use strategy 'stratified'."
        )
    if fraction in (0, 1):
        return OfEach("", counts if fraction == 1 else np.zeros_like(counts), "user")
    if isinstance(strategy, Stratified | Temporal):
        stage = f"subsample/{strategy.key}"
        quota = quotas(counts, fraction, seed, stage, legacy=strategy.legacy)
        return OfEach(stage, quota, "time" if isinstance(strategy, Temporal) else "key")
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
