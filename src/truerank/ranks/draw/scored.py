"""Comparing targets with negatives for scorers that are asked for scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.core.scorer import HasSparseRows, Scorer
from truerank.core.types import IntArray
from truerank.ranks.draw.judge import Judged, ListScores, judge_lists
from truerank.ranks.sampler import Block, Rows

# Negatives of one block, whose scores are stored: 2 MB in float64.
MOST_NEGATIVES = 1 << 18
# Rows of one call may be at most this much wider than the narrowest of them.
SLACK = 1.25


class ListJudge:
    """Compares targets with negatives by the scores of both.

    Parameters
    ----------
    lists : what gives the scores
    rows : what is compared
    """

    def __init__(self, lists: ListScores, rows: Rows) -> None:
        self.lists, self.rows = lists, rows
        self.is_thread_safe, self.most_negatives = lists.is_thread_safe, lists.most_negatives

    def judge(self, block: Block, items: IntArray) -> Judged:
        """Return the counts of the targets of some rows."""
        return judge_lists(self.lists, self.rows, np.arange(block.start, block.stop), block.indptr, items)


class ScoredPairs:
    """Asks ``score(users, items)`` for a rectangle per call: a row of negatives and targets per user.

    Rows of similar length share a call; shorter ones are filled up with their first item.

    Parameters
    ----------
    scorer : a black box; each score it is asked for is counted, those of the filling too
    rows : what is compared
    """

    most_negatives = MOST_NEGATIVES

    def __init__(self, scorer: Scorer, rows: Rows) -> None:
        self.scorer, self.rows = scorer, rows
        self.is_thread_safe = bool(getattr(scorer, "is_thread_safe", False))

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code and how many were asked for; list i is of the given row i."""
        users = self.rows.queries.users[self.rows.owner[row]]
        parts: list[tuple[IntArray, NDArray[Any]]] = []
        n_scores = 0
        widths = np.diff(indptr)
        for chosen in _similar(widths):
            columns = np.arange(int(widths[chosen].max()))
            is_real = columns < widths[chosen, None]
            places = indptr[chosen, None] + np.where(is_real, columns, 0)
            scores = np.asarray(self.scorer.score(users[chosen], codes[places]))
            if scores.shape != places.shape:
                raise InvalidData(
                    f"score(users, items) must return shape {places.shape} for items of that shape, "
                    f"got {scores.shape}. See the scorer protocol in the documentation."
                )
            parts.append((places[is_real], scores[is_real]))
            n_scores += scores.size
        out = np.empty(len(codes), np.result_type(*(scores for _, scores in parts)))
        for places, scores in parts:
            out[places] = scores
        return out, n_scores


class SparsePairs:
    """Looks negatives and targets up in sparse rows of scores; what is not stored is zero.

    Parameters
    ----------
    scorer : what gives the rows
    rows : what is compared
    """

    most_negatives = MOST_NEGATIVES

    def __init__(self, scorer: HasSparseRows, rows: Rows) -> None:
        self.scorer, self.rows = scorer, rows
        self.is_thread_safe = bool(getattr(scorer, "is_thread_safe", False))

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code and how many these are; list i is of the given row i."""
        rows = self.rows
        owners, place = np.unique(rows.owner[row], return_inverse=True)
        stored = self.scorer.sparse_rows(rows.queries.users[owners]).copy()
        stored.sum_duplicates()
        keys = np.repeat(np.arange(len(owners)), np.diff(stored.indptr)) * rows.n_items + stored.indices
        dtype = np.float32 if stored.data.dtype == np.float32 else np.float64
        values = np.append(stored.data.astype(dtype, copy=False), dtype(0))
        wanted = np.repeat(place, np.diff(indptr)) * rows.n_items + codes
        at = np.searchsorted(keys, wanted)
        is_stored = np.append(keys, -1)[at] == wanted
        return np.where(is_stored, values[at], dtype(0)), len(codes)


def _similar(widths: IntArray) -> Iterator[IntArray]:
    """Yield groups of rows whose widths differ by a quarter at most.

    Examples
    --------
    >>> [group.tolist() for group in _similar(np.array([8, 100, 9]))]
    [[0, 2], [1]]
    """
    order = np.argsort(widths, kind="stable")
    ascending = widths[order]
    start = 0
    while start < len(order):
        stop = int(np.searchsorted(ascending, SLACK * ascending[start], side="right"))
        yield np.sort(order[start:stop])
        start = stop
