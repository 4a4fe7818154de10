"""Exact ranks of item-item models on a GPU: scores of a batch of users are summed, compared and dropped.

A score is the float64 sum over the user's history in ascending order, as on the CPU: each addition is rounded
on its own and in the same order, so every count is that of ``exact_ranks``. Needs triton.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.errors import InvalidParameter, check_at_least
from truerank.core.scorer import ItemWeights
from truerank.core.types import IntArray
from truerank.ranking.cpu.counts import Counts, as_integers, count_among_targets
from truerank.ranking.gpu.device import jit, open_device, tl, to_device, to_host

if TYPE_CHECKING:
    from torch import Tensor

    from truerank.ranking.exact import Queries


@jit("n_items")
def add_rows_kernel(  # type: ignore[no-untyped-def]
    begin, end, history, weights, scores, n_items, ITEMS: tl.constexpr
):
    """Write the scores of a block of items for one user: rows of a full matrix, added in order."""
    row = tl.program_id(0).to(tl.int64)
    item = tl.program_id(1) * ITEMS + tl.arange(0, ITEMS)
    is_item = item < n_items
    total = tl.zeros((ITEMS,), tl.float64)
    wide = tl.cast(n_items, tl.int64)
    for at in range(tl.load(begin + row), tl.load(end + row)):
        known = tl.load(history + at).to(tl.int64)
        total += tl.load(weights + known * wide + item, mask=is_item, other=0.0)
    tl.store(scores + row * wide + item, total, mask=is_item)


@jit("n_items")
def add_entries_kernel(  # type: ignore[no-untyped-def]
    begin, end, history, indptr, indices, data, scores, n_items, ENTRIES: tl.constexpr
):
    """Add the rows of a sparse matrix to the scores of one user, which are zero, in order."""
    row = tl.program_id(0).to(tl.int64)
    mine = scores + row * n_items
    for at in range(tl.load(begin + row), tl.load(end + row)):
        known = tl.load(history + at).to(tl.int64)
        stop = tl.load(indptr + known + 1)
        for first in range(tl.load(indptr + known), stop, ENTRIES):
            place = first + tl.arange(0, ENTRIES)
            is_real = place < stop
            item = tl.load(indices + place, mask=is_real, other=0)
            before = tl.load(mine + item, mask=is_real, other=0.0)
            tl.store(mine + item, before + tl.load(data + place, mask=is_real, other=0.0), mask=is_real)
        tl.debug_barrier()  # the next row adds to what other threads wrote


@jit("n_items")
def compare_kernel(  # type: ignore[no-untyped-def]
    scores, row_of, target, above, tied, n_items, ITEMS: tl.constexpr
):
    """Count the items that score higher than a target, and the same."""
    pair = tl.program_id(0).to(tl.int64)
    mine = scores + tl.load(row_of + pair) * n_items
    reference = tl.load(target + pair)
    n_above = tl.zeros((ITEMS,), tl.int32)
    n_tied = tl.zeros((ITEMS,), tl.int32)
    for first in range(0, n_items, ITEMS):
        item = first + tl.arange(0, ITEMS)
        score = tl.load(mine + item, mask=item < n_items, other=float("-inf"))
        n_above += (score > reference).to(tl.int32)
        n_tied += (score == reference).to(tl.int32)
    tl.store(above + pair, tl.sum(n_above, 0).to(tl.int64))
    tl.store(tied + pair, tl.sum(n_tied, 0).to(tl.int64))


# Scores that are on the device at a time unless the memory is limited, and what the kernels take at a time.
SCORES = 1 << 27
ITEMS = 1024
ENTRIES = 128


class ItemWeightCounter:
    """An item-item matrix on a device, counted against many users.

    Parameters
    ----------
    given : the matrix, and the histories of all users
    device : name in torch
    memory : bytes of the device to use; None for the matrix, the histories and 1 GB

    Raises
    ------
    InvalidParameter
        When the matrix and the histories take more than three quarters of the memory.
    """

    def __init__(self, given: ItemWeights, *, device: str = "cuda", memory: int | None = None) -> None:
        self.device = open_device(device)
        self.n_items = given.n_items
        n_scores = SCORES
        if memory is not None:
            check_at_least("memory", memory, 1 << 20)
            if 4 * given.n_bytes > 3 * memory:
                raise InvalidParameter(
                    f"memory must hold the item-item matrix and the histories, {given.n_bytes} bytes, beside "
                    f"the scores of some users, got {memory}. Use a larger memory, or rank on the CPU."
                )
            n_scores = (memory - given.n_bytes) // 16
        self.n_rows = max(1, n_scores // max(1, self.n_items))
        self.indptr = given.history.indptr
        self.history = self._send(given.history.items)
        self.weights = [self._send(part) for part in given.arrays()]

    def _send(self, values: Any) -> Tensor:
        # A kernel needs an address, even of nothing.
        return to_device(values if len(values) else np.zeros(1, values.dtype), self.device)

    def count(self, queries: Queries, on_rows: Callable[[int], None] | None = None) -> Counts:
        """Return exact counts of all targets."""
        parts, scores = [], []
        for start in range(0, len(queries), self.n_rows):
            block = queries.block(start, min(start + self.n_rows, len(queries)))
            above, tied, target = self._count_block(block)
            parts.append(np.stack([above, tied]))
            scores.append(target)
            if on_rows is not None:
                on_rows(len(block))
        above, tied = np.concatenate([np.zeros((2, 0), np.int64), *parts], axis=1)
        target = np.concatenate([np.zeros(0), *scores])
        indptr = as_integers("target_indptr", queries.targets.indptr)
        among = count_among_targets(indptr, target)
        return Counts(above, tied - 1, *among)

    def _count_block(self, block: Queries) -> tuple[Any, Any, Any]:
        import torch

        scores = self._scores(block.users)
        row, code = self._pairs(block.targets.lengths(), block.targets.items)
        target = scores[row, code]
        seen_row, seen_code = self._pairs(block.excluded.lengths(), block.excluded.items)
        scores[seen_row, seen_code] = -torch.inf
        above, tied = torch.zeros((2, len(target)), dtype=torch.int64, device=self.device)
        compare_kernel[(len(target),)](scores, row, target, above, tied, self.n_items, ITEMS=ITEMS)
        return to_host(above), to_host(tied), to_host(target)

    def _pairs(self, lengths: IntArray, codes: IntArray) -> tuple[Tensor, Tensor]:
        """Return the row and the item of each entry of some lists, on the device."""
        row = np.repeat(np.arange(len(lengths)), lengths)
        return to_device(row, self.device), to_device(np.asarray(codes, np.int64), self.device)

    def _scores(self, users: IntArray) -> Tensor:
        """Return the scores of some users, (n, n_items) float64."""
        import torch

        n, n_items = len(users), self.n_items
        begin, end = (to_device(self.indptr[users + step], self.device) for step in (0, 1))
        if len(self.weights) == 1:
            scores = torch.empty((n, n_items), dtype=torch.float64, device=self.device)
            grid = (n, -(-n_items // ITEMS))
            add_rows_kernel[grid](begin, end, self.history, *self.weights, scores, n_items, ITEMS=ITEMS)
            return scores
        scores = torch.zeros((n, n_items), dtype=torch.float64, device=self.device)
        add_entries_kernel[(n,)](
            begin, end, self.history, *self.weights, scores, n_items, ENTRIES=ENTRIES, num_warps=4
        )
        return scores
