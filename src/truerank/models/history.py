"""Scorers that sum the rows of an item-item matrix over a user's history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from truerank.core.interactions import Interactions, Lists
from truerank.core.types import FloatArray, IntArray, frozen

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CELLS = 1 << 22  # scores unpacked at a time: 32 MB


@dataclass(frozen=True, eq=False)
class DenseHistoryScorer:
    """Scores by a full item-item matrix.

    A score is the sum over the user's items in ascending order, in float64: a function of the pair, not of
    the batch. A user without history scores 0 everywhere. ``score`` releases the interpreter lock.

    Parameters
    ----------
    history : each user's train items
    weights : (n_items, n_items) float64; row j holds what a history item j adds to each candidate
    """

    history: Lists
    weights: FloatArray
    is_thread_safe: ClassVar[bool] = True

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.weights)

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        from truerank.models.kernels.history import sum_entries, sum_rows

        users, items = np.ascontiguousarray(users, np.int64), np.ascontiguousarray(items, np.int64)
        out = np.empty((len(users), items.shape[-1]))
        pointers, entries = self.history.indptr, self.history.items
        if items.ndim == 1 and len(items) == self.n_items and (items == np.arange(len(items))).all():
            sum_rows(pointers, entries, users, self.weights, out)
        else:
            sum_entries(pointers, entries, users, np.atleast_2d(items), self.weights, out)
        return out


@dataclass(frozen=True, eq=False)
class SparseHistoryScorer:
    """Scores by a sparse item-item matrix; items that no history item leads to score 0.

    The sums run in the same order as those of ``DenseHistoryScorer``, so the bits agree.

    Parameters
    ----------
    history : (n_users, n_items) ones where a user met an item in train
    weights : (n_items, n_items); row j holds what a history item j adds to each candidate
    """

    history: csr_array
    weights: csr_array
    is_thread_safe: ClassVar[bool] = True

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.weights.shape[1])

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the (len(users), n_items) matrix of scores, columns ascending."""
        rows: csr_array = self.history[np.asarray(users)] @ self.weights
        rows.sort_indices()
        return rows

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        users, items = np.asarray(users), np.asarray(items)
        out = np.empty((len(users), items.shape[-1]))
        step = max(1, _CELLS // max(self.n_items, 1))
        for first in range(0, len(users), step):
            block = slice(first, first + step)
            rows = self.sparse_rows(users[block]).toarray()
            out[block] = rows[:, items] if items.ndim == 1 else np.take_along_axis(rows, items[block], axis=1)
        return out


def dense_history_scorer(train: Interactions, weights: FloatArray) -> DenseHistoryScorer:
    """Return the scorer for a full item-item matrix; the matrix becomes read-only."""
    return DenseHistoryScorer(train.by_user(), frozen(weights))


def sparse_history_scorer(train: Interactions, weights: csr_array) -> SparseHistoryScorer:
    """Return the scorer for a sparse item-item matrix; the matrix becomes read-only."""
    history = train.matrix().astype(np.float64)
    for matrix in (history, weights):
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
    return SparseHistoryScorer(history, weights)
