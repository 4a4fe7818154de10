"""What every kernel returns: four counts per (row, target)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts over the pool of a row, the target itself left out.

    Parameters
    ----------
    n_above, n_tied : (n_pairs,) pool items that score higher than, or exactly as, the target; other targets
        of the row included
    n_relevant_above, n_relevant_tied : (n_pairs,) the same among the other targets of the row only
    n_recomputed : (row, item) comparisons that float32 could not decide and float64 did
    """

    n_above: Ints
    n_tied: Ints
    n_relevant_above: Ints
    n_relevant_tied: Ints
    n_recomputed: int = 0


def order_within_rows(indptr: Ints, scores: NDArray[np.floating]) -> Ints:
    """Return the order that sorts the pairs of each row by score; rows stay where they are.

    Examples
    --------
    >>> order_within_rows(np.array([0, 3, 4]), np.array([2.0, 0.0, 1.0, -1.0])).tolist()
    [1, 2, 0, 3]
    """
    if len(indptr) - 1 == len(scores):
        return np.arange(len(scores))
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.lexsort((scores, rows))


def count_among_targets(indptr: Ints, scores: NDArray[np.floating], order: Ints) -> tuple[Ints, Ints]:
    """Return, per pair, how many other targets of its row score higher, and how many the same.

    Examples
    --------
    >>> indptr, scores = np.array([0, 3]), np.array([2.0, 1.0, 2.0])
    >>> above, tied = count_among_targets(indptr, scores, order_within_rows(indptr, scores))
    >>> above.tolist(), tied.tolist()
    ([0, 2, 0], [1, 0, 1])
    """
    n_pairs = len(scores)
    if len(indptr) - 1 == n_pairs:
        return np.zeros(n_pairs, np.int64), np.zeros(n_pairs, np.int64)
    is_first = np.zeros(n_pairs, np.bool_)
    is_first[indptr[:-1]] = True
    ascending = scores[order]
    is_first[1:] |= ascending[1:] != ascending[:-1]
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=n_pairs)
    row_ends = np.repeat(indptr[1:], np.diff(indptr))[starts]
    above, tied = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    above[order] = np.repeat(row_ends - starts - sizes, sizes)
    tied[order] = np.repeat(sizes - 1, sizes)
    return above, tied


class ScoreIsNaN(InvalidData):
    """A score row that holds a NaN; ``row`` says which, so that the caller can name the user."""

    def __init__(self, row: int) -> None:
        super().__init__(f"scores must be numbers, row {row} holds a NaN. Check the scorer for that user.")
        self.row = row
