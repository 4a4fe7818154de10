"""Exact values of top-K metrics of users for whom only some items are scored.

The row of a user (the scores of all candidates) is scored in an order that puts likely high scores first, and
ends once K items are ranked above the best target: the gain beyond the cut-off does not depend on the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from truerank.core.parallel import available_threads, ordered_map
from truerank.core.random import pair_keys
from truerank.core.ranks import Ranks, SeenPolicy
from truerank.core.scorer import Scorer, check_scorer, nan_score
from truerank.core.split import Split
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.models.slow.slow_scorer import TimeIsUp
from truerank.ranking.cpu.counts import ScoreIsNaN, count_among_targets
from truerank.ranking.exact import make_queries
from truerank.ranking.listed import SLACK, ListedCounts, SinglePairs, compare_scores, make_lists, ranges
from truerank.ranking.negatives import RowBlock, Rows, row_blocks
from truerank.workflows.precision.item_order import Asked, Guesses, ItemOrder, PopularFirst, largest_first
from truerank.workflows.precision.row_parts import chance_of_finding

#: The factor by which each further pass over a row goes deeper than the one before.
GROWTH = 1.4
_WAVES = 4  # calls of a pass, at most, where it cannot end before its depth
_CELLS = 8_000_000  # guesses of users by items that are held at once
_TINY = 1e-300  # scale of scores that are all alike
_AHEAD = 12  # items of a row that are looked up, as a multiple of those that are asked for next
_HELD = 3  # the same of those that were looked up before, at least, or they are looked up anew
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
    recent : (2, n_rows): candidates scored in the last pass over each row, and how many of them ranked above
        its targets (in the mean over targets)
    scored : (3, n_rows): number, mean and standard deviation of the scores of the last pass over each row; no
        scores where a random part was scored after it
    n_scores : scores computed so far

    Notes
    -----
    Rows are users with targets, in the order of their codes. A pass takes rows to a depth, in waves: each
    asks for as many items as a row needs at least to be decided, so that few are asked in vain. After a pass
    the order learns from the scores, unless it is to stay as it is (``same_order``). Padding of blocks with
    rows of unequal length counts as scores, as everywhere.
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
        self.asked: dict[int, list[IntArray]] = {}  # items, of open rows
        self.listed: dict[int, tuple[IntArray, FloatArray]] = {}  # the next items of open rows, and features
        self.new: list[Asked] = []  # scores that the order has not learnt from
        self.may_learn = True
        n_pairs = int(self.rows.pairs[-1])
        self.above, self.tied = np.zeros((2, n_pairs), np.int64)
        self.target_scores: NDArray[np.float64] = np.full(n_pairs, np.nan)
        self.depth: IntArray = np.full(len(self.rows), -1)  # -1: nothing scored yet
        self.recent: FloatArray = np.zeros((2, len(self.rows)))
        self.scored: FloatArray = np.zeros((3, len(self.rows)))
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

    def found_above(self, row: IntArray) -> FloatArray:
        """Return how many items were found above the targets of rows, up to the cut-off, in the mean."""
        pair = ranges(self.rows.pairs[row], self.n_targets[row])
        found = np.minimum(self.above[pair], self.cutoff or self.rows.n_items)
        starts = np.cumsum(self.n_targets[row]) - self.n_targets[row]
        mean: FloatArray = np.add.reduceat(found, starts) / self.n_targets[row] if len(row) else np.zeros(0)
        return mean

    def expected_above(self, row: IntArray) -> FloatArray:
        """Return the probability that the next item of a row ranks above a target, in the mean over targets.

        The next score is taken to follow Student's law that the scores of the last pass over the row predict.
        It is 0 where there was none.
        """
        n, mean, spread = self.scored[:, row]
        pair = ranges(self.rows.pairs[row], self.n_targets[row])
        at = np.repeat(np.arange(len(row)), self.n_targets[row])
        scale = np.maximum(spread * np.sqrt(1 + 1 / np.maximum(n, 1)), _TINY)
        with np.errstate(over="ignore"):  # scores that are all alike decide, however near the target is
            distance = (mean[at] - self.target_scores[pair]) / scale[at]
        chance = stdtr(np.maximum(n - 1, 1)[at], distance)
        found = np.bincount(at, chance, minlength=len(row)) / np.maximum(self.n_targets[row], 1)
        expected: FloatArray = np.where(n > 0, found, 0.0)
        return expected

    def deepen(self, row: IntArray, depth: IntArray) -> None:
        """Score rows in one pass, each until it is decided or so many of its items are scored."""
        stop = np.zeros(len(self.rows), np.int64)
        stop[row] = np.minimum(depth, self.rows.n_free[row])
        open_rows = row[self.is_open[row] & (self.depth[row] < stop[row])]
        if len(open_rows):
            self._pass(np.sort(open_rows), stop)

    @contextmanager
    def same_order(self) -> Iterator[None]:
        """Keep the order of items as it is while rows are scored; it learns from all of them at the end.

        Of rows that are drawn at random together, what one reports must not tell which the others are. It
        would, if the items that it is asked for were chosen by what these have shown.
        """
        self.may_learn = False
        try:
            yield
        finally:
            self.may_learn = True
        self._learn()

    def ask_parts(self, row: IntArray, share: FloatArray, seed: int) -> FloatArray:
        """Score a random part of each row, and the rest of it where the part shows something.

        Return the probability that the part had to show it, 0 where it showed nothing: see ``RowParts``. Rows
        are different ones. Those of share 1 are scored until they are decided, and their probability is 1,
        as that of rows that are decided already.
        """
        chance = np.zeros(len(row))
        is_whole = ~self.is_open[row] | (share >= 1)
        self.advance(row[is_whole])
        chance[is_whole] = 1.0
        rest = np.flatnonzero(~is_whole)
        rest = rest[np.argsort(row[rest])]
        for at in np.array_split(rest, -(-len(rest) * self.rows.n_items // _CELLS) or 1):
            if len(at):
                chance[at] = self._ask_parts(row[at], share[at], seed)
        return chance

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
        depth, found_before = self.depth[row], self.found_above(row)
        is_listed = self._is_listed(row, (stop - self.depth)[row])
        for chosen in (
            part
            for rows in (row[is_listed], row[~is_listed])
            for part in np.array_split(rows, max(-(-len(rows) * self.rows.n_items // _CELLS), 1))
            if len(part)
        ):
            n_items = stop[chosen] - self.depth[chosen]
            items, features, n_listed = self._next_items(chosen, n_items)
            self.new.append(self._score_in_waves(chosen, n_items, items, features))
            n_asked = self.depth[chosen] - stop[chosen] + n_items
            self._remember(chosen, items, features, n_asked, n_listed)
        self.recent[:, row] = self.depth[row] - depth, self.found_above(row) - found_before
        if self.may_learn:
            self._learn()

    def _learn(self) -> None:
        """Have the order learn from the scores of the last passes."""
        if self.new:
            asked, self.new = Asked.joined(self.new), []
            users = self.rows.queries.users
            self.order.learn(asked, np.intersect1d(users[self.is_open], asked.user))

    def _remember(
        self, row: IntArray, items: IntArray, features: FloatArray, n_asked: IntArray, n_listed: IntArray
    ) -> None:
        """Keep which items were asked about rows that are open, and which come next."""
        is_open = self.is_open[row]
        each = zip(row.tolist(), n_asked.tolist(), n_listed.tolist(), strict=True)
        for at, (one, n, stop) in enumerate(each):
            if is_open[at]:
                self.asked.setdefault(one, []).append(items[at, :n].copy())
                self.listed[one] = items[at, n:stop].copy(), features[at, n:stop].copy()
            else:
                self.asked.pop(one, None)
                self.listed.pop(one, None)

    def _ask_parts(self, row: IntArray, share: FloatArray, seed: int) -> FloatArray:
        """Score parts of open rows, ascending, and return the probabilities."""
        users, pairs, found_before = self.rows.queries.users[row], self.rows.pairs, self.found_above(row)
        n_free, n_left = self.rows.n_free[row], self.rows.n_free[row] - self.depth[row]
        _, items, _ = self._sorted_items(row, n_left)
        place = np.arange(items.shape[1])
        size = np.minimum(np.ceil(share * n_free).astype(np.int64), n_left)
        is_part = np.zeros(items.shape, np.bool_)
        for at, (user, n, n_part) in enumerate(zip(users, n_left, size, strict=True)):
            keys = pair_keys(seed, "plan/parts", user, items[at, :n])
            is_part[at, np.argpartition(keys, n_part - 1)[:n_part]] = True
        cutoff = self.cutoff or self.rows.n_items
        best, lowest, before = np.empty((3, len(row)))
        for at, (start, stop) in enumerate(zip(pairs[row], pairs[row + 1], strict=True)):
            target, above = self.target_scores[start:stop], self.above[start:stop]
            best[at], lowest[at], before[at] = target.max(), target[above < cutoff].min(), above.min()
        scores = np.full(items.shape, np.nan)
        self._score_where(is_part, row, items, scores)
        shows = np.flatnonzero((scores >= lowest[:, None]).any(axis=1))
        end, depth = n_left.copy(), cutoff
        while len(shows):
            found = before[shows, None] + np.cumsum(scores[shows] > best[shows, None], axis=1)
            is_beyond = found >= cutoff
            decided = np.where(is_beyond[:, -1], is_beyond.argmax(axis=1) + 1, n_left[shows])
            end[shows] = decided
            is_wanted = np.isnan(scores[shows]) & (place < decided[:, None])
            is_left_open = is_wanted.any(axis=1)
            shows, is_wanted = shows[is_left_open], is_wanted[is_left_open]
            wanted = np.zeros(items.shape, np.bool_)
            wanted[shows] = is_wanted & (place < depth)
            self._score_where(wanted, row, items, scores)
            depth *= 2
        counts = (scores >= lowest[:, None]) & (place < end[:, None])
        self.recent[:, row] = size, self.found_above(row) - found_before
        self.scored[0, row] = 0
        is_open = self.is_open[row]
        for at, one in enumerate(row.tolist()):
            self.listed.pop(one, None)
            self.asked.setdefault(one, []).append(items[at, ~np.isnan(scores[at])])
            if not is_open[at]:
                del self.asked[one]
        chance = chance_of_finding(n_left, size, counts.sum(axis=1))
        return np.where((counts & is_part).any(axis=1), chance, 0.0)

    def _score_where(self, is_asked: BoolArray, row: IntArray, items: IntArray, scores: FloatArray) -> None:
        """Score some items of rows, and put what was found into their places."""
        size = is_asked.sum(axis=1)
        has_items = size > 0
        if has_items.any():
            scores[is_asked] = self._score_lists(row[has_items], items[is_asked], size[has_items])

    def _next_items(self, row: IntArray, n_items: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        """Return the next items of each row, their features, and how many there are: as many as it needs.

        More items than needed are looked up at a time; they are sorted anew before they are asked for.
        """
        if not self._is_listed(row, n_items).all():
            guesses, items, n_listed = self._sorted_items(row, n_items, _AHEAD)
            return items, guesses.features(items), n_listed
        held = np.array([len(self.listed[one][0]) for one in row.tolist()])
        place = np.repeat(np.arange(len(row)), held), ranges(np.zeros_like(held), held)
        items = np.zeros((len(row), int(held.max())), np.int64)
        items[place] = np.concatenate([self.listed[one][0] for one in row.tolist()])
        features = np.zeros((*items.shape, self.order.n_features), np.float32)
        features[place] = np.concatenate([self.listed[one][1] for one in row.tolist()])
        guess = np.full(items.shape, -np.inf)
        users = self.rows.queries.users[row[place[0]]]
        guess[place] = self.order.guess_listed(users, items[place], features[place])
        falling = np.argsort(-guess, axis=1, kind="stable")
        items = np.take_along_axis(items, falling, axis=1)
        return items, np.take_along_axis(features, falling[:, :, None], axis=1), held

    def _is_listed(self, row: IntArray, n_items: IntArray) -> BoolArray:
        """Whether enough of the next items of each row were looked up before."""
        held = np.array([len(self.listed[one][0]) if one in self.listed else 0 for one in row.tolist()])
        n_left = self.rows.n_free[row] - np.maximum(self.depth[row], 0)
        is_listed: BoolArray = held >= np.minimum(_HELD * n_items, n_left)
        return is_listed

    def _sorted_items(
        self, row: IntArray, n_items: IntArray, ahead: int = 1
    ) -> tuple[Guesses, IntArray, IntArray]:
        """Return guesses, ``ahead`` times the items that rows need in their order, and how many there are."""
        queries, columns = self.rows.queries, np.arange(len(row))
        guesses = self.order.guesses(queries.users[row])
        for lists in (queries.excluded, queries.targets):
            lengths = lists.lengths()[row]
            place = np.repeat(columns, lengths), lists.items[ranges(lists.indptr[row], lengths)]
            guesses.guess[place] = -np.inf
        for at, one in enumerate(row.tolist()):
            for items in self.asked.get(one, ()):
                guesses.guess[at, items] = -np.inf
        n_left = self.rows.n_free[row] - np.maximum(self.depth[row], 0)
        most = min(ahead * int(n_items.max()), int(n_left.max()))
        return guesses, largest_first(guesses.guess, most), np.minimum(n_left, most)

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
        self.scored[:, row] = _moments(scores)
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


def _moments(scores: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return number, mean and standard deviation of the finite scores of each row."""
    is_finite = np.isfinite(scores)
    n = is_finite.sum(axis=1)
    mean = np.where(is_finite, scores, 0.0).sum(axis=1) / np.maximum(n, 1)
    from_mean = np.where(is_finite, scores, mean[:, None]) - mean[:, None]
    return n, mean, np.sqrt((from_mean**2).sum(axis=1) / np.maximum(n, 1))
