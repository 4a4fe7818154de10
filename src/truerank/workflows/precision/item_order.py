"""Orders in which a slow model is asked for items: those first that it is expected to rank above a target.

The order decides what an evaluation costs, never what it finds. ``PopularFirst`` needs nothing but the train
part; for the order of cheap models see ``proxy_order``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.types import BoolArray, FloatArray, IntArray

_STRIDE = 64  # one of so many guesses of a row says about where its largest begin


@dataclass(frozen=True, eq=False)
class Asked:
    """Scores that the slow model gave.

    Parameters
    ----------
    user, item : (n,) codes; pairs of one user lie together
    score : (n,) what the model said
    features : (n, n_features) what the order knew about the pairs
    """

    user: IntArray
    item: IntArray
    score: FloatArray
    features: FloatArray

    @classmethod
    def none(cls, n_features: int) -> Asked:
        """Return no pairs."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, np.zeros(0), np.zeros((0, n_features), np.float32))

    @classmethod
    def joined(cls, parts: Sequence[Asked]) -> Asked:
        """Return all pairs, those of one user together."""
        user = np.concatenate([part.user for part in parts])
        order = np.argsort(user, kind="stable")
        return cls(
            user[order],
            np.concatenate([part.item for part in parts])[order],
            np.concatenate([part.score for part in parts])[order],
            np.concatenate([part.features for part in parts])[order],
        )

    def where(self, kept: BoolArray | slice) -> Asked:
        """Return some of the pairs."""
        return Asked(self.user[kept], self.item[kept], self.score[kept], self.features[kept])

    def __len__(self) -> int:
        return len(self.user)


class Guesses(Protocol):
    """What an order expects of all items of some users.

    Attributes
    ----------
    guess : (n_users, n_items), larger where the slow model's score is expected to be larger; one's own to
        change
    """

    guess: FloatArray

    def features(self, items: IntArray) -> FloatArray:
        """Return what is known about items of each user: (n_users, n, n_features) for (n_users, n) items."""


class ItemOrder(Protocol):
    """Says which items of a user a slow model probably scores high; wrong answers cost scores, no more."""

    @property
    def n_features(self) -> int:
        """How many numbers are known about a pair."""

    def fresh(self) -> ItemOrder:
        """Return the order before anything was learnt."""

    def guesses(self, users: IntArray) -> Guesses:
        """Return what is expected of all items of some users."""

    def guess_listed(self, users: IntArray, items: IntArray, features: FloatArray) -> FloatArray:
        """Return what is expected of pairs ``users[i], items[i]`` whose features are known."""

    def learn(self, new: Asked, again: IntArray) -> None:
        """Take in scores that the slow model gave; ``again`` are users that may be asked about again."""


def largest_first(guess: FloatArray, n: int) -> IntArray:
    """Return the n items of each row with the largest guesses, falling; of equal ones the lower code first.

    Examples
    --------
    >>> largest_first(np.array([[1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 0.0, 5.0]]), 3).tolist()
    [[1, 3, 2], [3, 0, 1]]
    """
    n = min(n, guess.shape[1])
    largest = np.empty((len(guess), n), np.int64)
    for row, chosen in zip(guess, largest, strict=True):
        if n == 0:
            break
        among = _candidates(row, n)
        least = np.partition(row[among], len(among) - n)[len(among) - n]
        items = among[row[among] >= least]
        chosen[:] = items[np.argsort(-row[items], kind="stable")[:n]]
    return largest


def _candidates(row: FloatArray, n: int) -> IntArray:
    """Return items, ascending, that hold the n with the largest guesses and few others, where that is quick.

    Some of the guesses, evenly spaced, say above which value about twice as many lie; where it was too high,
    all items are returned.
    """
    some = row[::_STRIDE]
    place = 2 * (n // _STRIDE) + 8
    if 4 * place < len(some):
        least = np.partition(some, len(some) - place)[len(some) - place]
        found = np.flatnonzero(row >= least)
        if len(found) >= n:
            return found
    return np.arange(len(row))


class PopularFirst:
    """Popular items first, the same order for all users; items of equal popularity by their code.

    Parameters
    ----------
    train : events that popularity is counted in
    """

    n_features = 0

    def __init__(self, train: Interactions) -> None:
        counts = np.bincount(train.item, minlength=train.n_items).astype(np.float64)
        self.place: FloatArray = np.empty(train.n_items)
        self.place[np.argsort(-counts, kind="stable")] = -np.arange(train.n_items)

    def fresh(self) -> PopularFirst:
        """Return itself: nothing is learnt."""
        return self

    def guesses(self, users: IntArray) -> Guesses:
        """Return the place of each item, counted downwards from 0."""
        return _SameForAll(np.tile(self.place, (len(users), 1)))

    def guess_listed(self, users: IntArray, items: IntArray, features: FloatArray) -> FloatArray:
        """Return the places of items."""
        return self.place[items]

    def learn(self, new: Asked, again: IntArray) -> None:
        """Learn nothing."""


@dataclass(eq=False)
class _SameForAll:
    """Guesses behind which there are no features."""

    guess: FloatArray

    def features(self, items: IntArray) -> FloatArray:
        """Return nothing about each item."""
        return np.zeros((*items.shape, 0), np.float32)
