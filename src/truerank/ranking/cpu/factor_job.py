"""Exact counts of a factor model on the CPU: what threads share, what each does, and its scratch memory.

Rows are laid out for the register tile in lanes: a row with at most 16 of its targets each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, fields
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truerank.core.parallel import worker_map
from truerank.core.types import frozen
from truerank.ranking.cpu import factors_compiled as kernel
from truerank.ranking.cpu.counts import (
    Counts,
    Doubles,
    Ints,
    Pools,
    Side,
    brackets,
    count_among_targets,
    exact_unit,
    norms,
    order_within_rows,
    spreads,
    weights,
)
from truerank.ranking.cpu.exact_compiled import compare_targets, score_targets
from truerank.ranking.cpu.vectors import HAS_MASKS, ITEMS, LANES, MASK_TYPE, UNROLL

TARGETS_PER_LANE = 16
# Tiles with pairs that float32 does not decide, which float64 decides together.
CLOSE_TILES = 32
USER_BYTES = 160 * 1024
# Beside the users in the second level of cache, which is larger where vectors are; counted in 16 bits.
ITEM_BYTES = (512 if HAS_MASKS else 256) * 1024
MOST_ITEMS = 1 << 14


@dataclass(frozen=True, eq=False)
class Lanes:
    """One lane per row and at most 16 of its targets, ascending in the number of targets.

    Parameters
    ----------
    row, first_pair, size : (n_lanes,) the row, the first of its pairs and how many of them
    is_first : (n_lanes,) whether this is the first lane of its row
    """

    row: Ints
    first_pair: Ints
    size: Ints
    is_first: NDArray[np.bool_]

    @classmethod
    def of(cls, pools: Pools) -> Lanes:
        """Split the targets of each row as evenly as they go."""
        n_targets = pools.n_targets
        if n_targets.max(initial=1) <= TARGETS_PER_LANE:
            is_ascending = (n_targets[1:] >= n_targets[:-1]).all()
            order = np.arange(pools.n_rows) if is_ascending else np.argsort(n_targets, kind="stable")
            starts = pools.target_indptr[:-1]
            return cls(order, starts[order], n_targets[order], np.ones(pools.n_rows, np.bool_))
        n_lanes = -(-n_targets // TARGETS_PER_LANE)
        size = -(-n_targets // n_lanes)
        row = np.repeat(np.arange(pools.n_rows), n_lanes)
        part = np.arange(len(row)) - np.repeat(np.cumsum(n_lanes) - n_lanes, n_lanes)
        first = part * size[row]
        sizes = np.minimum(size[row], n_targets[row] - first)
        kept = np.flatnonzero(sizes > 0)
        order = kept[np.argsort(sizes[kept], kind="stable")]
        return cls(row[order], (pools.target_indptr[row] + first)[order], sizes[order], part[order] == 0)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def most_targets(self) -> int:
        """Targets of the fullest lane."""
        return int(self.size.max(initial=1))


@dataclass(frozen=True, eq=False)
class Scratch:
    """All memory a thread writes to while it counts one block of lanes."""

    users: NDArray[np.float32]
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    spread: NDArray[np.float32]
    reach: NDArray[np.float32]
    copy: NDArray[np.int32]
    n_above: NDArray[np.int32]
    n_tied: NDArray[np.int32]
    cursor: Ints
    pool: NDArray[np.unsignedinteger]
    close: Ints
    near: NDArray[np.unsignedinteger]
    tail: NDArray[np.float32]
    scores: NDArray[np.float32]
    words: NDArray[np.int16]
    scale: NDArray[np.float32]
    word_low: NDArray[np.int16]
    word_limit: NDArray[np.uint16]
    counts: NDArray[np.int16]

    @classmethod
    def allocate(cls, *, n_coordinates: int, n_targets: int, n_panels: int) -> Scratch:
        """Return scratch for ``n_panels`` panels of lanes with up to ``n_targets`` targets."""
        width = -(-n_coordinates // UNROLL) * UNROLL
        n_tiles = max(1, min(ITEM_BYTES // (4 * width), MOST_ITEMS) // ITEMS)
        return cls(
            users=_aligned((n_panels, width, LANES), np.float32),
            low=_aligned((n_panels, n_targets, LANES), np.float32),
            high=_aligned((n_panels, n_targets, LANES), np.float32),
            spread=_aligned((n_panels, LANES), np.float32),
            reach=_aligned((n_panels, LANES), np.float32),
            copy=_aligned((n_panels, n_targets, LANES), np.int32),
            n_above=_aligned((n_panels, n_targets, LANES), np.int32),
            n_tied=_aligned((n_panels, n_targets, LANES), np.int32),
            cursor=np.zeros(n_panels * LANES, np.int64),
            pool=np.zeros(n_tiles * ITEMS, MASK_TYPE),
            close=np.zeros((CLOSE_TILES, 3), np.int64),
            near=np.zeros((CLOSE_TILES, n_targets, ITEMS), MASK_TYPE),
            tail=np.zeros((ITEMS, width), np.float32),
            scores=_aligned((2, ITEMS, LANES), np.float32),
            words=_aligned((2, ITEMS, LANES), np.int16),
            scale=_aligned((2, LANES), np.float32),
            word_low=_aligned((2 * n_targets, LANES), np.int16),
            word_limit=_aligned((2 * n_targets, LANES), np.uint16),
            counts=_aligned((2 * n_targets, LANES), np.int16),
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))


def panels_per_block(n_lanes: int, *, n_coordinates: int, n_targets: int, n_threads: int) -> int:
    """Return how many panels of lanes share a pass over the items.

    As many as fit the cache beside a tile of items, but few enough that every thread gets several blocks.
    """
    fit = USER_BYTES // (4 * LANES * (n_coordinates + 5 * n_targets) + 16 * LANES)
    fair = -(-n_lanes // LANES) if n_threads == 1 else n_lanes // (LANES * 4 * n_threads)
    return max(1, min(fit, fair))


def _aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros that start on a cache line."""
    n_bytes = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + 64, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64
    array: NDArray[Any] = memory[start : start + n_bytes].view(dtype).reshape(shape)
    return array


