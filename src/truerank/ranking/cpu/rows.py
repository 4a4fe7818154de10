"""Exact counts from score rows: dense rows (an array, a memmap, what a scorer returned) or sparse ones.

Small inputs are counted by sorting in NumPy, which also checks the compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen
from truerank.ranking.cpu.counts import (
    Counts,
    Ints,
    Pools,
    ScoreIsNaN,
    count_among_targets,
    order_within_rows,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def count_sorted(
    pools: Pools,
    score: Callable[[int, int], NDArray[Any]],
    *,
    block: int,
    on_rows: Callable[[int], None] | None = None,
) -> Counts:
    """Return counts of all rows; ``score(start, stop)`` returns the scores of some of them."""
    pools.check_seen()
    out = np.zeros((4, len(pools.target_items)), np.int64)
    for start in range(0, pools.n_rows, block):
        stop = min(start + block, pools.n_rows)
        for row, scores in zip(range(start, stop), score(start, stop), strict=True):
            pairs = slice(pools.target_indptr[row], pools.target_indptr[row + 1])
            targets = scores[pools.targets(row)]
            out[:2, pairs] = above_and_tied(np.delete(scores, pools.seen(row)), targets)
            out[2:, pairs] = above_and_tied(targets, targets)
        if on_rows is not None:
            on_rows(stop - start)
    return Counts(*out)


def above_and_tied(pool: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
    """Return two rows of counts per target: pool scores above it, and equal ones less the target itself."""
    ascending = np.sort(pool)
    left = np.searchsorted(ascending, targets, side="left")
    right = np.searchsorted(ascending, targets, side="right")
    return np.array([len(ascending) - right, right - left - 1])


# Below this many scores NumPy answers before a cached kernel is loaded.
SMALL_WORK = 1_000_000


def count_dense_rows(
    scores: NDArray[Any],
    target_indptr: ArrayLike,
    target_items: ArrayLike,
    seen_indptr: ArrayLike,
    seen_items: ArrayLike,
    *,
    path: Literal["auto", "numpy", "compiled"] = "auto",
) -> Counts:
    """Return exact counts for every (row, target) of a block of dense scores.

    Scores are compared as they are, in their own precision; infinities are scores like others. The block is
    read once and neither masked nor copied when it is float32 or float64 with contiguous rows.

    Parameters
    ----------
    scores : (n_rows, n_items) numbers, higher is better
    target_indptr, target_items, seen_indptr, seen_items : see ``Pools``
    path : which implementation; both return the same counts

    Returns
    -------
    Counts, in the order of ``target_items``

    Raises
    ------
    ScoreIsNaN
        With the row, when a row holds a NaN anywhere.
    InvalidData
        When shapes do not fit or lists are not as ``Pools`` asks.

    Examples
    --------
    >>> counts = count_dense_rows(np.array([[0.5, 0.1, 0.9, 0.5]]), [0, 1], [0], [0, 0], [])
    >>> counts.n_above.tolist(), counts.n_tied.tolist()
    ([1], [1])
    """
    block = _as_scores(scores)
    pools = Pools.of(target_indptr, target_items, seen_indptr, seen_items, block.shape[1])
    if len(block) != pools.n_rows:
        raise InvalidData(
            f"scores must have one row per row of target_indptr, {pools.n_rows}, got {len(block)}."
        )
    if path == "numpy" or (path == "auto" and block.size < SMALL_WORK):
        return _count_dense_numpy(block, pools)
    return _count_dense_compiled(block, pools)


def _as_scores(scores: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(scores)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InvalidData(f"scores must be a matrix of numbers, got {array.dtype} of shape {array.shape}.")
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    return frozen(np.ascontiguousarray(array, dtype=dtype))


def _count_dense_numpy(block: NDArray[Any], pools: Pools) -> Counts:
    broken = np.isnan(block).any(axis=1)
    if broken.any():
        raise ScoreIsNaN(int(np.argmax(broken)))
    return count_sorted(pools, lambda start, stop: block[start:stop], block=max(1, pools.n_rows))


def _count_dense_compiled(block: NDArray[Any], pools: Pools) -> Counts:
    from truerank.ranking.cpu.rows_compiled import count_dense

    rows = np.repeat(np.arange(pools.n_rows), pools.n_targets)
    target_scores = block[rows, pools.target_items]
    order = order_within_rows(pools.target_indptr, target_scores)
    out = np.zeros((2, len(order)), np.int64)
    broken, unsorted = count_dense(
        block,
        pools.target_indptr,
        target_scores[order],
        pools.seen_indptr,
        pools.seen_items,
        out[0],
        out[1],
    )
    if broken >= 0:
        raise ScoreIsNaN(broken)
    if unsorted >= 0:
        pools.check_seen()
    counts = np.empty_like(out)
    counts[:, order] = out
    relevant = count_among_targets(pools.target_indptr, target_scores, order)
    return Counts(counts[0], counts[1], *relevant)


# Below this many rows and stored scores NumPy answers before a cached kernel is loaded.
SMALL_ROWS = 2_000
SMALL_STORED = 1_000_000


def count_sparse_rows(
    scores: csr_array,
    target_indptr: ArrayLike,
    target_items: ArrayLike,
    seen_indptr: ArrayLike,
    seen_items: ArrayLike,
    *,
    path: Literal["auto", "numpy", "compiled"] = "auto",
) -> Counts:
    """Return exact counts for every (row, target) of a sparse score matrix, without making it dense.

    Stored zeros equal absent ones, and negative scores rank below both. Time is O(stored log targets + seen)
    per row, memory O(targets).

    Parameters
    ----------
    scores : (n_rows, n_items) CSR; copied when its indices are unsorted or doubled (doubles are added up)
    target_indptr, target_items, seen_indptr, seen_items : see ``Pools``
    path : which implementation; both return the same counts

    Returns
    -------
    Counts, in the order of ``target_items``

    Raises
    ------
    ScoreIsNaN
        With the row, when a stored score is NaN.
    InvalidData
        When shapes do not fit or lists are not as ``Pools`` asks.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> counts = count_sparse_rows(csr_array([[0.0, 2.0, 0.0, -1.0]]), [0, 1], [2], [0, 0], [])
    >>> counts.n_above.tolist(), counts.n_tied.tolist()
    ([1], [1])
    """
    n_rows, n_items = scores.shape
    pools = Pools.of(target_indptr, target_items, seen_indptr, seen_items, n_items)
    pools.check_seen()
    if n_rows != pools.n_rows:
        raise InvalidData(f"scores must have one row per row of target_indptr, {pools.n_rows}, got {n_rows}.")
    parts = _canonical(scores)
    is_small = n_rows < SMALL_ROWS and len(parts[2]) < SMALL_STORED
    if path == "numpy" or (path == "auto" and is_small):
        return _count_sparse_numpy(*parts, pools)
    return _count_sparse_compiled(*parts, pools)


def _count_sparse_numpy(indptr: Ints, indices: NDArray[Any], data: NDArray[Any], pools: Pools) -> Counts:
    broken = np.flatnonzero(np.isnan(data))
    if len(broken):
        raise ScoreIsNaN(int(np.searchsorted(indptr, broken[0], side="right")) - 1)
    out = np.zeros((4, len(pools.target_items)), np.int64)
    for row in range(pools.n_rows):
        items, scores = (part[indptr[row] : indptr[row + 1]] for part in (indices, data))
        at = np.searchsorted(items, pools.targets(row))
        is_stored = np.append(items, -1)[at] == pools.targets(row)
        targets = np.where(is_stored, np.append(scores, 0)[at], 0)
        stored = scores[(scores != 0) & ~np.isin(items, pools.seen(row))]
        pairs = slice(pools.target_indptr[row], pools.target_indptr[row + 1])
        n_zero = pools.n_items - len(pools.seen(row)) - len(stored)
        out[:2, pairs] = above_and_tied(stored, targets) + n_zero * np.array([targets < 0, targets == 0])
        out[2:, pairs] = above_and_tied(targets, targets)
    return Counts(*out)


def _count_sparse_compiled(indptr: Ints, indices: NDArray[Any], data: NDArray[Any], pools: Pools) -> Counts:
    from truerank.ranking.cpu.rows_compiled import count_sparse, look_up

    target_scores = np.empty(len(pools.target_items), data.dtype)
    look_up(indptr, indices, data, pools.target_indptr, pools.target_items, target_scores)
    order = order_within_rows(pools.target_indptr, target_scores)
    out = np.zeros((2, len(order)), np.int64)
    broken = count_sparse(
        pools.n_items,
        indptr,
        indices,
        data,
        pools.target_indptr,
        target_scores[order],
        pools.seen_indptr,
        pools.seen_items,
        out[0],
        out[1],
    )
    if broken >= 0:
        raise ScoreIsNaN(broken)
    counts = np.empty_like(out)
    counts[:, order] = out
    relevant = count_among_targets(pools.target_indptr, target_scores, order)
    return Counts(counts[0], counts[1], *relevant)


def _canonical(scores: csr_array) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    if not scores.has_canonical_format:
        scores = scores.copy()
        scores.sum_duplicates()
    dtype = np.float32 if scores.data.dtype == np.float32 else np.float64
    return (
        frozen(scores.indptr.astype(np.int64, copy=False)),
        frozen(scores.indices),
        frozen(scores.data.astype(dtype, copy=False)),
    )
