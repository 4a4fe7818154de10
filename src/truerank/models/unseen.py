"""Draws among the items that a user has not met."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.types import IntArray


@dataclass(frozen=True, eq=False)
class Unseen:
    """Uniform draws from the catalogue minus a user's train items, without trial and error.

    The k-th unseen item of a user is k plus the number of train items H_j (sorted, from j = 0) with H_j - j <= k;
    one binary search over all users' shifted lists finds it. A user who has met the whole catalogue draws from
    all of it.

    Parameters
    ----------
    indptr : (n_users + 1,) where the lists of the users begin
    shifted : (n,) ascending, user * n_items + H_j - j
    n_items : size of the catalogue

    Examples
    --------
    >>> unseen = Unseen.of(Interactions.from_codes([0, 0, 1], [0, 2, 3], n_items=4))
    >>> sorted(set(unseen.draw(np.random.default_rng(0), np.zeros(50, int)).tolist()))
    [1, 3]
    """

    indptr: IntArray
    shifted: IntArray
    n_items: int

    @classmethod
    def of(cls, train: Interactions) -> Unseen:
        """Prepare the draws for the users of a train set."""
        lists = train.by_user()
        lengths = lists.lengths()
        user = np.repeat(np.arange(train.n_users, dtype=np.int64), lengths)
        place = np.arange(len(lists.items), dtype=np.int64) - np.repeat(lists.indptr[:-1], lengths)
        return cls(lists.indptr, user * train.n_items + lists.items - place, train.n_items)

    def draw(self, rng: np.random.Generator, users: IntArray) -> IntArray:
        """Return one item per entry of ``users``, in its shape."""
        users = np.asarray(users, np.int64)
        first = self.indptr[users]
        n_unseen = self.n_items - (self.indptr[users + 1] - first)
        is_full = n_unseen == 0
        k = rng.integers(np.where(is_full, self.n_items, n_unseen), dtype=np.int64)
        below = np.searchsorted(self.shifted, users * self.n_items + k, side="right") - first
        items: IntArray = np.where(is_full, k, k + below)
        return items
