"""Counting scores between ascending target scores; compiled, for rows with many targets.

Scores are dropped into a histogram by binary search, ``n_above[t]`` holding at first those that lie just
above target t and ``n_tied[t]`` those equal to the first of equal targets; ``settle`` turns that into counts.
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
