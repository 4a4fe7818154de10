"""Compiled counting of dense score rows; imported on first use because it imports numba."""

from __future__ import annotations

from typing import Any

from truerank.core.jit import compiled
from truerank.ranks.kernels.threshold_compiled import drop, settle

Array = Any

# Up to this many targets, one vectorised pass each (over scores in cache) beats a binary search per score.
MOST_PASSES = 128
CHUNK = 4096


@compiled
def pass_over(scores: Array, target: float) -> tuple[int, int, int]:
    """Count the scores above, equal and not a number, in one vectorised pass."""
    above = 0
    tied = 0
    broken = 0
    for at in range(scores.shape[0]):
        above += scores[at] > target
        tied += scores[at] == target
        broken += scores[at] != scores[at]
    return above, tied, broken


@compiled
def count_dense(
    scores: Array,
    target_indptr: Array,
    target_scores: Array,
    seen_indptr: Array,
    seen_items: Array,
    n_above: Array,
    n_tied: Array,
) -> tuple[int, int]:
    """Count for ascending target scores.

    Returns the first row that holds a NaN and the first whose seen list is bad, -1 where there is none.
    """
    n_rows, n_items = scores.shape
    for row in range(n_rows):
        first, stop = target_indptr[row], target_indptr[row + 1]
        by_pass = stop - first <= MOST_PASSES
        broken = 0
        for start in range(0, n_items, CHUNK):
            part = scores[row, start : start + CHUNK]
            if by_pass:
                for t in range(first, stop):
                    above, tied, nans = pass_over(part, target_scores[t])
                    n_above[t] += above
                    n_tied[t] += tied
                    broken += nans
            else:
                for at in range(part.shape[0]):
                    broken += part[at] != part[at]
                    drop(part[at], 1, target_scores, first, stop, n_above, n_tied)
        if broken > 0:
            return row, -1
        before = -1
        for at in range(seen_indptr[row], seen_indptr[row + 1]):
            item = seen_items[at]
            if item <= before or item >= n_items:
                return -1, row
            before = item
            score = scores[row, item]
            if by_pass:
                for t in range(first, stop):
                    n_above[t] -= score > target_scores[t]
                    n_tied[t] -= score == target_scores[t]
            else:
                drop(score, -1, target_scores, first, stop, n_above, n_tied)
        if by_pass:
            for t in range(first, stop):
                n_tied[t] -= 1
        else:
            settle(target_scores, first, stop, n_above, n_tied)
    return -1, -1
