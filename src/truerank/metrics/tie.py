"""Tied blocks: where a target lies among items that score exactly the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.block import order_in_blocks
from truerank.core.check import check_choice
from truerank.core.ranks import TIE_POLICIES, Ranks, TiePolicy
from truerank.core.stream import pair_keys
from truerank.core.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Blocks:
    """The tied block that each of some targets lies in.

    Under the expected policy a block of ``size`` items, ``n_tied_relevant`` of them relevant, is in uniformly
    random order: the target's slot is uniform on 1..size, and given slot j the number of relevant items
    before it in the block is hypergeometric (j - 1 drawn of size - 1, n_tied_relevant - 1 of them relevant).

    Parameters
    ----------
    n_above : (n,) items above the block
    size : (n,) items in the block, the target included
    n_tied_relevant : (n,) relevant items in the block, the target included
    n_relevant_above : (n,) relevant items above the block
    n_relevant, n_pool : (n,) of the target's user
    """

    n_above: IntArray
    size: IntArray
    n_tied_relevant: IntArray
    n_relevant_above: IntArray
    n_relevant: IntArray
    n_pool: IntArray

    def slots(self, cutoff: int | None) -> IntArray:
        """Return how many slots of each block lie within the cut-off."""
        if cutoff is None:
            return self.size
        return np.clip(cutoff - self.n_above, 0, self.size)


@dataclass(frozen=True, eq=False)
class Placement:
    """Ranks with the tie policy applied, shared by all metrics of one evaluation.

    Parameters
    ----------
    rank, n_relevant_above : (n,) the place of each target; of no meaning for rows in ``tied``
    n_relevant, n_pool : (n,) of the target's user
    starts : (n_users,) first row of each user
    tied : rows whose gain is a mean over their block; empty unless the policy is ``expected``
    blocks : the blocks of the rows in ``tied``
    """

    rank: IntArray
    n_relevant_above: IntArray
    n_relevant: IntArray
    n_pool: IntArray
    starts: IntArray
    tied: IntArray
    blocks: Blocks

    @classmethod
    def of(cls, ranks: Ranks, ties: TiePolicy, seed: int) -> Placement:
        """Apply a tie policy to counts.

        ``best`` puts the relevant items of a block first, ``worst`` last. ``random`` draws the slots of a
        block's relevant items as a pure function of (seed, user, items of the block), each set of slots and
        each order being equally likely: the order of rows, batches and workers cannot change it.
        """
        check_choice("ties", ties, TIE_POLICIES)
        above = ranks.n_above.astype(np.int64)
        relevant_above = ranks.n_relevant_above.astype(np.int64)
        tied = np.flatnonzero(ranks.n_tied) if ties == "expected" else np.zeros(0, dtype=np.int64)
        slot: IntArray = np.ones(len(ranks), dtype=np.int64)
        if ties != "expected":
            slot, order = _slots(ranks, ties, seed)
            relevant_above = relevant_above + order
        return cls(
            rank=above + slot,
            n_relevant_above=relevant_above,
            n_relevant=ranks.n_relevant.astype(np.int64),
            n_pool=ranks.n_pool.astype(np.int64),
            starts=ranks.starts,
            tied=tied,
            blocks=Blocks(
                n_above=above[tied],
                size=ranks.n_tied[tied].astype(np.int64) + 1,
                n_tied_relevant=ranks.n_relevant_tied[tied].astype(np.int64) + 1,
                n_relevant_above=relevant_above[tied],
                n_relevant=ranks.n_relevant[tied].astype(np.int64),
                n_pool=ranks.n_pool[tied].astype(np.int64),
            ),
        )

    def per_user(self, gains: FloatArray) -> FloatArray:
        """Return the sum of the gains of each user."""
        if len(self.starts) == 0:
            return np.zeros(0)
        return np.add.reduceat(gains, self.starts)


def _slots(ranks: Ranks, ties: TiePolicy, seed: int) -> tuple[IntArray, IntArray]:
    """Return each target's slot (from 1) in its block and how many relevant items of the block precede it."""
    size = ranks.n_tied.astype(np.int64) + 1
    relevant = ranks.n_relevant_tied.astype(np.int64) + 1
    order = np.zeros(len(ranks), dtype=np.int64)
    uniform = np.zeros(len(ranks))
    if ties == "random":
        keys = pair_keys(seed, "ties", ranks.user, ranks.item)
        uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    shared = np.flatnonzero(relevant > 1)
    if len(shared):
        key = ranks.item[shared]
        if ties == "random":
            key = pair_keys(seed, "ties/order", ranks.user[shared], key)
        shared = shared[np.lexsort((key, ranks.n_above[shared], ranks.user[shared]))]
        order[shared] = order_in_blocks(
            shared, ranks.user, ranks.n_above, ranks.n_relevant_tied, name="n_above"
        )
    if ties == "best":
        return 1 + order, order
    if ties == "worst":
        return size - relevant + 1 + order, order
    slot = 1 + (uniform * size).astype(np.int64)
    for count in np.unique(relevant[shared]):
        rows = shared[relevant[shared] == count].reshape(-1, count)
        slot[rows] = 1 + _random_subset(uniform[rows], size[rows[:, 0]])
    return slot, order


def _random_subset(uniform: FloatArray, size: IntArray) -> IntArray:
    """Return distinct slots of 0..size-1, ascending, as many as uniforms, all sets being equally likely.

    Floyd's algorithm, one column at a time: O(count**2) comparisons per block, no memory beyond the result.
    """
    count = uniform.shape[1]
    chosen = np.zeros(uniform.shape, dtype=np.int64)
    for column in range(count):
        last = size - count + column
        drawn = (uniform[:, column] * (last + 1)).astype(np.int64)
        is_taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(is_taken, last, drawn)
    chosen.sort(axis=1)
    return chosen
