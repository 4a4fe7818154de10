"""Counting one set of rows on a device: rows in batches, items in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from truerank.ranks.gpu.band import padded_width
from truerank.ranks.gpu.matrix import Matrix, as_array, largest_of, to_device
from truerank.ranks.kernels.counts import Counts, count_among_targets, order_within_rows
from truerank.ranks.kernels.pair_score import Doubles
from truerank.ranks.kernels.pool import Pools
from truerank.ranks.kernels.side import check_magnitudes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from truerank.ranks.gpu.band import ItemSide
    from truerank.ranks.gpu.limit import Limits


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive items on the device.

    Parameters
    ----------
    start : the first item
    exact, bias : factors as given, and a float64 bias or None
    largest : their largest magnitude
    """

    start: int
    exact: Tensor
    bias: Tensor | None
    largest: float

    @cached_property
    def side(self) -> ItemSide:
        """The items prepared for counting."""
        from truerank.ranks.gpu.band import ItemSide

        return ItemSide.prepare(self.exact, self.bias, self.largest)

    @property
    def factors(self) -> tuple[Tensor, Tensor | None]:
        """What float64 scores are computed from."""
        return self.exact, self.bias


class ItemSource(Protocol):
    """The items, in chunks, and what counts them."""

    device: torch.device
    engine: ModuleType
    limits: Limits

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    @property
    def is_resident(self) -> bool:
        """Whether there is one chunk only, kept on the device."""

    def chunks(self) -> Iterable[Chunk]:
        """Return the chunks; can be called again."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows start..stop-1 with their pairs and seen items, on the device.

    Parameters
    ----------
    pairs : the pairs of all rows that are here
    users : (n_rows, d) factors
    user, code : (n_pairs,) int64, the row and the target of a pair
    indptr : (n_rows + 1,) int64, where the pairs of a row begin
    seen_row, seen_code : (n_seen,) int64
    """

    pairs: slice
    users: Tensor
    user: Tensor
    code: Tensor
    indptr: Tensor
    seen_row: Tensor
    seen_code: Tensor


