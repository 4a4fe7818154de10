"""Strategies that sample events: from all events, or the same fraction of every user's history.

`Random` and `Stratified` sample uniformly, `MostRecent` keeps the latest events of each user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.plugin import Source
from truerank.core.progress import Progress, tracked
from truerank.core.types import BoolArray, IntArray
from truerank.subsampling.base import Strategy, nearest_count
from truerank.subsampling.selection import (
    EventKeys,
    keep_largest,
    keep_largest_of_each,
    proportional_quotas,
    unit_keys,
)


@dataclass(frozen=True)
class Random(Strategy):
    """Events at random, all equally likely.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    >>> int(Random().keep(events, 0.5).sum())
    2
    """

    key: ClassVar[str] = "random"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, random interaction")

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep the events of largest key."""
        keys = EventKeys(train, seed, "subsample/random")
        return keep_largest(keys.all(), nearest_count(fraction, len(train)), keys)


@dataclass(frozen=True)
class Stratified(Strategy):
    """The same fraction of each user's events, at random.

    Parameters
    ----------
    legacy : remove ceil((1 - fraction) L) of a user's L events, as the published code does: too many wherever
        histories are short. By default the numbers are rounded by largest remainders and their sum is exact.

    Notes
    -----
    The paper keeps p % of each user's events, which is rarely a whole number. With ``legacy``, users with
    one event lose it at every fraction below 1.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1])
    >>> events.user[Stratified().keep(events, 0.5)].tolist()
    [0, 0, 1]
    """

    key: ClassVar[str] = "stratified"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, user-history stratified")
    legacy: bool = False

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep each user's events of largest key."""
        stage = "subsample/stratified"
        keys = EventKeys(train, seed, stage)
        quota = history_quotas(train.user_counts(), fraction, seed, stage, legacy=self.legacy)
        with tracked(progress, "choosing in each history"):
            return keep_largest_of_each(train.user, quota, keys.all(), keys)


@dataclass(frozen=True)
class MostRecent(Strategy):
    """The same fraction of each user's events, the most recent ones.

    Among events of equal time random ones are kept.

    Parameters
    ----------
    legacy : remove the ceil((1 - fraction) L) oldest of a user's L events, as the published code does; see
        `Stratified`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 0, 0], [0, 1, 2, 3], time=np.array([4, 8, 5, 1]))
    >>> events.item[MostRecent().keep(events, 0.5)].tolist()
    [1, 2]
    """

    key: ClassVar[str] = "temporal"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, user-history temporal")
    legacy: bool = False

    def check(self, train: Interactions) -> None:
        """Raise unless the events have times."""
        if train.time is None:
            raise InvalidData(
                f"strategy {str(self)!r} needs a timestamp for each event, but {train.name!r} has none. "
                "Name the column with columns={'timestamp': NAME} or use strategy 'stratified'."
            )

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep each user's events of largest time."""
        stage = "subsample/temporal"
        quota = history_quotas(train.user_counts(), fraction, seed, stage, legacy=self.legacy)
        with tracked(progress, "choosing in each history"):
            time = np.asarray(train.time)
            return keep_largest_of_each(train.user, quota, time, EventKeys(train, seed, stage))


def history_quotas(counts: IntArray, fraction: float, seed: int, stage: str, *, legacy: bool) -> IntArray:
    """Return how many events each user keeps, given how many each has.

    Examples
    --------
    >>> history_quotas(np.array([4, 2]), 0.5, 0, "demo", legacy=False).tolist()
    [2, 1]
    """
    if legacy:
        # 0.3 * 10 must remove 3, though 1 - 0.7 is a little more than 0.3
        removed: IntArray = np.ceil((1 - fraction) * counts - 1e-9).astype(np.int64)
        return counts - removed
    return proportional_quotas(
        counts, fraction, nearest_count(fraction, int(counts.sum())), unit_keys(seed, stage, len(counts))
    )
