"""Samples that grow in rounds until every target's rank has been decided by the stopping rule.

Uniform negatives in an order: a longer sample of a row begins with the shorter one.

A row is drawn by rejection as far as that is quick, and then the items left over follow, shuffled. Rows where
rejection would be slow from the start are put in the order of random keys, or pick from their written-out
candidates when items can be drawn twice. The first part is what ``uniform`` draws.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from truerank.core.parallel import ordered_map
from truerank.core.random import Words, random_words
from truerank.core.ranks import Design, Stopping
from truerank.core.scorer import Scorer
from truerank.core.types import IntArray, frozen
from truerank.ranking import negatives as sampler
from truerank.ranking.cpu.counts import ScoreIsNaN
from truerank.ranking.listed import (
    Grower,
    ListedCounts,
    ListScores,
    judge_lists,
    judge_scores,
    make_grower,
    make_lists,
    ranges,
)
from truerank.ranking.negatives import RowBlock, Rows, pick, reject, row_blocks, uniform_proposal
from truerank.ranking.samplers.uniform import MOST_PROPOSALS

if TYPE_CHECKING:
    from truerank.ranking.gpu.sampled import DeviceFactors


# Words from here on shuffle what is left when rejection ends; no row rejects that often.
FAR = 1 << 40
ENDLESS = 1 << 62

#: Sizes, the most items above, catalogue, replacement, state, owner, head, n_free, excluded and targets.
RoundArguments: TypeAlias = tuple[
    IntArray, int, int, bool, Words, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray
]


@dataclass(frozen=True, eq=False)
class Sequences:
    """The negatives of all rows, any part of them drawn when asked for.

    Parameters
    ----------
    rows : what negatives are drawn for
    first : the size of the shortest sample that will be asked for; it decides how a row is drawn
    replacement : whether an item can be drawn twice; if not, a sequence ends with the last candidate
    """

    rows: Rows
    first: int
    replacement: bool

    @cached_property
    def head(self) -> IntArray:
        """Negatives per row that rejection finds; 0 where already the first sample leaves too few."""
        free, n_items = self.rows.n_free, self.rows.n_items
        if self.replacement:
            return frozen(np.where(free * MOST_PROPOSALS < n_items, 0, ENDLESS))
        most = free - -(-n_items // MOST_PROPOSALS)
        return frozen(np.where(most < self.first, 0, most))

    @cached_property
    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Excluded items and targets, for kernels."""
        return self.rows.lists()

    @cached_property
    def n_free(self) -> IntArray:
        """Candidates per row, for kernels."""
        return frozen(self.rows.n_free.astype(np.int64))

    def arguments(self, stopping: Stopping) -> RoundArguments:
        """Return what the kernels that draw in rounds are given."""
        return (
            frozen(np.array(stopping.sizes, np.int64)),
            stopping.rank - 1,
            self.rows.n_items,
            self.replacement,
            self.rows.state,
            self.rows.owner,
            self.head,
            self.n_free,
            *self.lists,
        )

    def draw(self, row: IntArray, start: IntArray, stop: IntArray) -> IntArray:
        """Return the negatives start..stop-1 of each given row, one row after the other, int32."""
        if int(stop.sum()) < sampler.SMALL_DRAWS:
            parts = [self._draw_row(*map(int, part)) for part in zip(row, start, stop, strict=True)]
            return np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)
        from truerank.ranking.cpu.draw_compiled import draw_parts

        out = np.empty(int((stop - start).sum()), np.int32)
        draw_parts(
            frozen(row.astype(np.int64)),
            frozen(start.astype(np.int64)),
            frozen(stop.astype(np.int64)),
            self.rows.n_items,
            self.replacement,
            self.rows.state,
            self.rows.owner,
            self.head,
            self.n_free,
            *self.lists,
            out,
        )
        return out

    def _draw_row(self, row: int, start: int, stop: int) -> IntArray:
        rows, state, head = self.rows, self.rows.state[row], int(self.head[row])
        n_items = rows.n_items
        if self.replacement and head == 0:
            candidates = rows.candidates(row)
            return pick(state, uniform_proposal(len(candidates)), stop, candidates)[start:]
        if head == 0:
            candidates = rows.candidates(row)
            return candidates[np.argsort(random_words(state, 0, len(candidates)), kind="stable")][start:stop]
        drawn = reject(
            state,
            uniform_proposal(n_items),
            min(head, stop),
            replacement=self.replacement,
            blocked=rows.blocked(row),
            n_items=n_items,
        )
        if head < stop:
            rest = np.setdiff1d(rows.candidates(row), drawn, assume_unique=True)
            drawn = np.concatenate([drawn, shuffled(state, rest, stop - head)])
        return drawn[start:]


