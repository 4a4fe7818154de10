"""Adaptive samples: negatives in rounds, until each target has the size its stopping rule asks for.

The negatives of a row form one random sequence, and each round continues it, so a larger sample contains the
smaller ones. The sequence begins like the sample of ``uniform``: by rejection as long as that is fast, then
the remaining candidates in random order. Rows for which rejection would be slow from the start take their
listed candidates in the order of random keys or, with replacement, at random positions.
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
    ListedCounts,
    ListScores,
    RoundComparer,
    compare_lists,
    compare_scores,
    make_lists,
    make_round_comparer,
    ranges,
)
from truerank.ranking.negatives import (
    RowBlock,
    Rows,
    row_blocks,
    sample_by_rejection,
    sample_with_replacement,
    uniform_proposal,
)
from truerank.ranking.samplers.uniform import least_free

if TYPE_CHECKING:
    from truerank.ranking.gpu.sampled import DeviceFactors


# Number of the first random word that shuffles what rejection has left; rejection never gets that far.
SHUFFLE_START = 1 << 40
UNLIMITED = 1 << 62

#: Sizes, most items above, n_items, replacement, state, owner, head, n_free, excluded and targets.
RoundArguments: TypeAlias = tuple[
    IntArray, int, int, bool, Words, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray
]


@dataclass(frozen=True, eq=False)
class NegativeSequences:
    """One random sequence of negatives per row, of which any part is sampled when asked for.

    Parameters
    ----------
    rows : the rows to sample for
    first : size of the first sample; it decides whether a row is sampled by rejection
    replacement : whether to sample with replacement; if not, a sequence ends with the last candidate
    """

    rows: Rows
    first: int
    replacement: bool

    @cached_property
    def head(self) -> IntArray:
        """Negatives per row that are sampled by rejection; 0 where even the first sample would be slow."""
        return frozen(self.head_of(self.rows.n_free))

    def head_of(self, n_free: IntArray) -> IntArray:
        """Return that number for rows with so many candidates; ``triton_pairs.grow_kernel`` does the same."""
        spare = least_free(self.rows.n_items)
        if self.replacement:
            return np.where(n_free < spare, 0, UNLIMITED)
        return np.where(n_free - spare < self.first, 0, n_free - spare)

    @cached_property
    def lists(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Excluded items and targets, for kernels."""
        return self.rows.lists()

    @cached_property
    def n_free(self) -> IntArray:
        """Candidates per row, for kernels."""
        return frozen(self.rows.n_free.astype(np.int64))

    def arguments(self, stopping: Stopping) -> RoundArguments:
        """Return the arguments of the kernels that sample in rounds."""
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

    def sample(self, row: IntArray, start: IntArray, stop: IntArray) -> IntArray:
        """Return the negatives start..stop-1 of each given row, concatenated, int32."""
        if int(stop.sum()) < sampler.SMALL_SAMPLES:
            parts = [self._sample_row(*map(int, part)) for part in zip(row, start, stop, strict=True)]
            return np.concatenate([np.zeros(0, np.int32), *parts]).astype(np.int32)
        from truerank.ranking.cpu.sampling_compiled import sample_parts

        out = np.empty(int((stop - start).sum()), np.int32)
        sample_parts(
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

    def _sample_row(self, row: int, start: int, stop: int) -> IntArray:
        rows, state, head = self.rows, self.rows.state[row], int(self.head[row])
        n_items = rows.n_items
        if self.replacement and head == 0:
            candidates = rows.candidates(row)
            return sample_with_replacement(state, uniform_proposal(len(candidates)), stop, candidates)[start:]
        if head == 0:
            candidates = rows.candidates(row)
            return candidates[np.argsort(random_words(state, 0, len(candidates)), kind="stable")][start:stop]
        drawn = sample_by_rejection(
            state,
            uniform_proposal(n_items),
            min(head, stop),
            replacement=self.replacement,
            blocked=rows.blocked(row),
            n_items=n_items,
        )
        if head < stop:
            remaining = np.setdiff1d(rows.candidates(row), drawn, assume_unique=True)
            drawn = np.concatenate([drawn, shuffled(state, remaining, stop - head)])
        return drawn[start:]


def shuffled(state: np.uint64, items: IntArray, n: int) -> IntArray:
    """Return the first n items of a random order (Fisher-Yates shuffle).

    Examples
    --------
    >>> sorted(shuffled(np.uint64(7), np.array([4, 5, 6]), 3).tolist())
    [4, 5, 6]
    """
    remaining = items.tolist()
    halves = (
        half
        for j in itertools.count(SHUFFLE_START)
        for word in random_words(state, j, j + 1)
        for half in divmod(int(word), 1 << 32)
    )
    for at in range(n):
        size = len(remaining) - at
        scaled = next(scaled for half in halves if (scaled := half * size) % (1 << 32) >= (1 << 32) % size)
        other = at + (scaled >> 32)
        remaining[at], remaining[other] = remaining[other], remaining[at]
    return np.array(remaining[:n], np.int64)


# First-round negatives of the rows of one compiled call, which runs all rounds of these rows.
BLOCK_NEGATIVES = 1 << 16


class NaNRow(ScoreIsNaN):
    """A score that is NaN; ``row`` counts among all rows, not within a block."""


@dataclass(frozen=True, eq=False)
class GrowingNegatives:
    """Negatives that are sampled in rounds, as many as the stopping rule asks for.

    Parameters
    ----------
    rows : the rows to sample for
    stopping : sizes of the rounds, and the rank up to which a target continues
    design : sampling design
    """

    rows: Rows
    stopping: Stopping
    design: Design

    @property
    def n_candidates(self) -> IntArray:
        """Candidates per row."""
        return self.rows.n_free

    @property
    def sequences(self) -> NegativeSequences:
        """The sequence of negatives of each row."""
        return NegativeSequences(self.rows, self.stopping.sizes[0], self.design.replacement)

    def reached(self, size: int) -> IntArray:
        """Return the negatives per row after a round that asks for ``size``."""
        if self.design.replacement:
            return np.full(len(self.rows), size, np.int64)
        return np.minimum(size, self.rows.n_free)


def compare_growing(
    scorer: Scorer,
    negatives: GrowingNegatives,
    n_threads: int,
    advance: Callable[[int], None],
    on_device: DeviceFactors | None = None,
) -> ListedCounts:
    """Compare the targets of all rows with their negatives, round by round, until each target may stop.

    Targets of one row share its sequence of negatives; each stops by its own rank. With ``on_device`` scores
    are computed there, and negatives are sampled there too where it can.

    Raises
    ------
    BrokenRow
        When a score is NaN.
    """
    if on_device is not None and on_device.can_sample:
        from truerank.ranking.gpu.sampled import grow_on_device

        return grow_on_device(on_device, negatives, advance)
    if on_device is not None:
        return _grow_rounds(on_device, negatives, n_threads, advance)
    comparer = make_round_comparer(scorer, negatives.rows, negatives.stopping.sizes[0])
    if comparer is not None:
        return _grow_blocks(comparer, negatives, n_threads, advance)
    return _grow_rounds(make_lists(scorer, negatives.rows), negatives, n_threads, advance)


def _grow_blocks(
    comparer: RoundComparer, negatives: GrowingNegatives, n_threads: int, advance: Callable[[int], None]
) -> ListedCounts:
    """Run all rounds of a block of rows in one call."""
    first = negatives.reached(negatives.stopping.sizes[0])
    most = min(BLOCK_NEGATIVES, max(1 << 12, int(first.sum()) // (8 * n_threads)))
    runs, sequences = list(row_blocks(first, most)), negatives.sequences
    _ = sequences.head, sequences.n_free, sequences.lists  # cached before threads start

    def work(block: RowBlock) -> ListedCounts:
        try:
            return comparer.compare_rounds(block.start, block.stop, sequences, negatives.stopping)
        except ScoreIsNaN as error:
            raise NaNRow(block.start + error.row) from None

    parts = []
    for block, part in zip(runs, ordered_map(work, runs, n_threads=n_threads), strict=True):
        parts.append(part)
        advance(block.stop - block.start)
    return ListedCounts.joined(parts)


def _grow_rounds(
    lists: ListScores, negatives: GrowingNegatives, n_threads: int, advance: Callable[[int], None]
) -> ListedCounts:
    """Run round after round for the rows in which a target has not stopped."""
    rows, most_above = negatives.rows, negatives.stopping.rank - 1
    above, tied, drawn = np.zeros((3, int(rows.pairs[-1])), np.int64)
    scorer = _RoundScorer(lists, rows, negatives.sequences, n_threads if lists.is_thread_safe else 1)
    row: IntArray = np.arange(len(rows))
    before: IntArray = np.zeros(len(rows), np.int64)
    for size in negatives.stopping.sizes:
        after = negatives.reached(size)
        going = row[after[row] > before[row]]
        n_targets = rows.pairs[going + 1] - rows.pairs[going]
        pair = ranges(rows.pairs[going], n_targets)
        owner = np.repeat(going, n_targets)
        round_counts = scorer.round(going, before, after)
        is_on = (drawn[pair] == before[owner]) & (above[pair] <= most_above)
        chosen = pair[is_on]
        above[chosen] += round_counts.n_above[is_on]
        tied[chosen] += round_counts.n_tied[is_on]
        drawn[chosen] = after[owner[is_on]]
        left = np.unique(owner[is_on][above[chosen] <= most_above])
        advance(len(row) - len(left))
        row, before = left, after
    advance(len(row))
    return ListedCounts(above, tied, drawn, scorer.target_scores, scorer.n_scores)


class _RoundScorer:
    """Computes the scores of each round; those of the targets only in the first."""

    def __init__(self, lists: ListScores, rows: Rows, sequences: NegativeSequences, n_threads: int) -> None:
        self.lists, self.rows, self.sequences, self.n_threads = lists, rows, sequences, n_threads
        self.target_scores: NDArray[Any] = np.zeros(0)
        self.n_scores = 0
        self.is_first = True

    def round(self, row: IntArray, before: IntArray, after: IntArray) -> ListedCounts:
        """Return the counts of all targets of some rows among the negatives of a round."""

        def work(block: RowBlock) -> ListedCounts:
            chosen = row[block.start : block.stop]
            items = self.sequences.sample(chosen, before[chosen], after[chosen]).astype(np.int64)
            try:
                return self._judge(chosen, block.indptr, items)
            except ScoreIsNaN as error:
                raise NaNRow(int(chosen[error.row])) from None

        runs = list(row_blocks(after[row] - before[row], self.lists.most_negatives))
        parts = list(ordered_map(work, runs, n_threads=self.n_threads))
        found = ListedCounts.joined(parts)
        self.n_scores += found.n_scores
        if self.is_first:
            self.target_scores, self.is_first = found.scores, False
        return found

    def _judge(self, row: IntArray, indptr: IntArray, items: IntArray) -> ListedCounts:
        if self.is_first:
            return compare_lists(self.lists, self.rows, row, indptr, items)
        scores, n_scores = self.lists.scores(row, items, indptr)
        n_targets = self.rows.pairs[row + 1] - self.rows.pairs[row]
        targets = self.target_scores[ranges(self.rows.pairs[row], n_targets)]
        return compare_scores(scores, indptr, targets, np.concatenate([[0], np.cumsum(n_targets)]), n_scores)
