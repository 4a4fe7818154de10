"""Events at random.

The same share of every user's history, at random or the most recent part.
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
from truerank.subsampling.base import Strategy, wanted
from truerank.subsampling.selection import EventKeys, keep_largest, keep_largest_of_each, shares, unit_keys


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
        return keep_largest(keys.all(), wanted(fraction, len(train)), keys)


@dataclass(frozen=True)
class Stratified(Strategy):
    """The same share of each user's events, at random.

    Parameters
    ----------
    legacy : remove ceil((1 - fraction) L) of a user's L events, as the published code does: too many wherever
        histories are short. By default users get their shares by largest remainders and the sum is exact.

    Notes
    -----
    The paper says p % of each user's events, which whole numbers do not allow. With ``legacy``, users with
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
        quota = quotas(train.user_counts(), fraction, seed, stage, legacy=self.legacy)
        with tracked(progress, "choosing in each history"):
            return keep_largest_of_each(train.user, quota, keys.all(), keys)


@dataclass(frozen=True)
class MostRecent(Strategy):
    """The same share of each user's events, the most recent ones.

    Of equal times random ones are kept.

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
                "Name the column with --columns timestamp=NAME or use strategy 'stratified'."
            )

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep each user's events of largest time."""
        stage = "subsample/temporal"
        quota = quotas(train.user_counts(), fraction, seed, stage, legacy=self.legacy)
        with tracked(progress, "choosing in each history"):
            time = np.asarray(train.time)
            return keep_largest_of_each(train.user, quota, time, EventKeys(train, seed, stage))


def quotas(counts: IntArray, fraction: float, seed: int, stage: str, *, legacy: bool) -> IntArray:
    """Return how many events each user keeps, given how many each has.

    Examples
    --------
    >>> quotas(np.array([4, 2]), 0.5, 0, "demo", legacy=False).tolist()
    [2, 1]
    """
    if legacy:
        # 0.3 * 10 must remove 3, though 1 - 0.7 is a little more than 0.3
        removed: IntArray = np.ceil((1 - fraction) * counts - 1e-9).astype(np.int64)
        return counts - removed
    return shares(counts, fraction, wanted(fraction, int(counts.sum())), unit_keys(seed, stage, len(counts)))
