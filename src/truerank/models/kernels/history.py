"""Sums of the rows of an item-item matrix over a user's history.

Every score is the sum over the user's items in ascending order, whichever kernel computes it and whatever
is computed beside it: scores are a function of the pair, bit for bit.
"""

from __future__ import annotations

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray

TILE = 512  # columns: a tile of the accumulators stays in the first-level cache


@compiled
def sum_rows(
    indptr: IntArray, history: IntArray, users: IntArray, weights: FloatArray, out: FloatArray
) -> None:
    """Write the scores of all items into ``out``, (len(users), n_items)."""
    n_items = weights.shape[1]
    for start in range(0, n_items, TILE):
        stop = min(start + TILE, n_items)
        for row in range(len(users)):
            scores = out[row, start:stop]
            scores[:] = 0.0
            p, end = indptr[users[row]], indptr[users[row] + 1]
            while p + 4 <= end:
                a = weights[history[p], start:stop]
                b = weights[history[p + 1], start:stop]
                c = weights[history[p + 2], start:stop]
                d = weights[history[p + 3], start:stop]
                for i in range(len(scores)):
                    scores[i] = (((scores[i] + a[i]) + b[i]) + c[i]) + d[i]
                p += 4
            while p < end:
                a = weights[history[p], start:stop]
                for i in range(len(scores)):
                    scores[i] += a[i]
                p += 1


@compiled
def sum_entries(
    indptr: IntArray,
    history: IntArray,
    users: IntArray,
    candidates: IntArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    """Write the scores of the candidates, (1, n) for all users or (len(users), n), into ``out``."""
    for row in range(len(users)):
        wanted = candidates[min(row, len(candidates) - 1)]
        scores = out[row]
        scores[:] = 0.0
        for p in range(indptr[users[row]], indptr[users[row] + 1]):
            entries = weights[history[p]]
            for n in range(len(wanted)):
                scores[n] += entries[wanted[n]]
