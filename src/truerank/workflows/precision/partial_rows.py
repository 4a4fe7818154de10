"""Exact values of top-K metrics from partially scored users.

The row of a user (the scores of all candidates) is scored in an order that puts likely high scores first, and
ends once K items are ranked above the best target: the gain beyond the cut-off does not depend on the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from truerank.core.parallel import available_threads, ordered_map
from truerank.core.ranks import Ranks, SeenPolicy
from truerank.core.scorer import Scorer, check_scorer, nan_score
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.models.slow.slow_scorer import TimeIsUp
from truerank.ranking.cpu.counts import ScoreIsNaN, count_among_targets
from truerank.ranking.exact import make_queries
from truerank.ranking.listed import SLACK, ListedCounts, SinglePairs, compare_scores, make_lists, ranges
from truerank.ranking.negatives import RowBlock, Rows, row_blocks
from truerank.workflows.precision.item_order import Asked, ItemOrder, PopularFirst

#: The factor by which each further pass over a row goes deeper than the one before.
GROWTH = 1.4
_WAVES = 4  # calls of a pass, at most, where it cannot end before its depth
_CELLS = 8_000_000  # guesses of users by items that are held at once
ResultT = TypeVar("ResultT")


class PartialRows:
    r"""Rows of scores, one per user with targets, filled in some order until they are decided.

    A target with K pool items above it has a rank beyond K, whatever the rest of the row holds, and a metric
    with a cut-off up to K gives all such ranks the same gain. So a row may end as soon as its best target has
    K items above it; a row where that never happens is scored to its end. Either way the gains are exact for
    any order of items: the order affects the cost alone. Items that the model probably scores high come
    first, so that K items above a target are found early.

    Parameters
    ----------
    scorer, split, seen : as in ``exact_ranks``
    cutoff : K, the largest cut-off of all metrics; None scores every row to its end
    order : which items come first; None for popular ones
    n_threads : threads for scorers that declare themselves thread-safe

    Attributes
    ----------
    deadline : ``time.monotonic()`` after which `TimeIsUp` is raised instead of scoring; None for no limit
    above, tied : per target: items found so far that are ranked above it, or tied with it
    depth : per row: candidates scored so far; -1 before its targets are scored
    n_scores : scores computed so far

    Notes
    -----
    Rows are users with targets, in the order of their codes. A pass takes rows to a depth, in waves: each
    asks for as many items as a row needs at least to be decided, so that few are asked in vain. After a pass
    the order learns from the scores. Padding of blocks with rows of unequal length counts as scores, as
    everywhere.
    """

    def __init__(
        self,
        scorer: Scorer,
        split: Split,
        *,
        cutoff: int | None,
        order: ItemOrder | None = None,
        seen: SeenPolicy = "remove",
        n_threads: int | None = None,
    ) -> None:
        check_scorer(scorer, split)
        queries = make_queries(split, seen)
        self.rows = Rows.of(queries, split, per_target=False, seed=0, repeat=0, label="")
        self.lists = make_lists(scorer, self.rows)
        self.n_threads = (n_threads or available_threads()) if self.lists.is_thread_safe else 1
        self.cutoff, self.seen = cutoff, seen
        self.order: ItemOrder = PopularFirst(split.train) if order is None else order
        self.asked = Asked.none(self.order.features(np.zeros(0, np.int64)).shape[-1])  # of open rows
        n_pairs = int(self.rows.pairs[-1])
        self.above, self.tied = np.zeros((2, n_pairs), np.int64)
        self.target_scores: NDArray[np.float64] = np.full(n_pairs, np.nan)
        self.depth: IntArray = np.full(len(self.rows), -1)  # -1: nothing scored yet
        self.n_scores = 0
        self.deadline: float | None = None

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
        sizes = [min(self.cutoff or most, most)]
        while sizes[-1] < most:
            sizes.append(min(int(np.ceil(sizes[-1] * GROWTH)), most))
        return tuple(sizes)

    def most_scores(self, row: IntArray, depth: int | None = None) -> IntArray:
        """Return the largest number of scores that each row may still take, up to a depth."""
        stop = self.rows.n_free[row] if depth is None else np.minimum(self.rows.n_free[row], depth)
        items = np.maximum(stop - np.maximum(self.depth[row], 0), 0)
        targets = np.where(self.depth[row] < 0, self.n_targets[row], 0)
        slack = 1.0 if isinstance(self.lists, SinglePairs) else SLACK  # padding of rows
        most: IntArray = np.ceil(slack * np.where(self.is_open[row], items + targets, 0)).astype(np.int64)
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
            if len(open_rows):
                self._pass(np.sort(open_rows), stop)

    def ranks(self, row: IntArray) -> Ranks:
        """Return the ranks of decided rows, ascending; ranks beyond the cut-off are only lower bounds."""
        row = np.sort(row)
        n_targets, queries = self.n_targets[row], self.rows.queries
        pair = ranges(self.rows.pairs[row], n_targets)
        indptr = np.concatenate([[0], np.cumsum(n_targets)])
        scores = self.target_scores[pair]
        above, tied = count_among_targets(indptr, scores)
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

    def _pass(self, row: IntArray, stop: IntArray) -> None:
        """Score rows in their order until they are decided or as deep as ``stop`` says, then learn."""
        new = []
        for chosen in np.array_split(row, -(-len(row) * self.rows.n_items // _CELLS)):
            n_items = stop[chosen] - self.depth[chosen]
            new.append(self._score_in_waves(chosen, n_items, *self._next_items(chosen, n_items)))
        found = Asked.joined(new)
        is_kept = self.is_open & (self.depth >= 0)
        self.asked = Asked.joined([self.asked, found]).of(self.rows.queries.users[is_kept])
        self.order.learn(found)

    def _next_items(self, row: IntArray, n_items: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the next items of each row and their features, as many columns as some row needs."""
        queries, columns = self.rows.queries, np.arange(len(row))
        users = queries.users[row]
        features = self.order.features(users)
        guess = np.array(self.order.predict(users, features))
        for lists in (queries.excluded, queries.targets):
            lengths = lists.lengths()[row]
            guess[np.repeat(columns, lengths), lists.items[ranges(lists.indptr[row], lengths)]] = -np.inf
        asked = self.asked.of(users)
        guess[np.searchsorted(users, asked.user), asked.item] = -np.inf
        most = int(n_items.max())
        items = np.broadcast_to(np.arange(guess.shape[1]), guess.shape)
        if most < guess.shape[1]:
            items = np.argpartition(-guess, most - 1, axis=1)[:, :most]
        falling = np.argsort(-np.take_along_axis(guess, items, axis=1), axis=1, kind="stable")
        items = np.take_along_axis(items, falling, axis=1)
        return items, np.take_along_axis(features, items[:, :, None], axis=1)

    def _score_in_waves(
        self, row: IntArray, n_items: IntArray, items: IntArray, features: FloatArray
    ) -> Asked:
        """Score at most ``n_items`` of the items of each row, and return what was asked."""
        done = np.zeros(len(row), np.int64)
        scores = np.full(items.shape, np.nan)
        while True:
            at = np.flatnonzero(self.is_open[row] & (done < n_items))
            if len(at) == 0:
                break
            size = (n_items - done)[at]
            if self.cutoff is not None:
                fewest = np.minimum.reduceat(self.above, self.rows.pairs[:-1])[row[at]]
                wave = np.maximum(self.cutoff - fewest, -(-n_items[at] // _WAVES))
                size = np.minimum(size, wave)
            place = np.repeat(at, size), ranges(done[at], size)
            scores[place] = self._score_lists(row[at], items[place], size)
            done[at] += size
        place = np.repeat(np.arange(len(row)), done), ranges(np.zeros_like(done), done)
        return Asked(self.rows.queries.users[row][place[0]], items[place], scores[place], features[place])

    def _score_lists(self, row: IntArray, items: IntArray, size: IntArray) -> FloatArray:
        """Score lists of items, one after the other in ``items``, and count which rank above the targets."""

        def work(block: RowBlock) -> tuple[IntArray, ListedCounts, FloatArray]:
            chosen = row[block.start : block.stop]
            first = int(size[: block.start].sum())
            listed = items[first : first + int(block.indptr[-1])]
            pair = ranges(self.rows.pairs[chosen], self.n_targets[chosen])
            indptr = np.concatenate([[0], np.cumsum(self.n_targets[chosen])])
            scores, n_scores = self.lists.scores(chosen, listed, block.indptr)
            try:
                counts = compare_scores(scores, block.indptr, self.target_scores[pair], indptr, n_scores)
            except ScoreIsNaN as error:
                self._raise_nan(chosen[error.row])
            return pair, counts, scores

        found = []
        for pair, counts, scores in self._map_blocks(work, size):
            self.above[pair] += counts.n_above
            self.tied[pair] += counts.n_tied
            self.n_scores += counts.n_scores
            found.append(scores)
        self.depth[row] += size
        return np.concatenate(found)

    def _map_blocks(self, work: Callable[[RowBlock], ResultT], sizes: IntArray) -> Iterator[ResultT]:
        def in_time(block: RowBlock) -> ResultT:
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise TimeIsUp
            return work(block)

        blocks = list(row_blocks(sizes, self.lists.most_negatives))
        return ordered_map(in_time, blocks, n_threads=self.n_threads)

    def _raise_nan(self, row: int) -> NoReturn:
        raise nan_score(self.rows.user_id(int(row))) from None
