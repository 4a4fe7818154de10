"""Comparing targets with listed negatives, whatever the scorer offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truerank.core.scorer import DenseScores, HasFactors, HasSparseRows, Scorer
from truerank.core.stopping import Stopping
from truerank.core.types import IntArray
from truerank.ranks.kernels.counts import ScoreIsNaN
from truerank.ranks.sampler import Block, Rows

if TYPE_CHECKING:
    from truerank.ranks.draw.sequence import Sequences


@dataclass(frozen=True, eq=False)
class Judged:
    """Where the targets of some rows stand among their negatives.

    Parameters
    ----------
    n_above, n_tied : (n_pairs,) negatives that score higher than, or exactly as, the target
    n_negatives : (n_pairs,) negatives that were compared with the target
    scores : (n_pairs,) the scores of the targets
    n_scores : scores that were computed
    """

    n_above: IntArray
    n_tied: IntArray
    n_negatives: IntArray
    scores: NDArray[Any]
    n_scores: int

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """Return the parts one after the other."""
        empty = np.zeros(0, np.int64)
        return cls(
            np.concatenate([empty, *(part.n_above for part in parts)]),
            np.concatenate([empty, *(part.n_tied for part in parts)]),
            np.concatenate([empty, *(part.n_negatives for part in parts)]),
            np.concatenate([np.zeros(0, np.float32), *(part.scores for part in parts)]),
            sum(part.n_scores for part in parts),
        )


class Judge(Protocol):
    """What compares targets with negatives; ``most_negatives`` bounds how many at a time."""

    is_thread_safe: bool
    most_negatives: int

    def judge(self, block: Block, items: IntArray) -> Judged:
        """Return the counts of the targets of some rows."""


class ListScores(Protocol):
    """What gives the scores of lists of items, a list per row."""

    is_thread_safe: bool
    most_negatives: int

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[NDArray[Any], int]:
        """Return the score of every code and how many were computed; list i is of the given row i."""


class Grower(Protocol):
    """What compares targets with negatives in rounds, drawing as it goes; safe to call from threads."""

    def grow(self, start: int, stop: int, sequences: Sequences, stopping: Stopping) -> Judged:
        """Return the counts of the targets of the rows start..stop-1."""


def make_judge(scorer: Scorer, rows: Rows, n_negatives: int) -> Judge:
    """Return the judge for the cheapest thing a scorer offers."""
    from truerank.ranks.draw.factor import CompiledFactors
    from truerank.ranks.draw.scored import ListJudge
    from truerank.ranks.sampler import SMALL_DRAWS

    if isinstance(scorer, HasFactors) and n_negatives >= SMALL_DRAWS:
        return CompiledFactors(scorer.factors(), rows)
    return ListJudge(make_lists(scorer, rows), rows)


def make_grower(scorer: Scorer, rows: Rows, first: int) -> Grower | None:
    """Return what runs all rounds in compiled code, where the scores are at hand and there are many."""
    from truerank.ranks.sampler import SMALL_DRAWS

    if len(rows) * first < SMALL_DRAWS:
        return None
    if isinstance(scorer, HasFactors):
        from truerank.ranks.draw.factor import CompiledFactors

        return CompiledFactors(scorer.factors(), rows)
    if isinstance(scorer, DenseScores) and scorer.scores.dtype in (np.float32, np.float64):
        from truerank.ranks.draw.dense import StoredRows

        return StoredRows(scorer.scores, rows)
    return None


def make_lists(scorer: Scorer, rows: Rows) -> ListScores:
    """Return what gives the scores of lists, by the cheapest thing a scorer offers."""
    from truerank.ranks.draw.factor import SmallFactors
    from truerank.ranks.draw.scored import ScoredPairs, SparsePairs

    if isinstance(scorer, HasFactors):
        return SmallFactors(scorer.factors(), rows)
    if isinstance(scorer, HasSparseRows):
        return SparsePairs(scorer, rows)
    return ScoredPairs(scorer, rows)


def judge_lists(lists: ListScores, rows: Rows, row: IntArray, indptr: IntArray, items: IntArray) -> Judged:
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
    return judge_scores(scores[is_negative], indptr, scores[~is_negative], pairs, n_scores)


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Return start, start + 1, ... of each length, one after the other.

    Examples
    --------
    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    before = np.cumsum(lengths) - lengths
    places: IntArray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return places


def judge_scores(
    negatives: NDArray[Any], indptr: IntArray, targets: NDArray[Any], pairs: IntArray, n_scores: int
) -> Judged:
    """Return counts from scores: row r has ``negatives[indptr[r]:indptr[r + 1]]``, targets likewise by pairs.

    Raises
    ------
    ScoreIsNaN
        With the row of the first NaN.

    Examples
    --------
    >>> found = judge_scores(np.array([3.0, 1.0, 2.0]), np.array([0, 3]), np.array([2.0, 0.0]), [0, 2], 5)
    >>> found.n_above.tolist(), found.n_tied.tolist()
    ([1, 3], [1, 0])
    """
    for scores, ends in ((negatives, indptr), (targets, pairs)):
        broken = np.flatnonzero(np.isnan(scores))
        if len(broken):
            raise ScoreIsNaN(int(np.searchsorted(ends, broken[0], side="right")) - 1)
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
    return Judged(above, tied, np.repeat(sizes, n_targets), targets, n_scores)
