"""Strategies that keep whole users or whole items: random ones, or those with most events."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.plugin import Source
from truerank.core.progress import Progress
from truerank.core.types import AnyArray, BoolArray, IntArray
from truerank.subsampling.base import Strategy, largest_count, nearest_count
from truerank.subsampling.selection import EventKeys, descending_order, keep_in_order, unit_keys


@dataclass(frozen=True)
class UnitStrategy(Strategy):
    """A strategy that keeps all events of the first users or items in an order.

    Parameters
    ----------
    exact : keep exactly the wanted number of events by keeping a random part of the last unit's (user's or
        item's) events; otherwise that unit is left out as a whole, and up to its number of events are missing
    """

    side: ClassVar[int] = 0
    exact: bool = True

    def choose(self, train: Interactions, fraction: float, seed: int, progress: Progress) -> BoolArray:
        """Keep the units in the order of their scores."""
        unit = train.item if self.side else train.user
        counts = train.item_counts() if self.side else train.user_counts()
        keys = EventKeys(train, seed, self.stage)
        return keep_units(train, unit, self.positions(counts, seed), fraction, keys, exact=self.exact)

    @property
    def stage(self) -> str:
        """The name of the random stream."""
        return f"subsample/{self.key}"

    def positions(self, counts: IntArray, seed: int) -> IntArray:
        """Return the position of each unit in the order in which units are kept."""
        return descending_order(self.scores(counts), unit_keys(seed, self.stage, len(counts), self.side))

    def quota(self, counts: IntArray, fraction: float, seed: int) -> IntArray:
        """Return how many events of each unit are kept: all, none, or of one unit some.

        Examples
        --------
        >>> HeadUser().quota(np.array([1, 4, 3]), 0.75, 0).tolist()
        [0, 4, 2]
        """
        n = int(counts.sum())
        n_keep = nearest_count(fraction, n) if self.exact else largest_count(fraction, n)
        order = np.argsort(self.positions(counts, seed))
        cumulated = np.cumsum(counts[order])
        n_whole = int(np.searchsorted(cumulated, n_keep, side="right"))
        quota = np.zeros(len(counts), dtype=np.int64)
        quota[order[:n_whole]] = counts[order[:n_whole]]
        if self.exact and n_whole < len(counts):
            quota[order[n_whole]] = n_keep - (int(cumulated[n_whole - 1]) if n_whole else 0)
        return quota

    @abstractmethod
    def scores(self, counts: IntArray) -> AnyArray:
        """Return the score of each unit, given its number of events; the largest are kept first."""


def keep_units(
    train: Interactions, unit: IntArray, position: IntArray, fraction: float, keys: EventKeys, *, exact: bool
) -> BoolArray:
    """Keep all events of the units at the first positions; ``unit`` is the user or item of each event."""
    n = len(train)
    return keep_in_order(
        lambda block: position[unit[block]],
        len(position),
        n,
        nearest_count(fraction, n) if exact else largest_count(fraction, n),
        keys if exact else None,
    )


@dataclass(frozen=True)
class RandomUser(UnitStrategy):
    """All events of random users.

    Parameters
    ----------
    exact : see `UnitStrategy`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
    >>> len(set(events.user[RandomUser().keep(events, 1 / 3)].tolist()))
    1
    """

    key: ClassVar[str] = "random-user"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, random user")

    def scores(self, counts: IntArray) -> AnyArray:
        """Return equal scores: the random keys decide."""
        return np.zeros(len(counts))


@dataclass(frozen=True)
class HeadUser(UnitStrategy):
    """All events of the users with most events.

    Parameters
    ----------
    exact : see `UnitStrategy`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 1, 1, 1, 2, 2], [0, 0, 1, 2, 0, 1])
    >>> events.user[HeadUser().keep(events, 0.5)].tolist()
    [1, 1, 1]
    """

    key: ClassVar[str] = "head-user"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, head user")

    def scores(self, counts: IntArray) -> AnyArray:
        """Return the numbers of events."""
        return counts


@dataclass(frozen=True)
class RandomItem(RandomUser):
    """All events of random items.

    Parameters
    ----------
    exact : see `UnitStrategy`
    """

    key: ClassVar[str] = "random-item"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, random user, for items")
    side: ClassVar[int] = 1


@dataclass(frozen=True)
class HeadItem(HeadUser):
    """All events of the items with most events.

    Parameters
    ----------
    exact : see `UnitStrategy`

    Examples
    --------
    >>> events = Interactions.from_codes([0, 1, 2, 2], [0, 0, 0, 1])
    >>> events.item[HeadItem().keep(events, 0.75)].tolist()
    [0, 0, 0]
    """

    key: ClassVar[str] = "head-item"
    source: ClassVar[Source] = Source("sachdeva2021", "Sec. 3.2, head user, for items")
    side: ClassVar[int] = 1
