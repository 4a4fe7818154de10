"""Number of sampled negatives above, and tied with, each target, by whatever interface a scorer offers.

A `TargetComparer` counts among given lists of negatives; a `RoundComparer` samples and counts in rounds, for
adaptive samples. `make_comparer` and `make_round_comparer` choose by the cheapest interface a scorer offers:
factors (`listed_factors`), stored arrays, sparse rows, single pairs, or calls of ``score(users, items)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.core.ranks import Stopping
from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer, ScoresPairs, checked_scores
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.ranking.cpu.counts import ScoreIsNaN
from truerank.ranking.negatives import RowBlock, Rows

if TYPE_CHECKING:
    from truerank.ranking.growing import NegativeSequences


@dataclass(frozen=True, eq=False)
class ListedCounts:
    """Counts of the targets of some rows among their negatives.

    Parameters
    ----------
    n_above, n_tied : (n_pairs,) negatives that score higher than, or exactly as, the target
    n_negatives : (n_pairs,) negatives that were compared with the target
    scores : (n_pairs,) the scores of the targets
    n_scores : number of scores that were computed
    """

    n_above: IntArray
    n_tied: IntArray
    n_negatives: IntArray
    scores: NDArray[Any]
    n_scores: int

    @classmethod
    def joined(cls, parts: Sequence[ListedCounts]) -> ListedCounts:
        """Return the concatenated parts."""
        empty = np.zeros(0, np.int64)
        return cls(
            np.concatenate([empty, *(part.n_above for part in parts)]),
            np.concatenate([empty, *(part.n_tied for part in parts)]),
            np.concatenate([empty, *(part.n_negatives for part in parts)]),
            np.concatenate([np.zeros(0, np.float32), *(part.scores for part in parts)]),
            sum(part.n_scores for part in parts),
        )


class TargetComparer(Protocol):
    """Compares targets with given negatives; at most ``most_negatives`` per call."""

    is_thread_safe: bool
    most_negatives: int

    def compare(self, block: RowBlock, items: IntArray) -> ListedCounts:
        """Return the counts of the targets of some rows."""


class ListScores(Protocol):
    """Gives the scores of lists of items, one list per row."""

    is_thread_safe: bool
    most_negatives: int

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code, and how many were computed; list i belongs to ``row[i]``."""


class RoundComparer(Protocol):
    """Samples negatives and compares targets with them, in rounds; may be called from several threads."""

    def compare_rounds(
        self, start: int, stop: int, sequences: NegativeSequences, stopping: Stopping
    ) -> ListedCounts:
        """Return the counts of the targets of the rows start..stop-1."""


def make_comparer(scorer: Scorer, rows: Rows, n_negatives: int) -> TargetComparer:
    """Return the comparer for the cheapest interface a scorer offers."""
    from truerank.ranking.listed_factors import CompiledFactors
    from truerank.ranking.negatives import SMALL_SAMPLES

    if isinstance(scorer, HasFactors) and n_negatives >= SMALL_SAMPLES:
        return CompiledFactors(scorer.factors(), rows)
    return ListComparer(make_lists(scorer, rows), rows)


def make_round_comparer(scorer: Scorer, rows: Rows, first: int) -> RoundComparer | None:
    """Return a comparer that runs all rounds in compiled code; None for small samples and other scorers."""
    from truerank.ranking.negatives import SMALL_SAMPLES

    if len(rows) * first < SMALL_SAMPLES:
        return None
    if isinstance(scorer, HasFactors):
        from truerank.ranking.listed_factors import CompiledFactors

        return CompiledFactors(scorer.factors(), rows)
    if isinstance(scorer, DenseScores) and scorer.scores.dtype in (np.float32, np.float64):
        return StoredRows(scorer.scores, rows)
    return None


def make_lists(scorer: Scorer, rows: Rows) -> ListScores:
    """Return what gives the scores of lists, by the cheapest interface a scorer offers."""
    from truerank.ranking.listed_factors import SmallFactors

    if isinstance(scorer, HasFactors):
        return SmallFactors(scorer.factors(), rows)
    if isinstance(scorer, HasSparseRows):
        return SparsePairs(scorer, rows)
    return SinglePairs(scorer, rows) if isinstance(scorer, ScoresPairs) else ScoredPairs(scorer, rows)


