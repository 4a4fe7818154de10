"""Exact counts from given score rows: an array, a slice of a memmap, or what any scorer returned."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen
from truerank.ranks.kernels.counts import Counts, ScoreIsNaN, count_among_targets, order_within_rows
from truerank.ranks.kernels.dense_numpy import count_sorted
from truerank.ranks.kernels.pool import Pools

# Below this many scores NumPy answers before a cached kernel is loaded.
SMALL_WORK = 1_000_000


def count_rows(
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
    >>> counts = count_rows(np.array([[0.5, 0.1, 0.9, 0.5]]), [0, 1], [0], [0, 0], [])
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
        return _count_numpy(block, pools)
    return _count_compiled(block, pools)


def _as_scores(scores: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(scores)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InvalidData(f"scores must be a matrix of numbers, got {array.dtype} of shape {array.shape}.")
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    return frozen(np.ascontiguousarray(array, dtype=dtype))


def _count_numpy(block: NDArray[Any], pools: Pools) -> Counts:
    broken = np.isnan(block).any(axis=1)
    if broken.any():
        raise ScoreIsNaN(int(np.argmax(broken)))
    return count_sorted(pools, lambda start, stop: block[start:stop], block=max(1, pools.n_rows))


def _count_compiled(block: NDArray[Any], pools: Pools) -> Counts:
    from truerank.ranks.kernels.dense_compiled import count_dense

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
