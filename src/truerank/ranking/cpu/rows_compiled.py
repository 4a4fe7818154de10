"""Compiled counting of dense and sparse score rows; imported on first use because it imports numba.

Rows with many targets: scores are added by binary search to a histogram over the ascending target scores.
``n_above[t]`` holds at first the scores just above target t and ``n_tied[t]`` those equal to the first of
equal targets; ``settle`` turns the histogram into counts.
"""

from __future__ import annotations

from typing import Any

from truerank.core.jit import compiled

Array = Any


@compiled
def drop(
    score: float, times: int, targets: Array, first: int, stop: int, n_above: Array, n_tied: Array
) -> None:
    """Add a score ``times`` times to the histogram of the ascending targets first..stop-1."""
    low, size = first, stop - first
    while size > 0:  # no branch depends on the score, so nothing is mispredicted
        half = (size + 1) // 2
        low += half if targets[low + half - 1] < score else 0
        size -= half
    if low > first:
        n_above[low - 1] += times
    if low < stop and targets[low] == score:
        n_tied[low] += times


@compiled
def settle(targets: Array, first: int, stop: int, n_above: Array, n_tied: Array) -> None:
    """Turn a histogram into counts of scores above and tied, the target itself left out."""
    for t in range(stop - 2, first - 1, -1):
        n_above[t] += n_above[t + 1]
    for t in range(first + 1, stop):
        if targets[t] == targets[t - 1]:
            n_tied[t] = n_tied[t - 1]
    # Equal targets: what is above the last of them is above all; nothing lies between them.
    for t in range(first, stop):
        n_tied[t] -= 1


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
