"""Random keys of events and nodes, from which every strategy draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from truerank.core.stream import pair_keys
from truerank.core.types import AnyArray, FloatArray, IntArray

CHUNK = 1 << 20  # events treated at once, so that scratch stays small whatever their number

Keys = NDArray[np.uint64]


def chunks(n_events: int) -> list[slice]:
    """Return slices that cover the events, each of at most `CHUNK`.

    Examples
    --------
    >>> chunks(5)
    [slice(0, 5, None)]
    """
    return [slice(start, min(start + CHUNK, n_events)) for start in range(0, n_events, CHUNK)]


class Events(Protocol):
    """What keys are drawn from: `truerank.core.interactions.Interactions`, or some of its columns."""

    @property
    def user(self) -> IntArray:
        """The code of each event's user."""

    @property
    def item(self) -> IntArray:
        """The code of each event's item."""

    @property
    def value(self) -> FloatArray | None:
        """The ratings, where there are any."""

    @property
    def time(self) -> AnyArray | None:
        """The times, where there are any."""


@dataclass(frozen=True, eq=False)
class EventKeys:
    """One random 64-bit key per event: a function of seed, stage, user and item, not of the row.

    Events of one pair are told apart by their time, then their value, so that each has a key of its own.

    Parameters
    ----------
    train : the events
    seed, stage : of the draw

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> events = Interactions.from_codes([0, 1, 0], [2, 1, 2])
    >>> turned = events.take(np.array([1, 2, 0]))
    >>> sorted(EventKeys(events, 0, "demo").all()) == sorted(EventKeys(turned, 0, "demo").all())
    True
    """

    train: Events
    seed: int
    stage: str

    def all(self) -> Keys:
        """Return the keys of all events."""
        keys = np.empty(len(self.train.user), dtype=np.uint64)
        for block in chunks(len(keys)):
            user, item = self.train.user[block], self.train.item[block]
            keys[block] = pair_keys(self.seed, self.stage, user, item)
        return self._told_apart(keys, None)

    def of(self, rows: IntArray) -> Keys:
        """Return the keys of some events; those of one pair are numbered among the given rows."""
        keys = pair_keys(self.seed, self.stage, self.train.user[rows], self.train.item[rows])
        return self._told_apart(keys, rows)

    def _told_apart(self, keys: Keys, rows: IntArray | None) -> Keys:
        ordered = np.sort(keys)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(repeated):
            at = np.flatnonzero(np.isin(keys, repeated))
            keys[at] = self._numbered(keys[at], at if rows is None else rows[at])
        return keys

    def _numbered(self, keys: Keys, rows: IntArray) -> Keys:
        """Give the second and further events of each pair, by time and value, keys of their own."""
        columns = [column[rows] for column in (self.train.value, self.train.time) if column is not None]
        order = np.lexsort((*columns, keys))
        starts = np.r_[True, np.diff(keys[order]) != 0]
        places = np.arange(len(keys))
        number = np.empty(len(keys), dtype=np.int64)
        number[order] = places - np.maximum.accumulate(np.where(starts, places, 0))
        again = number > 0
        keys[again] = pair_keys(self.seed, f"{self.stage}/repeat", keys[again], number[again])
        return keys


def unit_keys(seed: int, stage: str, n_units: int, side: int = 0) -> Keys:
    """Return one random key per user (side 0) or item (side 1)."""
    return pair_keys(seed, f"{stage}/unit", np.array(side), np.arange(n_units))
