"""Compiled counting of sparse score rows; imported on first use because it imports numba."""

from __future__ import annotations

from typing import Any

from truerank.core.jit import compiled
from truerank.ranks.kernels.threshold_compiled import drop, settle

Array = Any


@compiled
def look_up(
    indptr: Array, indices: Array, data: Array, target_indptr: Array, targets: Array, out: Array
) -> None:
    """Write the score of every (row, target): binary search in the ascending indices, 0 when absent."""
    for row in range(target_indptr.shape[0] - 1):
        for pair in range(target_indptr[row], target_indptr[row + 1]):
            low, high = indptr[row], indptr[row + 1]
            while low < high:
                middle = (low + high) // 2
                if indices[middle] < targets[pair]:
                    low = middle + 1
                else:
                    high = middle
            is_stored = low < indptr[row + 1] and indices[low] == targets[pair]
            out[pair] = data[low] if is_stored else 0.0


@compiled
def count_sparse(
    n_items: int,
    indptr: Array,
    indices: Array,
    data: Array,
    target_indptr: Array,
    target_scores: Array,
    seen_indptr: Array,
    seen_items: Array,
    n_above: Array,
    n_tied: Array,
) -> int:
    """Count for ascending target scores; return the first row with a NaN, or -1."""
    for row in range(indptr.shape[0] - 1):
        first, stop = target_indptr[row], target_indptr[row + 1]
        seen, seen_stop = seen_indptr[row], seen_indptr[row + 1]
        n_zero = n_items - (seen_stop - seen)
        for at in range(indptr[row], indptr[row + 1]):
            score = data[at]
            if score != score:
                return row
            while seen < seen_stop and seen_items[seen] < indices[at]:
                seen += 1
            is_seen = seen < seen_stop and seen_items[seen] == indices[at]
            if score != 0.0 and not is_seen:
                drop(score, 1, target_scores, first, stop, n_above, n_tied)
                n_zero -= 1
        drop(0.0, n_zero, target_scores, first, stop, n_above, n_tied)
        settle(target_scores, first, stop, n_above, n_tied)
    return -1
