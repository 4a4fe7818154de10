"""Histories in the order of time, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.types import BoolArray, IntArray, frozen
from truerank.models.check import check_events

_POOL = 16  # batches sorted by length together; more padding is saved with more, less is random


@dataclass(frozen=True, eq=False)
class Padded:
    """Some users' latest events, one row each, padded at the end.

    Parameters
    ----------
    users : (n,)
    items : (n, width) oldest first; 0 behind the end
    lengths : (n,) how much of a row is filled
    """

    users: IntArray
    items: IntArray
    lengths: IntArray

    def is_filled(self) -> BoolArray:
        """Return the (n, width) mask of true events."""
        mask: BoolArray = np.arange(self.items.shape[1]) < self.lengths[:, None]
        return mask


@dataclass(frozen=True, eq=False)
class Histories:
    """Each user's train events from the oldest to the newest; repeated items stay.

    Parameters
    ----------
    indptr : (n_users + 1,) int64, user u's events lie at ``indptr[u]:indptr[u + 1]``
    items : (n,) int64

    Examples
    --------
    >>> train = Interactions.from_codes([0, 1, 0, 0], [3, 0, 1, 2], time=np.array([7, 1, 5, 6]))
    >>> histories = Histories.of("sasrec", train)
    >>> histories.latest(np.array([0, 1]), 2).items.tolist()
    [[2, 3], [0, 0]]
    """

    indptr: IntArray
    items: IntArray

    @classmethod
    def of(cls, model: str, train: Interactions) -> Histories:
        """Sort by user and time; of equal times the later row counts as later, as in the splits."""
        check_events(model, train)
        if train.time is None:
            raise InvalidData(
                f"model {model!r} learns from the order of events and needs a timestamp for each, but "
                f"{train.name!r} has none. Name the column with --columns timestamp=NAME or use a model "
                "without order, such as 'ease'."
            )
        order = np.lexsort((train.time, train.user))
        indptr = np.zeros(train.n_users + 1, np.int64)
        np.cumsum(train.user_counts(), out=indptr[1:])
        histories = cls(frozen(indptr), frozen(train.item[order].astype(np.int64)))
        if histories.lengths().max() < 2:
            raise InvalidData(
                f"model {model!r} learns what follows what and needs a user with at least two train events, "
                f"but {train.name!r} has none. Check the split and the filters, or use a model without "
                "order, such as 'ease'."
            )
        return histories

    def lengths(self) -> IntArray:
        """Return the number of events of each user."""
        return np.diff(self.indptr)

    def latest(self, users: IntArray, most: int) -> Padded:
        """Return up to ``most`` latest events of each user."""
        last = self.indptr[users + 1]
        lengths = np.minimum(last - self.indptr[users], most)
        place = np.arange(max(1, int(lengths.max(initial=0))))
        is_filled = place < lengths[:, None]
        items = self.items[np.where(is_filled, (last - lengths)[:, None] + place, 0)]
        return Padded(users, np.where(is_filled, items, 0), lengths)

    def batches(self, rng: np.random.Generator, batch_size: int, most: int) -> Iterator[Padded]:
        """Yield all users with two or more events once, in random batches of similar lengths."""
        lengths = np.minimum(self.lengths(), most)
        users = rng.permutation(np.flatnonzero(lengths >= 2))
        pools = [
            users[first : first + _POOL * batch_size] for first in range(0, len(users), _POOL * batch_size)
        ]
        chosen = [
            pool[first : first + batch_size]
            for pool in (pool[np.argsort(lengths[pool], kind="stable")] for pool in pools)
            for first in range(0, len(pool), batch_size)
        ]
        for number in rng.permutation(len(chosen)):
            yield self.latest(chosen[number], most)

    def blocks(self, batch_size: int, most: int) -> Iterator[Padded]:
        """Yield every user with events once, shortest histories first."""
        lengths = np.minimum(self.lengths(), most)
        users = np.argsort(lengths, kind="stable")
        users = users[lengths[users] > 0]
        for first in range(0, len(users), batch_size):
            yield self.latest(users[first : first + batch_size], most)
