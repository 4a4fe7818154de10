"""Item-item models: co-occurrence counts, nearest items, in-place inversion, and scorers over histories.

A fitted item-item model is a matrix whose row j holds what item j of a user's history adds to the score of
each candidate. It is either full (`DenseHistoryScorer`) or sparse (`SparseHistoryScorer`). Counting, the
search for neighbours and the inversion of large symmetric matrices are cut into fixed blocks that threads
share, so that the bits of a result do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions, Lists
from truerank.core.parallel import balanced_blocks, even_blocks, run_row_blocks, single_threaded_blas
from truerank.core.progress import ProgressTask
from truerank.core.scorer import ItemWeights, check_histories
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
        from truerank.models.kernels import sum_entries, sum_rows

        users, items = np.ascontiguousarray(users, np.int64), np.ascontiguousarray(items, np.int64)
        out = np.empty((len(users), items.shape[-1]))
        pointers, entries = self.history.indptr, self.history.items
        if items.ndim == 1 and len(items) == self.n_items and (items == np.arange(len(items))).all():
            sum_rows(pointers, entries, users, self.weights, out)
        else:
            sum_entries(pointers, entries, users, np.atleast_2d(items), self.weights, out)
        return out

    def item_weights(self) -> ItemWeights:
        """Return the matrix and the histories."""
        return ItemWeights(self.history, self.weights)

    def with_histories(self, events: Interactions) -> DenseHistoryScorer:
        """Return the scorer of other histories."""
        check_histories(events, self.n_items)
        return dense_history_scorer(events, self.weights)


@dataclass(frozen=True, eq=False)
class SparseHistoryScorer:
    """Scores by a sparse item-item matrix; items that no history item leads to score 0.

    The sums run in the same order as those of ``DenseHistoryScorer``, so the bits agree.

    Parameters
    ----------
    history : (n_users, n_items) ones where a user met an item in train
    weights : (n_items, n_items); row j holds what a history item j adds to each candidate
    unknown : how many ``users`` and ``items`` a model of another library behind it does not know
    """

    history: csr_array
    weights: csr_array
    unknown: Mapping[str, int] = field(default_factory=dict)
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

    def item_weights(self) -> ItemWeights:
        """Return the matrix and the histories."""
        lists = Lists(self.history.indptr.astype(np.int64), self.history.indices.astype(np.int32, copy=False))
        return ItemWeights(lists, self.weights)

    def with_histories(self, events: Interactions) -> SparseHistoryScorer:
        """Return the scorer of other histories."""
        check_histories(events, self.n_items)
        return sparse_history_scorer(events, self.weights)


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


_ENTRIES = 20_000  # events per block: a few hundredths of a second


def by_item(train: Interactions) -> Lists:
    """Return each item's distinct users, ascending."""
    columns = train.matrix().tocsc()
    columns.sort_indices()
    return Lists(frozen(columns.indptr.astype(np.int64)), frozen(columns.indices.astype(np.int32)))


def cooccurrence_lower(train: Interactions, task: ProgressTask) -> FloatArray:
    """Return X^T X of the binary matrix X, (n_items, n_items) float64, lower triangle filled, zeros above.

    Counts are integers, hence exact. Takes 8 n_items^2 bytes and about sum over users of |H_u|^2 / 2 steps;
    the task advances by one per item.
    """
    from truerank.models.kernels import count_lower

    rows, columns = train.by_user(), by_item(train)
    counts = np.zeros((train.n_items, train.n_items))

    def count(first: int, last: int) -> None:
        count_lower(columns.indptr, columns.items, rows.indptr, rows.items, first, last, counts)
        task.advance(last - first)

    run_row_blocks(count, balanced_blocks(columns.indptr, _ENTRIES))
    return counts


def nearest_items(
    train: Interactions, neighbours: int, *, shrink: float, include_self: bool, task: ProgressTask
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each item's most similar items by cosine as the arrays indptr, indices and data of a CSR matrix.

    Indices ascend within a row; zero similarities are left out; among equal ones the lower code is taken.
    """
    from truerank.models.kernels import nearest

    rows, columns = train.by_user(), by_item(train)
    width = min(neighbours, train.n_items)
    index = np.empty((train.n_items, width), np.int32)
    value = np.empty((train.n_items, width))
    length = np.zeros(train.n_items, np.int64)
    pointers = (columns.indptr, columns.items, rows.indptr, rows.items)

    def search(first: int, last: int) -> None:
        nearest(*pointers, first, last, shrink, include_self, index, value, length)
        task.advance(last - first)

    run_row_blocks(search, balanced_blocks(columns.indptr, _ENTRIES))
    filled = np.arange(width) < length[:, None]
    return np.concatenate([[0], np.cumsum(length)]), index[filled], value[filled]


_BLOCK = 256  # wide enough for BLAS to reach its peak, fine enough to share among threads


def mirror_lower(matrix: FloatArray) -> None:
    """Copy the lower triangle onto the upper one, in place."""
    blocks = even_blocks(len(matrix), _BLOCK)

    def mirror(first: int, last: int) -> None:
        corner = matrix[first:last, first:last]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        for start, stop in blocks:
            if start < first:
                matrix[start:stop, first:last] = matrix[first:last, start:stop].T

    run_row_blocks(mirror, blocks)


def negate_inverse_lower(matrix: FloatArray, task: ProgressTask) -> None:
    """Replace the lower triangle of a positive definite matrix by that of minus its inverse.

    The block form of the sweep operator: n^3 operations like a Cholesky factor and its inverse, no
    second matrix, and only products of blocks with one fixed shape each. Those are computed by BLAS on one
    thread each, and the blocks are shared among Python threads, so the number of threads cannot change a
    bit. The task advances by one per row.

    Raises
    ------
    InvalidParameter
        When the matrix is not positive definite to working precision.
    """
    blocks = even_blocks(len(matrix), _BLOCK)
    with single_threaded_blas():
        for first, last in blocks:
            _sweep(matrix, first, last, blocks)
            task.advance(last - first)


def _sweep(matrix: FloatArray, first: int, last: int, blocks: list[tuple[int, int]]) -> None:
    """Sweep one diagonal block: A_KK <- -1/A_KK, A_iK <- A_iK/A_KK, A_ij <- A_ij - A_iK/A_KK A_Kj."""
    pivot = _inverse(matrix[first:last, first:last])
    column = np.concatenate([matrix[first:last, :first].T, matrix[first:, first:last]])
    column[first:last] = 0.0
    scaled = np.empty_like(column)

    def update(start: int, stop: int) -> None:
        scaled[start:stop] = column[start:stop] @ pivot
        matrix[start:stop, :stop] -= scaled[start:stop] @ column[:stop].T

    run_row_blocks(update, blocks[::-1])  # the longest first
    matrix[first:last, :first] = scaled[:first].T
    matrix[last:, first:last] = scaled[last:]
    matrix[first:last, first:last] = -pivot


def _inverse(block: FloatArray) -> FloatArray:
    """Return the inverse of a positive definite block, of which the lower triangle is read."""
    from scipy.linalg import LinAlgError, cho_solve, cholesky

    try:
        factor = cholesky(block, lower=True, check_finite=False)
    except LinAlgError:
        raise InvalidParameter(
            "reg is too small: the item-item matrix cannot be inverted in float64. Use a larger reg."
        ) from None
    inverse: FloatArray = cho_solve((factor, True), np.eye(len(block)))
    return (inverse + inverse.T) / 2