# Multiplications per compiled call, so that an interrupt waits a few hundredths of a second.
CALL_WORK = 1 << 31
_AHEAD = 64  # blocks per thread that are submitted at once: their results are single numbers
# Up to this many targets per row each is compared with every other.
FEW_TARGETS = 64


class FactorJob:
    """Count a batch of rows against all items.

    Parameters
    ----------
    item, user : the two factor matrices, ready for the tile
    bias : (n_items,) or None
    pools : targets and seen items of the rows
    copies : (n_items,) see ``number_copies``
    """

    def __init__(
        self, item: Side, bias: Doubles | None, user: Side, pools: Pools, copies: NDArray[np.int32]
    ) -> None:
        self.item, self.user, self.pools = item, user, pools
        self.bias = frozen(np.zeros(0)) if bias is None else bias
        scores = np.empty(len(pools.target_items))
        score_targets(user.exact, item.exact, self.bias, pools.target_indptr, pools.target_items, scores)
        self.order, self.relevant_above, self.relevant_tied = self._compare_targets(scores)
        self.scores = scores
        row_bytes = item.exact.shape[1] * item.exact.itemsize
        self.bits = frozen(item.exact.view(np.int32 if row_bytes % 8 else np.int64))
        self.copies = np.zeros(pools.n_items + ITEMS, np.int32)
        self.copies[: pools.n_items] = copies
        self.low, self.high = brackets(user, item, scores)
        self.spread, self.weight = spreads(user), weights(item, ITEMS)
        self.item_weight = np.zeros(pools.n_items + ITEMS, np.float32)
        kernel.weigh_items(item.square_chains, item.fast.shape[1], self.item_weight)
        self.reach = norms(user)
        unit = exact_unit(user, item) if bias is None else 0.0
        self.are_ties = unit > 0
        if self.are_ties:
            middle = np.ldexp(scores, user.exponent + item.exponent)
            self.low = middle.astype(np.float32)
            self.high = self.low.copy()
            self.spread = np.zeros_like(self.spread)
        is_word = unit > 0 and self.reach.max() * norms(item).max() < 2.0**14 * unit
        self.word_unit = np.float32(unit if is_word else 0.0)
        self.lanes = Lanes.of(pools)
        self.n_above, self.n_tied = self.relevant_above.copy(), self.relevant_tied.copy()
        if bias is None:
            self._tie_zero_rows()
        self._recomputed: list[int] = []

    def run(self, *, n_threads: int, on_rows: Callable[[int], None] | None) -> None:
        """Count everything."""
        n_panels = self.n_panels(n_threads)
        blocks = range(-(-len(self.lanes) // (n_panels * LANES)))
        worker = partial(self._worker, n_panels)
        with closing(worker_map(worker, blocks, n_threads=n_threads, ahead=_AHEAD)) as finished:
            for n_rows in finished:
                if on_rows is not None and n_rows:
                    on_rows(n_rows)

    def _compare_targets(self, scores: Doubles) -> tuple[Ints, Ints, Ints]:
        """Return the order that sorts the pairs of each row by score, and what is above and tied there."""
        indptr = self.pools.target_indptr
        if self.pools.is_single or self.pools.n_targets.max() > FEW_TARGETS:
            order = order_within_rows(indptr, scores)
            return order, *count_among_targets(indptr, scores, order)
        order, above, tied = (np.empty(len(scores), np.int64) for _ in range(3))
        compare_targets(indptr, scores, order, above, tied)
        return order, above, tied

    def _tie_zero_rows(self) -> None:
        """Answer rows of zeros, such as users a model has not seen: every item ties with every other."""
        if self.user.square_norms.all():
            return
        rest = self.pools.n_items - np.diff(self.pools.seen_indptr) - self.pools.n_targets
        ties = np.where(self.user.square_norms == 0, rest, -1)
        ties = np.repeat(ties, self.pools.n_targets)
        pairs = ties >= 0
        self.n_tied[pairs] += ties[pairs]
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

    def _worker(self, n_panels: int, stop: threading.Event) -> Callable[[int], int]:
        """Return the function of one thread: it counts a block of lanes and returns its number of rows."""
        scratch, lanes, pools = self.scratch(n_panels), self.lanes, self.pools
        of_lanes = (lanes.row, lanes.first_pair, lanes.size)
        n_lanes = n_panels * LANES
        per_call = max(1, CALL_WORK // (n_lanes * scratch.users.shape[1] * len(scratch.pool)))
        step = per_call * len(scratch.pool)

        def work(block: int) -> int:
            first = block * n_lanes
            kernel.load_lanes(
                first,
                *of_lanes,
                self.user.fast,
                self.low,
                self.high,
                self.spread,
                self.reach,
                self.order,
                pools.target_items,
                self.copies,
                pools.seen_indptr,
                scratch.users,
                scratch.low,
                scratch.high,
                scratch.spread,
                scratch.reach,
                scratch.copy,
                scratch.n_above,
                scratch.n_tied,
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
                    self.are_ties,
                    self.word_unit,
                    self.scores,
                    self.item.fast,
                    self.item.square_norms,
                    self.weight,
                    self.item_weight,
                    self.copies,
                    self.user.exact,
                    self.item.exact,
                    self.bits,
                    self.bias,
                    self.order,
                    self.n_above,
                    self.n_tied,
                    scratch.users,
                    scratch.low,
                    scratch.high,
                    scratch.spread,
                    scratch.reach,
                    scratch.copy,
                    scratch.n_above,
                    scratch.n_tied,
                    scratch.cursor,
                    scratch.pool,
                    scratch.close,
                    scratch.near,
                    scratch.tail,
                    scratch.scores,
                    scratch.words,
                    scratch.scale,
                    scratch.word_low,
                    scratch.word_limit,
                    scratch.counts,
                )
                if stop.is_set():
                    return 0
            if not kernel.unload_lanes(
                first,
                *of_lanes,
                pools.seen_indptr,
                self.order,
                self.n_above,
                self.n_tied,
                scratch.n_above,
                scratch.n_tied,
                scratch.cursor,
            ):
                pools.check_seen()
            self._recomputed.append(n_recomputed)
            return int(lanes.is_first[first : first + n_lanes].sum())

        return work

    def counts(self) -> Counts:
        """Return the result in the order the targets were given in."""
        return Counts(
            self.n_above, self.n_tied, self.relevant_above, self.relevant_tied, sum(self._recomputed)
        )
