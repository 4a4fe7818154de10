"""Exact gains of top-K metrics from a part of each row: stop once K items stand above the targets."""

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
from truerank.ranking.listed import SLACK, ListedCounts, judge_scores, make_lists, ranges
from truerank.ranking.negatives import RowBlock, Rows, row_blocks

#: Items of the first look at a row, and how much longer each next look is.
FIRST = 32
GROWTH = 1.5
FoundT = TypeVar("FoundT")


class PartialRows:
    r"""Rows of scores, filled from the items that most users know towards those that few know.

    A target with K pool items above it has a rank beyond K, whatever the rest of the row holds, and a metric
    with a cut-off up to K gives all such ranks one and the same gain. So a row may end as soon as the best of
    its targets has K items above it; a row that never does is scored to its end. Either way the gains are the
    exact ones, in whatever order items come: the order decides the cost alone. Popular items first find K
    items above a target soon, because most models score them high.

    Parameters
    ----------
    scorer, split, seen : as in ``exact_ranks``
    cutoff : K, the largest cut-off of all metrics; None scores every row to its end
    n_threads : for scorers that say they are thread-safe

    Notes
    -----
    Rows count users with targets, in the order of their codes. Scores that a block of rows of unequal length
    is filled up with are counted, as everywhere.
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
        """Rows whose gains are not known yet."""
        going: BoolArray = (self.depth < 0) | (self.depth < self.rows.n_free)
        if self.cutoff is not None and len(self.rows):
            fewest = np.minimum.reduceat(self.above, self.rows.pairs[:-1])
            going &= fewest < self.cutoff
        return going

    @property
    def depths(self) -> tuple[int, ...]:
        """Items per row after each look."""
        most = int(self.rows.n_free.max(initial=1))
        first = max(FIRST, self.cutoff or most)
        sizes = [min(first, most)]
        while sizes[-1] < most:
            sizes.append(min(int(sizes[-1] * GROWTH), most))
        return tuple(sizes)

    def most_scores(self, row: IntArray, depth: int | None = None) -> IntArray:
        """Return how many scores each row may still take at most, up to a depth."""
        stop = self.rows.n_free[row] if depth is None else np.minimum(self.rows.n_free[row], depth)
        left = np.maximum(stop - np.maximum(self.depth[row], 0), 0)
        fresh = np.where(self.depth[row] < 0, self.n_targets[row], 0)
        most: IntArray = np.ceil(SLACK * np.where(self.is_open[row], left + fresh, 0)).astype(np.int64)
        return most

    def advance(self, row: IntArray, depth: int | None = None) -> None:
        """Score rows, look after look, until they are decided or ``depth`` items deep.

        Raises
        ------
        InvalidData
            When a score is NaN.
        """
        self._score_targets(row[self.depth[row] < 0])
        for size in self.depths:
            stop = np.minimum(self.rows.n_free, size if depth is None else min(size, depth))
            going = row[self.is_open[row] & (self.depth[row] < stop[row])]
            self._look(going, self.depth.copy(), stop)

    def ranks(self, row: IntArray) -> Ranks:
        """Return the ranks of decided rows, ascending; those beyond the cut-off are ranks found so far."""
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
                broken = int(np.argmax(np.isnan(scores)))
                self._refuse(chosen[np.searchsorted(block.indptr, broken, side="right") - 1])
            return pair, scores, n_scores

        for pair, scores, n_scores in self._each(work, self.n_targets[row]):
            self.target_scores[pair] = scores
            self.n_scores += n_scores
        self.depth[row] = 0

    def _look(self, row: IntArray, start: IntArray, stop: IntArray) -> None:
        def work(block: RowBlock) -> tuple[IntArray, ListedCounts]:
            chosen = row[block.start : block.stop]
            items = self._items(chosen, start, stop)
            pair = ranges(self.rows.pairs[chosen], self.n_targets[chosen])
            indptr = np.concatenate([[0], np.cumsum(self.n_targets[chosen])])
            scores, n_scores = self.lists.scores(chosen, items, block.indptr)
            try:
                found = judge_scores(scores, block.indptr, self.target_scores[pair], indptr, n_scores)
            except ScoreIsNaN as error:
                self._refuse(chosen[error.row])
            return pair, found

        for pair, found in self._each(work, stop[row] - start[row]):
            self.above[pair] += found.n_above
            self.tied[pair] += found.n_tied
            self.n_scores += found.n_scores
        self.depth[row] = stop[row]

    def _each(self, work: Callable[[RowBlock], FoundT], sizes: IntArray) -> list[FoundT]:
        runs = list(row_blocks(sizes, self.lists.most_negatives))
        return list(ordered_map(work, runs, n_threads=self.n_threads))

    @cached_property
    def _blocked(self) -> tuple[IntArray, IntArray]:
        """Return (row, free places before it) of each place that a row leaves out, as one number.

        Numbers ascend, and so do those of a row; the second array says where the rows begin.
        """
        queries, n_items = self.rows.queries, self.rows.n_items
        lists = (queries.excluded, queries.targets)
        row = np.concatenate([np.repeat(np.arange(len(self.rows)), one.lengths()) for one in lists])
        place = np.empty(n_items, np.int64)
        place[self.order] = np.arange(n_items)
        keys = np.sort(row * n_items + place[np.concatenate([one.items for one in lists])])
        starts = np.concatenate([[0], np.cumsum(sum(one.lengths() for one in lists))]).astype(np.int64)
        return keys - (np.arange(len(keys)) - starts[keys // n_items]), starts

    def _items(self, row: IntArray, start: IntArray, stop: IntArray) -> IntArray:
        """Return the candidates start..stop-1 of each row, most popular first, one row after the other."""
        keys, starts = self._blocked
        sizes = (stop - start)[row]
        free, owner = ranges(start[row], sizes), np.repeat(row, sizes)
        before = np.searchsorted(keys, owner * self.rows.n_items + free, side="right") - starts[owner]
        items: IntArray = self.order[free + before]
        return items

    def _refuse(self, row: int) -> NoReturn:
        raise nan_score(self.rows.user_id(int(row))) from None