class Job:
    """One batch of rows of any length against all items."""

    def __init__(
        self, counter: ItemSource, users: Matrix, pools: Pools, on_rows: Callable[[int], None] | None
    ) -> None:
        self.counter, self.users, self.pools, self.on_rows = counter, users, pools, on_rows
        self.scores: Doubles = np.empty(len(pools.target_items))
        self.above = np.zeros(len(pools.target_items), np.int64)
        self.tied = np.full(len(pools.target_items), -1, np.int64)  # the target itself is counted
        self.n_recomputed = 0
        self.starts = _cuts(pools, self.users.shape[1], counter.limits)

    def run(self) -> None:
        """Count everything; items that do not fit at once are needed twice, first for the targets' scores."""
        counter, ends = self.counter, list(zip(self.starts[:-1], self.starts[1:], strict=True))
        if not counter.is_resident:
            for chunk in counter.chunks():
                for first, stop in ends:
                    self._score_targets(self._batch(first, stop, with_seen=False), chunk)
        for chunk in counter.chunks():
            for first, stop in ends:
                batch = self._batch(first, stop)
                if counter.is_resident:
                    self._score_targets(batch, chunk)
                self._count(batch, chunk)
                if self.on_rows is not None and chunk.start + len(chunk.exact) == counter.n_items:
                    self.on_rows(stop - first)

    def _batch(self, start: int, stop: int, *, with_seen: bool = True) -> Batch:
        import torch

        pools, device = self.pools, self.counter.device
        pairs = slice(int(pools.target_indptr[start]), int(pools.target_indptr[stop]))
        seen = slice(int(pools.seen_indptr[start]), int(pools.seen_indptr[stop]))
        users = to_device(self.users[start:stop], device)
        indptr = to_device(pools.target_indptr[start : stop + 1], device) - pairs.start
        number = torch.arange(stop - start, device=device)
        seen_row = seen_code = number[:0]
        if with_seen and seen.stop > seen.start:
            begins = to_device(pools.seen_indptr[start : stop + 1], device) - seen.start
            seen_code = to_device(pools.seen_items[seen], device).long()
            seen_row = torch.repeat_interleave(number, begins.diff(), output_size=seen.stop - seen.start)
            self._check_seen(seen_row, seen_code)
        return Batch(
            pairs,
            users,
            torch.repeat_interleave(number, indptr.diff(), output_size=pairs.stop - pairs.start),
            to_device(pools.target_items[pairs], device),
            indptr,
            seen_row,
            seen_code,
        )

    def _check_seen(self, row: Tensor, code: Tensor) -> None:
        ascends = (code[1:] > code[:-1]) | (row[1:] != row[:-1])
        if not bool(ascends.all() & (code.amin() >= 0) & (code.amax() < self.counter.n_items)):
            self.pools.check_seen()

    def _score_targets(self, batch: Batch, chunk: Chunk) -> None:
        """Score the targets that are among these items."""
        import torch

        score = self.counter.engine.score_pairs
        if self.counter.is_resident:
            self.scores[batch.pairs] = as_array(score(batch.users, *chunk.factors, batch.user, batch.code))
            return
        code = batch.code - chunk.start
        here = torch.nonzero((code >= 0) & (code < len(chunk.exact)))[:, 0]
        found = score(batch.users, *chunk.factors, batch.user[here], code[here])
        self.scores[batch.pairs][as_array(here)] = as_array(found)

    def _count(self, batch: Batch, chunk: Chunk) -> None:
        import torch

        engine = self.counter.engine
        largest = largest_of("user", batch.users, self.users)
        check_magnitudes(-int(np.frexp(largest)[1]), -int(np.frexp(chunk.largest)[1]))
        score = to_device(self.scores[batch.pairs], self.counter.device)
        above, tied = torch.zeros((2, len(score)), dtype=torch.int64, device=score.device)
        if len(score) * chunk.exact.numel() <= engine.WHOLE_WORK:
            engine.count_whole(batch.users, *chunk.factors, batch.user, score, above, tied)
            self.n_recomputed += len(score) * len(chunk.exact)
        else:
            self._count_sides(batch, chunk.side, score, above, tied)
        row, code = batch.seen_row, batch.seen_code - chunk.start
        if not self.counter.is_resident:
            is_here = (code >= 0) & (code < len(chunk.exact))
            row, code = row[is_here], code[is_here]
        stop = None if len(score) == len(batch.users) else batch.indptr[row + 1]
        engine.decide(batch.users, *chunk.factors, row, code, batch.indptr[row], stop, score, above, tied, -1)
        self.above[batch.pairs] += as_array(above)
        self.tied[batch.pairs] += as_array(tied)

    def _count_sides(self, batch: Batch, side: ItemSide, score: Tensor, above: Tensor, tied: Tensor) -> None:
        from truerank.ranks.gpu.band import RowSide

        above += side.n_zero * (score < 0)
        tied += side.n_zero * (score == 0)
        if side.bias is None:
            is_zero = ~batch.users.any(1)
            tied += len(side.code) * is_zero[batch.user]
        rows = RowSide.prepare(batch.users, batch.user, score, side)
        count_rows, room = self.counter.engine.count_rows, self.counter.limits.list_bytes
        self.n_recomputed += count_rows(rows, side, above, tied, list_bytes=room)

    def counts(self) -> Counts:
        """Return the result."""
        indptr = self.pools.target_indptr
        among = count_among_targets(indptr, self.scores, order_within_rows(indptr, self.scores))
        return Counts(self.above, self.tied, *among, self.n_recomputed)


def _cuts(pools: Pools, width: int, limits: Limits) -> list[int]:
    """Return where batches of rows begin and end, so that each is within the limits or a single row."""
    cuts, most = [0], max(1, limits.row_cells // padded_width(width))
    while cuts[-1] < pools.n_rows:
        start = cuts[-1]
        by_pairs = np.searchsorted(pools.target_indptr, pools.target_indptr[start] + most, side="right")
        most_seen = pools.seen_indptr[start] + limits.seen_items
        by_seen = np.searchsorted(pools.seen_indptr, most_seen, side="right")
        cuts.append(max(start + 1, min(int(by_pairs), int(by_seen)) - 1))
    return cuts
