"""Rows by group, and the score from which on they are kept."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import IntArray


@compiled
def list_rows(group: IntArray, free: IntArray, rows: IntArray) -> None:
    """Write the rows of each group one after the other; ``free`` holds where each group begins."""
    for row in range(len(group)):
        place = free[group[row]]
        rows[place] = row
        free[group[row]] = place + 1


@compiled
def cut_groups(
    indptr: IntArray, rows: IntArray, bits: IntArray, quota: IntArray, first: int, last: int, cuts: IntArray
) -> None:
    """Write the quota-th largest word of the groups first..last-1 that have a quota."""
    longest = 0
    for g in range(first, last):
        longest = max(longest, indptr[g + 1] - indptr[g])
    scratch = np.empty(longest, dtype=np.uint64)
    for g in range(first, last):
        if quota[g] > 0:
            size = indptr[g + 1] - indptr[g]
            for k in range(size):
                scratch[k] = bits[rows[indptr[g] + k]]
            own = scratch[:size]
            own.sort()
            cuts[g] = own[size - quota[g]]
