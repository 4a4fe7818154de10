"""Uniform negatives in an order: a longer sample of a row begins with the shorter one.

A row is drawn by rejection as far as that is quick, and then the items left over follow, shuffled. Rows where
rejection would be slow from the start are put in the order of random keys, or pick from their written-out
candidates when items can be drawn twice. The first part is what ``uniform`` draws.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from truerank.core.stopping import Stopping
from truerank.core.types import IntArray, frozen
from truerank.ranks import sampler
from truerank.ranks.draw.row import pick, reject, uniform_proposal
from truerank.ranks.draw.word import Words, words
from truerank.ranks.sampler import Rows
from truerank.ranks.uniform import MOST_PROPOSALS

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
        from truerank.ranks.draw.grow_compiled import draw_parts

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
            return candidates[np.argsort(words(state, 0, len(candidates)), kind="stable")][start:stop]
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
        for word in words(state, j, j + 1)
        for half in divmod(int(word), 1 << 32)
    )
    for at in range(n):
        size = len(left) - at
        scaled = next(scaled for half in halves if (scaled := half * size) % (1 << 32) >= (1 << 32) % size)
        other = at + (scaled >> 32)
        left[at], left[other] = left[other], left[at]
    return np.array(left[:n], np.int64)
