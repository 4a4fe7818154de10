"""Counts from score rows by sorting, in plain NumPy: for small inputs, and to check the kernels against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truerank.ranks.kernels.counts import Counts
from truerank.ranks.kernels.pool import Pools


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