def shuffled(state: np.uint64, rest: IntArray, n: int) -> IntArray:
    """Return n items in random order: each place in turn is given to one of those that are left.

    Examples
    --------
    >>> sorted(shuffled(np.uint64(7), np.array([4, 5, 6]), 3).tolist())
    [4, 5, 6]
    """
    left = rest.tolist()
    halves = (
        half
        for j in itertools.count(FAR)
        for word in random_words(state, j, j + 1)
        for half in divmod(int(word), 1 << 32)
    )
    for at in range(n):
        size = len(left) - at
        scaled = next(scaled for half in halves if (scaled := half * size) % (1 << 32) >= (1 << 32) % size)
        other = at + (scaled >> 32)
        left[at], left[other] = left[other], left[at]
    return np.array(left[:n], np.int64)


# Negatives of the first round in one compiled call; later rounds of its rows follow in the same call.
BLOCK_NEGATIVES = 1 << 16


class BrokenRow(ScoreIsNaN):
    """A NaN; ``row`` counts among all rows, not within a block."""


@dataclass(frozen=True, eq=False)
class GrowingNegatives:
    """Negatives that are drawn in rounds, as many as the stopping rule asks for.

    Parameters
    ----------
    rows : what negatives are drawn for
    stopping : sizes of the rounds, and the rank up to which a target goes on
    design : how they are drawn
    """

    rows: Rows
    stopping: Stopping
    design: Design

    @property
    def n_candidates(self) -> IntArray:
        """Items per row they are drawn from."""
        return self.rows.n_free

    @property
    def sequences(self) -> Sequences:
        """The negatives of each row, in the order in which rounds take them."""
        return Sequences(self.rows, self.stopping.sizes[0], self.design.replacement)

    def reached(self, size: int) -> IntArray:
        """Return the negatives per row after a round that asks for ``size``."""
        if self.design.replacement:
            return np.full(len(self.rows), size, np.int64)
        return np.minimum(size, self.rows.n_free)


def judge_growing(
    scorer: Scorer,
    negatives: GrowingNegatives,
    n_threads: int,
    advance: Callable[[int], None],
    on_device: DeviceFactors | None = None,
) -> ListedCounts:
    """Compare the targets of all rows with their negatives until each may stop.

    Targets of one row share its negatives; each ends by its own rank, with a first part of them. With
    ``on_device`` the scores come from there, and where it can draw all is done there.

    Raises
    ------
    BrokenRow
        When a score is NaN.
    """
    if on_device is not None and on_device.draws:
        from truerank.ranking.gpu.sampled import grow_on_device

        return grow_on_device(on_device, negatives, advance)
    if on_device is not None:
        return _grow_rounds(on_device, negatives, n_threads, advance)
    grower = make_grower(scorer, negatives.rows, negatives.stopping.sizes[0])
    if grower is not None:
        return _grow_blocks(grower, negatives, n_threads, advance)
    return _grow_rounds(make_lists(scorer, negatives.rows), negatives, n_threads, advance)


