"""Exact values of top-K metrics from partially scored users.

The row of a user (the scores of all candidates) is scored from popular to rare items and ends once K items
are ranked above the best target: the gain beyond the cut-off does not depend on the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from truerank.core.parallel import available_threads, ordered_map
from truerank.core.ranks import Ranks, SeenPolicy
from truerank.core.scorer import Scorer, check_scorer, nan_score
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.ranking.cpu.counts import ScoreIsNaN, count_among_targets, order_within_rows
from truerank.ranking.exact import make_queries
from truerank.ranking.listed import SLACK, ListedCounts, compare_scores, make_lists, ranges
from truerank.ranking.negatives import RowBlock, Rows, row_blocks

#: Items of the first pass over a row, and the factor by which each further pass goes deeper.
FIRST_ITEMS = 32
GROWTH = 1.5
ResultT = TypeVar("ResultT")


class PartialRows:
    r"""Rows of scores, one per user with targets, filled from popular to rare items until they are decided.

    A target with K pool items above it has a rank beyond K, whatever the rest of the row holds, and a metric
    with a cut-off up to K gives all such ranks the same gain. So a row may end as soon as its best target has
    K items above it; a row where that never happens is scored to its end. Either way the gains are exact for
    any order of items: the order affects the cost alone. Popular items come first because most models score
    them high, so that K items above a target are found early.

    Parameters
    ----------
    scorer, split, seen : as in ``exact_ranks``
    cutoff : K, the largest cut-off of all metrics; None scores every row to its end
    n_threads : threads for scorers that declare themselves thread-safe

    Attributes
    ----------
    order : items from popular to rare
    above, tied : per target: items found so far that are ranked above it, or tied with it
    depth : per row: candidates scored so far; -1 before its targets are scored
    n_scores : scores computed so far

    Notes
    -----
    Rows are users with targets, in the order of their codes. Padding of blocks with rows of unequal length
    counts as scores, as everywhere.
    """

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        *,
        cutoff: int | None,
        seen: SeenPolicy = "remove",
        n_threads: int | None = None,
    ) -> None:
        n_items = split.train.n_items
        check_scorer(scorer, split)
        queries = make_queries(split, seen)
        self.rows = Rows.of(queries, split, per_target=False, seed=0, repeat=0, label="")
        self.lists = make_lists(scorer, self.rows)
        self.n_threads = (n_threads or available_threads()) if self.lists.is_thread_safe else 1
        self.cutoff, self.seen = cutoff, seen
        counts = np.bincount(split.train.item, minlength=n_items)
        self.order: IntArray = np.argsort(-counts, kind="stable")
        n_pairs = int(self.rows.pairs[-1])
        self.above, self.tied = np.zeros((2, n_pairs), np.int64)
        self.target_scores: NDArray[np.float64] = np.full(n_pairs, np.nan)
        self.depth: IntArray = np.full(len(self.rows), -1)  # -1: nothing scored yet
        self.n_scores = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_targets(self) -> IntArray:
        """Targets per row."""
        return np.diff(self.rows.pairs)

    @property
    def is_open(self) -> BoolArray:
        """Rows whose gains are not decided yet."""
        is_open: BoolArray = (self.depth < 0) | (self.depth < self.rows.n_free)
        if self.cutoff is not None and len(self.rows):
            fewest = np.minimum.reduceat(self.above, self.rows.pairs[:-1])
            is_open &= fewest < self.cutoff
        return is_open

    @property
    def depths(self) -> tuple[int, ...]:
        """Items per row after each pass."""
        most = int(self.rows.n_free.max(initial=1))
        first = max(FIRST_ITEMS, self.cutoff or most)
        sizes = [min(first, most)]
        while sizes[-1] < most:
            sizes.append(min(int(sizes[-1] * GROWTH), most))
        return tuple(sizes)

    def most_scores(self, row: IntArray, depth: int | None = None) -> IntArray:
        """Return the largest number of scores that each row may still take, up to a depth."""
        stop = self.rows.n_free[row] if depth is None else np.minimum(self.rows.n_free[row], depth)
        items = np.maximum(stop - np.maximum(self.depth[row], 0), 0)
        targets = np.where(self.depth[row] < 0, self.n_targets[row], 0)
        most: IntArray = np.ceil(SLACK * np.where(self.is_open[row], items + targets, 0)).astype(np.int64)
        return most

    def advance(self, row: IntArray, depth: int | None = None) -> None:
        """Score rows pass by pass until they are decided, or until ``depth`` items of each are scored.

        Raises
        ------
        InvalidData
            When a score is NaN.
        """
        self._score_targets(row[self.depth[row] < 0])
        for size in self.depths:
            stop = np.minimum(self.rows.n_free, size if depth is None else min(size, depth))
            open_rows = row[self.is_open[row] & (self.depth[row] < stop[row])]
            self._score_items(open_rows, self.depth.copy(), stop)

    def ranks(self, row: IntArray) -> Ranks:
        """Return the ranks of decided rows, ascending; ranks beyond the cut-off are only lower bounds."""
        row = np.sort(row)
        n_targets, queries = self.n_targets[row], self.rows.queries
        pair = ranges(self.rows.pairs[row], n_targets)
        indptr = np.concatenate([[0], np.cumsum(n_targets)])
        scores = self.target_scores[pair]
        above, tied = count_among_targets(indptr, scores, order_within_rows(indptr, scores))
        removed = queries.excluded.lengths()[row] if self.seen == "remove" else np.zeros_like(row)
        return Ranks(
            user=np.repeat(queries.users[row], n_targets),
            item=queries.targets.items[pair],
            n_above=self.above[pair] + above,
            n_tied=self.tied[pair] + tied,
            n_pool=np.repeat(self.rows.n_items - removed, n_targets),
            n_relevant=np.repeat(n_targets, n_targets),
            n_relevant_above=above,
            n_relevant_tied=tied,
        )

    def _score_targets(self, row: IntArray) -> None:
        def work(block: RowBlock) -> tuple[IntArray, FloatArray, int]:
            chosen = row[block.start : block.stop]
            pair = ranges(self.rows.pairs[chosen], self.n_targets[chosen])
            items = self.rows.queries.targets.items[pair].astype(np.int64)
            scores, n_scores = self.lists.scores(chosen, items, block.indptr)
            if np.isnan(scores).any():
                first_nan = int(np.argmax(np.isnan(scores)))
                self._raise_nan(chosen[np.searchsorted(block.indptr, first_nan, side="right") - 1])
            return pair, scores, n_scores

        for pair, scores, n_scores in self._map_blocks(work, self.n_targets[row]):
            self.target_scores[pair] = scores
            self.n_scores += n_scores
        self.depth[row] = 0

    def _score_items(self, row: IntArray, start: IntArray, stop: IntArray) -> None:
        def work(block: RowBlock) -> tuple[IntArray, ListedCounts]:
            chosen = row[block.start : block.stop]
            items = self._items(chosen, start, stop)
            pair = ranges(self.rows.pairs[chosen], self.n_targets[chosen])
            indptr = np.concatenate([[0], np.cumsum(self.n_targets[chosen])])
            scores, n_scores = self.lists.scores(chosen, items, block.indptr)
            try:
                counts = compare_scores(scores, block.indptr, self.target_scores[pair], indptr, n_scores)
            except ScoreIsNaN as error:
                self._raise_nan(chosen[error.row])
            return pair, counts

        for pair, counts in self._map_blocks(work, stop[row] - start[row]):
            self.above[pair] += counts.n_above
            self.tied[pair] += counts.n_tied
            self.n_scores += counts.n_scores
        self.depth[row] = stop[row]

    def _map_blocks(self, work: Callable[[RowBlock], ResultT], sizes: IntArray) -> list[ResultT]:
        blocks = list(row_blocks(sizes, self.lists.most_negatives))
        return list(ordered_map(work, blocks, n_threads=self.n_threads))

    @cached_property
    def _excluded_positions(self) -> tuple[IntArray, IntArray]:
        """Items that rows leave out (excluded items and targets), encoded for a binary search.

        Each is the number row * n_items + candidates of the row that come before it in order of popularity.
        Numbers ascend; the second array says where those of each row begin.
        """
        queries, n_items = self.rows.queries, self.rows.n_items
        lists = (queries.excluded, queries.targets)
        row = np.concatenate([np.repeat(np.arange(len(self.rows)), items.lengths()) for items in lists])
        position = np.empty(n_items, np.int64)
        position[self.order] = np.arange(n_items)
        keys = np.sort(row * n_items + position[np.concatenate([items.items for items in lists])])
        starts = np.concatenate([[0], np.cumsum(sum(items.lengths() for items in lists))]).astype(np.int64)
        return keys - (np.arange(len(keys)) - starts[keys // n_items]), starts

    def _items(self, row: IntArray, start: IntArray, stop: IntArray) -> IntArray:
        """Return the candidates start..stop-1 of each row, most popular first, one row after the other."""
        keys, starts = self._excluded_positions
        sizes = (stop - start)[row]
        candidate, item_row = ranges(start[row], sizes), np.repeat(row, sizes)
        key = item_row * self.rows.n_items + candidate
        n_left_out = np.searchsorted(keys, key, side="right") - starts[item_row]
        items: IntArray = self.order[candidate + n_left_out]
        return items

    def _raise_nan(self, row: int) -> NoReturn:
        raise nan_score(self.rows.user_id(int(row))) from None
