"""Comparing targets with listed negatives, whatever the scorer offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truerank.core.scorer import HasFactors, HasSparseRows, Scorer
from truerank.core.types import IntArray
from truerank.ranks.kernels.counts import ScoreIsNaN
from truerank.ranks.sampler import Block, Rows


@dataclass(frozen=True, eq=False)
class Judged:
    """Where the targets of some rows stand among their negatives.

    Parameters
    ----------
    n_above, n_tied : (n_pairs,) negatives that score higher than, or exactly as, the target
    scores : (n_pairs,) the scores of the targets
    n_scores : scores that were computed
    """

    n_above: IntArray
    n_tied: IntArray
    scores: NDArray[Any]
    n_scores: int


class Judge(Protocol):
    """What compares targets with negatives; ``most_negatives`` bounds how many at a time."""

    is_thread_safe: bool
    most_negatives: int

    def judge(self, block: Block, items: IntArray) -> Judged:
        """Return the counts of the targets of some rows."""


def make_judge(scorer: Scorer, rows: Rows, n_negatives: int) -> Judge:
    """Return the judge for the cheapest thing a scorer offers."""
    from truerank.ranks.draw.factor import CompiledFactors, SmallFactors
    from truerank.ranks.draw.scored import ScoredPairs, SparsePairs
    from truerank.ranks.sampler import SMALL_DRAWS

    if isinstance(scorer, HasFactors):
        is_small = n_negatives < SMALL_DRAWS
        return (SmallFactors if is_small else CompiledFactors)(scorer.factors(), rows)
    if isinstance(scorer, HasSparseRows):
        return SparsePairs(scorer, rows)
    return ScoredPairs(scorer, rows)


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
    return Judged(above, tied, targets, n_scores)
