"""Number of sampled negatives above, and tied with, each target, for scores that are dot products of factors.

Comparisons are decided as in ``exact_ranks``: in float32 where a proven rounding bound allows it, otherwise
by the float64 sum of ``pair_scores``, which is a pure function of the pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truerank.core.ranks import Stopping
from truerank.core.scorer import Factors
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.ranking.cpu.counts import (
    Doubles,
    Side,
    brackets,
    check_magnitudes,
    exponent_of,
    pair_scores,
    spreads,
    weights,
)
from truerank.ranking.listed import ListedCounts
from truerank.ranking.negatives import RowBlock, Rows

if TYPE_CHECKING:
    from truerank.ranking.growing import NegativeSequences


class SmallFactors:
    """Scores of lists in float64 by NumPy; memory is bounded by the size of a block.

    Parameters
    ----------
    factors : the vectors
    rows : users with their targets
    """

    is_thread_safe = True
    most_negatives = 1 << 20

    def __init__(self, factors: Factors, rows: Rows) -> None:
        self.factors, self.rows = factors, rows
        bias = None if factors.item_bias is None else factors.item_bias.astype(np.float64)
        check_magnitudes(
            exponent_of("user", _rows_of(factors.user, rows.queries.users), None),
            exponent_of("item", factors.item, bias),
        )

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[Doubles, int]:
        """Return the score of every code, and their number; list i belongs to ``row[i]``."""
        users = self.rows.queries.users[self.rows.owner[row]].astype(np.int64, copy=False)
        factors = self.factors
        scores = pair_scores(
            factors.user,
            factors.item,
            factors.item_bias,
            np.repeat(users, np.diff(indptr)),
            codes.astype(np.int64, copy=False),
        )
        return scores, len(codes)


class CompiledFactors:
    """Compares in compiled code, with float32 scores of one row at a time.

    Parameters
    ----------
    factors : the vectors; float32 items without a bias are used as they are, others are copied once
    rows : users with their targets
    """

    is_thread_safe = True
    most_negatives = 1 << 20

    def __init__(self, factors: Factors, rows: Rows) -> None:
        from truerank.ranking.cpu import listed_compiled as target_compiled

        self.rows = rows
        users = frozen(np.ascontiguousarray(_rows_of(factors.user, rows.queries.users)))
        items = frozen(np.ascontiguousarray(factors.item))
        bias = None if factors.item_bias is None else factors.item_bias.astype(np.float64)
        self.bias = frozen(np.zeros(0) if bias is None else bias)
        self.item = Side.prepare("item", items, bias)
        self.user = Side.prepare("user", users, None if bias is None else np.ones(len(users)))
        check_magnitudes(self.user.exponent, self.item.exponent)
        targets = rows.queries.targets
        owner = np.repeat(np.arange(len(users)), targets.lengths())
        self.scores = np.empty(len(owner))
        target_compiled.score_listed_pairs(
            users,
            items,
            self.bias,
            frozen(owner),
            frozen(np.ascontiguousarray(targets.items, np.int32)),
            self.scores,
        )
        low, high = brackets(self.user, self.item, self.scores)
        margin = (spreads(self.user) * weights(self.item, max(1, len(items)))[:1])[owner]
        self.low, self.high = frozen(low - margin), frozen(high + margin)

    def compare(self, block: RowBlock, items: IntArray) -> ListedCounts:
        """Return the counts of the targets of some rows."""
        from truerank.ranking.cpu.listed_compiled import ROWS, decide_near_listed, scan_listed

        rows = self.rows
        first, last = rows.pairs[[block.start, block.stop]]
        above, tied = np.zeros((2, last - first), np.int64)
        lists = (block.start, block.stop, rows.owner, rows.pairs, frozen(block.indptr), frozen(items))
        fast = (self.user.fast, self.item.fast)
        scores = np.empty(int(np.diff(block.indptr).max()) + ROWS, np.float32)
        scan_listed(*lists, *fast, self.low, self.high, scores, above, tied)
        if tied.any():
            decide_near_listed(
                *lists,
                *fast,
                self.user.exact,
                self.item.exact,
                self.bias,
                self.user.square_norms,
                self.item.square_norms,
                self.scores,
                self.low,
                self.high,
                scores,
                above,
                tied,
            )
        n_targets = np.diff(rows.pairs[block.start : block.stop + 1])
        n_negatives = np.repeat(np.diff(block.indptr), n_targets)
        return ListedCounts(above, tied, n_negatives, self.scores[first:last], len(items) + int(last - first))

    def compare_rounds(
        self, start: int, stop: int, sequences: NegativeSequences, stopping: Stopping
    ) -> ListedCounts:
        """Return the counts of the targets of the rows start..stop-1."""
        from truerank.ranking.cpu.grow_compiled import grow_factors

        rows = self.rows
        first, last = rows.pairs[[start, stop]]
        above, tied, drawn = np.zeros((3, last - first), np.int64)
        scored = np.zeros(stop - start, np.int64)
        grow_factors(
            start,
            stop,
            *sequences.arguments(stopping),
            rows.pairs,
            self.user.fast,
            self.item.fast,
            self.user.exact,
            self.item.exact,
            self.bias,
            self.user.square_norms,
            self.item.square_norms,
            self.scores,
            self.low,
            self.high,
            above,
            tied,
            drawn,
            scored,
        )
        return ListedCounts(above, tied, drawn, self.scores[first:last], int(scored.sum() + last - first))


def _rows_of(vectors: FloatArray, users: IntArray) -> FloatArray:
    """Return the vectors of some users, without a copy when these are all users."""
    return vectors if len(users) == len(vectors) else vectors[users]
