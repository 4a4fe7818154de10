"""One call of the compiled factor kernel: what all threads share, and what each of them does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from truerank.core.types import frozen
from truerank.ranks.kernels import factor_compiled as kernel
from truerank.ranks.kernels.counts import Counts, Ints, count_among_targets, order_within_rows
from truerank.ranks.kernels.lanes import Lanes, Scratch, panels_per_block
from truerank.ranks.kernels.pair_score import Doubles
from truerank.ranks.kernels.pool import Pools
from truerank.ranks.kernels.rounding import brackets, spreads, weights
from truerank.ranks.kernels.side import Side
from truerank.ranks.kernels.threads import Worker, run_blocks
from truerank.ranks.kernels.tile import ITEMS, LANES

# Multiplications per compiled call, so that an interrupt waits a few hundredths of a second.
CALL_WORK = 1 << 31
# Up to this many targets per row they are sorted by insertion.
FEW_TARGETS = 64


class FactorJob:
    """Count a batch of rows against all items.

    Parameters
    ----------
    item, user : the two factor matrices, ready for the tile
    bias : (n_items,) or None
    pools : targets and seen items of the rows
    """

    def __init__(self, item: Side, bias: Doubles | None, user: Side, pools: Pools) -> None:
        self.item, self.user, self.pools = item, user, pools
        self.bias = frozen(np.zeros(0)) if bias is None else bias
        scores = np.empty(len(pools.target_items))
        kernel.score_targets(
            user.exact, item.exact, self.bias, pools.target_indptr, pools.target_items, scores
        )
        self.scores = scores
        self.order = self._order(scores)
        self.sorted_scores = scores[self.order]
        self.low, self.high = brackets(user, item, self.sorted_scores)
        self.spread, self.weight = spreads(user), weights(item, ITEMS)
        self.lanes = Lanes.of(pools)
        self.n_above = np.zeros(len(scores), np.int64)
        self.n_tied = np.zeros(len(scores), np.int64)
        if bias is None:
            self._tie_zero_rows()
        self._recomputed: list[int] = []

    def run(self, *, n_threads: int, on_rows: Callable[[int], None] | None) -> None:
        """Count everything."""
        n_panels = self.n_panels(n_threads)
        block = n_panels * LANES
        run_blocks(
            -(-len(self.lanes) // block),
            lambda: self._worker(n_panels),
            n_threads=n_threads,
            on_rows=on_rows,
        )

    def _order(self, scores: Doubles) -> Ints:
        """Return the order that sorts the pairs of each row by score."""
        indptr = self.pools.target_indptr
        if self.pools.is_single or self.pools.n_targets.max() > FEW_TARGETS:
            return order_within_rows(indptr, scores)
        order = np.empty(len(scores), np.int64)
        kernel.order_rows(indptr, scores, order)
        return order

    def _tie_zero_rows(self) -> None:
        """Answer rows of zeros, such as users a model has not seen: every item ties with every other."""
        rest = self.pools.n_items - np.diff(self.pools.seen_indptr) - self.pools.n_targets
        ties = np.where(self.user.square_norms == 0, rest, -1)
        ties = np.repeat(ties, self.pools.n_targets)
        pairs = ties >= 0
        self.n_tied[pairs] = ties[pairs]
        self.low[pairs] = self.high[pairs] = np.inf

    def n_panels(self, n_threads: int) -> int:
        """Return how many panels a block has."""
        return panels_per_block(
            len(self.lanes),
            n_coordinates=self.user.fast.shape[1],
            n_targets=self.lanes.most_targets,
            n_threads=n_threads,
        )

    def scratch(self, n_panels: int) -> Scratch:
        """Return the memory of one thread."""
        return Scratch.allocate(
            n_coordinates=self.user.fast.shape[1],
            n_targets=self.lanes.most_targets,
            n_panels=n_panels,
        )

    def _worker(self, n_panels: int) -> Worker:
        scratch, lanes, pools = self.scratch(n_panels), self.lanes, self.pools
        of_lanes = (lanes.row, lanes.first_pair, lanes.size)
        n_lanes = n_panels * LANES
        per_call = max(1, CALL_WORK // (n_lanes * scratch.users.shape[1] * len(scratch.pool)))
        step = per_call * len(scratch.pool)

        def work(block: int) -> Iterator[int]:
            first = block * n_lanes
            kernel.load_lanes(
                first,
                *of_lanes,
                self.user.fast,
                self.low,
                self.high,
                self.spread,
                pools.seen_indptr,
                scratch.users,
                scratch.low,
                scratch.high,
                scratch.spread,
                scratch.n_above,
                scratch.cursor,
            )
            n_recomputed = 0
            for start in range(0, pools.n_items, step):
                n_recomputed += kernel.count_items(
                    start,
                    min(start + step, pools.n_items),
                    first,
                    *of_lanes,
                    pools.target_indptr,
                    pools.target_items,
                    pools.seen_indptr,
                    pools.seen_items,
                    self.sorted_scores,
                    self.item.fast,
                    self.item.square_norms,
                    self.weight,
                    self.user.exact,
                    self.item.exact,
                    self.bias,
                    self.n_above,
                    self.n_tied,
                    scratch.users,
                    scratch.low,
                    scratch.high,
                    scratch.spread,
                    scratch.n_above,
                    scratch.cursor,
                    scratch.pool,
                    scratch.near,
                    scratch.tail,
                )
                yield 0
            if not kernel.unload_lanes(
                first, *of_lanes, pools.seen_indptr, self.n_above, scratch.n_above, scratch.cursor
            ):
                pools.check_seen()
            self._recomputed.append(n_recomputed)
            yield int(lanes.is_first[first : first + n_lanes].sum())

        return work

    def counts(self) -> Counts:
        """Return the result in the order the targets were given in."""
        relevant_above, relevant_tied = count_among_targets(self.pools.target_indptr, self.scores, self.order)
        n_above, n_tied = np.empty_like(self.n_above), np.empty_like(self.n_tied)
        n_above[self.order], n_tied[self.order] = self.n_above, self.n_tied
        return Counts(
            n_above + relevant_above,
            n_tied + relevant_tied,
            relevant_above,
            relevant_tied,
            sum(self._recomputed),
        )