def _grow_blocks(
    grower: Grower, negatives: GrowingNegatives, n_threads: int, advance: Callable[[int], None]
) -> ListedCounts:
    """Run all rounds of a block of rows in one call."""
    first = negatives.reached(negatives.stopping.sizes[0])
    most = min(BLOCK_NEGATIVES, max(1 << 12, int(first.sum()) // (8 * n_threads)))
    runs, sequences = list(row_blocks(first, most)), negatives.sequences
    _ = sequences.head, sequences.n_free, sequences.lists  # made once, before threads ask for them

    def work(block: RowBlock) -> ListedCounts:
        try:
            return grower.grow(block.start, block.stop, sequences, negatives.stopping)
        except ScoreIsNaN as error:
            raise BrokenRow(block.start + error.row) from None

    parts = []
    for block, part in zip(runs, ordered_map(work, runs, n_threads=n_threads), strict=True):
        parts.append(part)
        advance(block.stop - block.start)
    return ListedCounts.joined(parts)


def _grow_rounds(
    lists: ListScores, negatives: GrowingNegatives, n_threads: int, advance: Callable[[int], None]
) -> ListedCounts:
    """Run round after round over the rows that still have a target to go on with."""
    rows, most_above = negatives.rows, negatives.stopping.rank - 1
    above, tied, drawn = np.zeros((3, int(rows.pairs[-1])), np.int64)
    ask = _Asking(lists, rows, negatives.sequences, n_threads if lists.is_thread_safe else 1)
    row: IntArray = np.arange(len(rows))
    before: IntArray = np.zeros(len(rows), np.int64)
    for size in negatives.stopping.sizes:
        after = negatives.reached(size)
        going = row[after[row] > before[row]]
        n_targets = rows.pairs[going + 1] - rows.pairs[going]
        pair = ranges(rows.pairs[going], n_targets)
        owner = np.repeat(going, n_targets)
        found = ask.round(going, before, after)
        is_on = (drawn[pair] == before[owner]) & (above[pair] <= most_above)
        chosen = pair[is_on]
        above[chosen] += found.n_above[is_on]
        tied[chosen] += found.n_tied[is_on]
        drawn[chosen] = after[owner[is_on]]
        left = np.unique(owner[is_on][above[chosen] <= most_above])
        advance(len(row) - len(left))
        row, before = left, after
    advance(len(row))
    return ListedCounts(above, tied, drawn, ask.target_scores, ask.n_scores)


class _Asking:
    """Asks for the scores of one round after the other; those of the targets are asked for once."""

    def __init__(self, lists: ListScores, rows: Rows, sequences: Sequences, n_threads: int) -> None:
        self.lists, self.rows, self.sequences, self.n_threads = lists, rows, sequences, n_threads
        self.target_scores: NDArray[Any] = np.zeros(0)
        self.n_scores = 0
        self.is_first = True

    def round(self, row: IntArray, before: IntArray, after: IntArray) -> ListedCounts:
        """Return the counts of all targets of some rows among the negatives of a round."""

        def work(block: RowBlock) -> ListedCounts:
            chosen = row[block.start : block.stop]
            items = self.sequences.draw(chosen, before[chosen], after[chosen]).astype(np.int64)
            try:
                return self._judge(chosen, block.indptr, items)
            except ScoreIsNaN as error:
                raise BrokenRow(int(chosen[error.row])) from None

        runs = list(row_blocks(after[row] - before[row], self.lists.most_negatives))
        parts = list(ordered_map(work, runs, n_threads=self.n_threads))
        found = ListedCounts.joined(parts)
        self.n_scores += found.n_scores
        if self.is_first:
            self.target_scores, self.is_first = found.scores, False
        return found

    def _judge(self, row: IntArray, indptr: IntArray, items: IntArray) -> ListedCounts:
        if self.is_first:
            return judge_lists(self.lists, self.rows, row, indptr, items)
        scores, n_scores = self.lists.scores(row, items, indptr)
        n_targets = self.rows.pairs[row + 1] - self.rows.pairs[row]
        targets = self.target_scores[ranges(self.rows.pairs[row], n_targets)]
        return judge_scores(scores, indptr, targets, np.concatenate([[0], np.cumsum(n_targets)]), n_scores)