def compare_lists(
    lists: ListScores, rows: Rows, row: IntArray, indptr: IntArray, items: IntArray
) -> ListedCounts:
    """Return the counts of all targets of some rows; negatives and targets are scored together."""
    n_targets = rows.pairs[row + 1] - rows.pairs[row]
    pairs = np.concatenate([[0], np.cumsum(n_targets)])
    targets = rows.queries.targets.items[ranges(rows.pairs[row], n_targets)]
    offsets = indptr + pairs
    is_negative = np.ones(int(offsets[-1]), np.bool_)
    is_negative[ranges(offsets[1:] - n_targets, n_targets)] = False
    codes = np.empty(len(is_negative), np.int64)
    codes[is_negative], codes[~is_negative] = items, targets
    scores, n_scores = lists.scores(row, codes, offsets)
    return compare_scores(scores[is_negative], indptr, scores[~is_negative], pairs, n_scores)


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return start, start + 1, ... of each length, concatenated.

    Examples
    --------
    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    positions: IntArray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return positions


def compare_scores(
    negatives: NDArray[Any], indptr: IntArray, targets: NDArray[Any], pairs: IntArray, n_scores: int
) -> ListedCounts:
    """Return counts from scores: row r has ``negatives[indptr[r]:indptr[r + 1]]``, and targets by ``pairs``.

    Raises
    ------
    ScoreIsNaN
        With the row of the first NaN.

    Examples
    --------
    >>> found = compare_scores(np.array([3.0, 1.0, 2.0]), np.array([0, 3]), np.array([2.0, 0.0]), [0, 2], 5)
    >>> found.n_above.tolist(), found.n_tied.tolist()
    ([1, 3], [1, 0])
    """
    for scores, offsets in ((negatives, indptr), (targets, pairs)):
        broken = np.flatnonzero(np.isnan(scores))
        if len(broken):
            raise ScoreIsNaN(int(np.searchsorted(offsets, broken[0], side="right")) - 1)
    sizes, n_targets = np.diff(indptr), np.diff(pairs)
    above, tied = np.zeros((2, len(targets)), np.int64)
    for t in range(int(n_targets.max(initial=0))):
        has_target = n_targets > t
        pair = np.asarray(pairs)[:-1][has_target] + t
        scores = negatives[np.repeat(has_target, sizes)] if not has_target.all() else negatives
        threshold = np.repeat(targets[pair], sizes[has_target])
        starts = np.cumsum(sizes[has_target]) - sizes[has_target]
        above[pair] = np.add.reduceat(scores > threshold, starts, dtype=np.int64)
        tied[pair] = np.add.reduceat(scores == threshold, starts, dtype=np.int64)
    return ListedCounts(above, tied, np.repeat(sizes, n_targets), targets, n_scores)


# Negatives of one block: their scores take 2 MB in float64.
MOST_NEGATIVES = 1 << 18
# Rows of one call to score() may be at most this many times as long as the shortest of them.
SLACK = 1.25
_SHORT = 16  # rows up to this length share a call with rows of equal length only


class ListComparer:
    """Compares targets with negatives by computing the scores of both.

    Parameters
    ----------
    lists : what gives the scores
    rows : users with their targets
    """

    def __init__(self, lists: ListScores, rows: Rows) -> None:
        self.lists, self.rows = lists, rows
        self.is_thread_safe, self.most_negatives = lists.is_thread_safe, lists.most_negatives

    def compare(self, block: RowBlock, items: IntArray) -> ListedCounts:
        """Return the counts of the targets of some rows."""
        return compare_lists(self.lists, self.rows, np.arange(block.start, block.stop), block.indptr, items)


class ScoredPairs:
    """Scores of lists by calls of ``score(users, items)``, with one row of negatives and targets per user.

    Rows of similar length share a call; shorter ones are padded with their first item.

    Parameters
    ----------
    scorer : any scorer; every score it computes is counted, padding included
    rows : users with their targets
    """

    most_negatives = MOST_NEGATIVES

    def __init__(self, scorer: Scorer, rows: Rows) -> None:
        self.scorer, self.rows = scorer, rows
        self.is_thread_safe = bool(getattr(scorer, "is_thread_safe", False))

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code, and how many were computed; list i belongs to ``row[i]``."""
        users = self.rows.queries.users[self.rows.owner[row]]
        parts: list[tuple[IntArray, NDArray[Any]]] = []
        n_scores = 0
        widths = np.diff(indptr)
        for chosen in _similar(widths):
            columns = np.arange(int(widths[chosen].max()))
            is_real = columns < widths[chosen, None]
            positions = indptr[chosen, None] + np.where(is_real, columns, 0)
            scores = checked_scores(self.scorer, users[chosen], codes[positions])
            parts.append((positions[is_real], scores[is_real]))
            n_scores += scores.size
        out = np.empty(len(codes), np.result_type(*(scores for _, scores in parts)))
        for positions, scores in parts:
            out[positions] = scores
        return out, n_scores


class SinglePairs:
    """Scores of lists by calls of ``score_pairs(users, items)``.

    Parameters
    ----------
    scorer : what is asked for pairs; an attribute ``block`` says how many it is asked for at once
    rows : users with their targets
    """

    is_thread_safe = False

    def __init__(self, scorer: ScoresPairs, rows: Rows) -> None:
        self.scorer, self.rows = scorer, rows
        self.most_negatives = int(getattr(scorer, "block", MOST_NEGATIVES))

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code, and their number; list i belongs to ``row[i]``."""
        users = self.rows.queries.users[self.rows.owner[row]]
        return self.scorer.score_pairs(np.repeat(users, np.diff(indptr)), codes), len(codes)


class SparsePairs:
    """Scores of lists looked up in sparse rows; a score that is not stored is zero.

    Parameters
    ----------
    scorer : what gives the sparse rows
    rows : users with their targets
    """

    most_negatives = MOST_NEGATIVES

    def __init__(self, scorer: HasSparseRows, rows: Rows) -> None:
        self.scorer, self.rows = scorer, rows
        self.is_thread_safe = bool(getattr(scorer, "is_thread_safe", False))

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code, and their number; list i belongs to ``row[i]``."""
        rows = self.rows
        owners, position = np.unique(rows.owner[row], return_inverse=True)
        stored = self.scorer.sparse_rows(rows.queries.users[owners]).copy()
        stored.sum_duplicates()
        keys = np.repeat(np.arange(len(owners)), np.diff(stored.indptr)) * rows.n_items + stored.indices
        dtype = np.float32 if stored.data.dtype == np.float32 else np.float64
        values = np.append(stored.data.astype(dtype, copy=False), dtype(0))
        wanted = np.repeat(position, np.diff(indptr)) * rows.n_items + codes
        at = np.searchsorted(keys, wanted)
        is_stored = np.append(keys, -1)[at] == wanted
        return np.where(is_stored, values[at], dtype(0)), len(codes)


def _similar(widths: IntArray) -> Iterator[IntArray]:
    """Yield groups of rows whose lengths differ by a quarter at most, and not at all where they are short.

    Examples
    --------
    >>> [group.tolist() for group in _similar(np.array([18, 100, 20, 8, 9]))]
    [[3], [4], [0, 2], [1]]
    """
    order = np.argsort(widths, kind="stable")
    ascending = widths[order]
    start = 0
    while start < len(order):
        longest = ascending[start] * (SLACK if ascending[start] > _SHORT else 1)
        stop = int(np.searchsorted(ascending, longest, side="right"))
        yield np.sort(order[start:stop])
        start = stop


class StoredRows:
    """Compares in rounds with scores looked up in an array, in compiled code.

    Parameters
    ----------
    scores : (n_users, n_items) float32 or float64, an array or a memmap
    rows : users with their targets
    """

    def __init__(self, scores: FloatArray, rows: Rows) -> None:
        users = rows.queries.users
        if len(users) and users[-1] >= len(scores):
            raise InvalidData(
                f"there must be a row of scores for each user, but user {users[-1]} has none "
                f"({len(scores)} rows). Score the users of this split."
            )
        self.scores, self.rows = frozen(np.asarray(scores)), rows
        self.users = frozen(users.astype(np.int64))
        targets = rows.queries.targets
        owner = np.repeat(users, targets.lengths())
        self.target_scores = self.scores[owner, targets.items]

    def compare_rounds(
        self, start: int, stop: int, sequences: NegativeSequences, stopping: Stopping
    ) -> ListedCounts:
        """Return the counts of the targets of the rows start..stop-1."""
        from truerank.ranking.cpu.grow_compiled import grow_dense

        rows = self.rows
        first, last = rows.pairs[[start, stop]]
        above, tied, drawn = np.zeros((3, last - first), np.int64)
        scored = np.zeros(stop - start, np.int64)
        broken = grow_dense(
            start,
            stop,
            *sequences.arguments(stopping),
            rows.pairs,
            self.users,
            self.scores,
            above,
            tied,
            drawn,
            scored,
        )
        if broken >= 0:
            raise ScoreIsNaN(broken - start)
        return ListedCounts(
            above, tied, drawn, self.target_scores[first:last], int(scored.sum() + last - first)
        )
