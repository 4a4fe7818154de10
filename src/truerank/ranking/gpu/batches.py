"""One call of exact counting: users stream through the device in batches, items in chunks.

It decides what is on the device at a time; an engine counts: triton kernels, or plain torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from truerank.ranking.cpu.counts import Counts, Doubles, Ints, Pools, check_magnitudes, count_among_targets
from truerank.ranking.gpu.device import (
    PINNED_BYTES,
    Coming,
    DeviceLimits,
    Matrix,
    as_tensor,
    is_tensor,
    largest_of,
    pinned,
    to_device,
    to_host,
)
from truerank.ranking.gpu.error_bound import FILL

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from truerank.ranking.gpu.error_bound import ItemSide
    from truerank.ranking.gpu.triton_count import CountedAhead


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive items on the device.

    Parameters
    ----------
    start : the first item
    exact, bias : factors as given, and a float64 bias or None
    largest : their largest magnitude
    engine : counts them
    """

    start: int
    exact: Tensor
    bias: Tensor | None
    largest: float
    engine: ModuleType

    @cached_property
    def side(self) -> ItemSide:
        """The items prepared for counting."""
        from truerank.ranking.gpu.error_bound import ItemSide

        return ItemSide.prepare(self.exact, self.bias, self.largest, self.engine.ROWS)

    @property
    def factors(self) -> tuple[Tensor, Tensor | None]:
        """What float64 scores are computed from."""
        return self.exact, self.bias


class ItemSource(Protocol):
    """The items, in chunks, and the engine that counts them."""

    device: torch.device
    engine: ModuleType
    limits: DeviceLimits

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    @property
    def is_resident(self) -> bool:
        """Whether there is one chunk only, kept on the device."""

    def limits_for(self, n_rows: int, *, are_there: bool) -> DeviceLimits:
        """Return the limits for batches of so many rows, whose factors are on the device already or not."""

    def chunks(self, most: int | None = None) -> Iterable[Chunk]:
        """Return the chunks, of so many items at most; can be called again."""

    def item_rows(self, codes: Ints) -> tuple[Tensor, Tensor | None]:
        """Return the vectors and biases of some items, on the device."""

    @property
    def given(self) -> tuple[Tensor, Tensor | None] | None:
        """Vectors and biases of all items where they were on the device from the start; else None."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows start..stop-1 with their pairs, on the device.

    Parameters
    ----------
    start, stop : the rows
    pairs : the pairs of all rows that are here
    users : (n_rows, d) factors
    user : (n_pairs,) int64, the row of a pair
    indptr : (n_rows + 1,) int64, where the pairs of a row begin; None where each row has one
    """

    start: int
    stop: int
    pairs: slice
    users: Tensor
    user: Tensor
    indptr: Tensor | None


@dataclass(frozen=True, eq=False)
class Begun:
    """A batch and a chunk of items that the device may still be counting.

    Parameters
    ----------
    rows : first row and the one after the last
    ahead : what is not known to be counted; None where all is
    counts : (2, n_pairs), on their way to the host; None where they are kept on the device
    """

    rows: tuple[int, int]
    ahead: CountedAhead | None
    counts: Coming | None


class DeviceBatch:
    """One call: rows go through the device batch after batch, against all items or chunk after chunk.

    Parameters
    ----------
    counter : the items
    users : (n_rows, d) factors
    pools : targets and seen items of the rows
    on_rows : called with the number of rows just finished
    """

    def __init__(
        self, counter: ItemSource, users: Matrix, pools: Pools, on_rows: Callable[[int], None] | None
    ) -> None:
        self.counter, self.users, self.pools, self.on_rows = counter, users, pools, on_rows
        seen = pools.seen_items
        self.seen_items: Matrix = seen if seen.dtype in (np.int32, np.int64) else seen.astype(np.int64)
        self.target_indptr: Matrix = pools.target_indptr
        self.seen_indptr: Matrix = pools.seen_indptr
        if not counter.is_resident:  # every chunk of items meets all users
            self.users = pinned(users, counter.device)
            self.target_indptr = pinned(self.target_indptr, counter.device)
            if counter.given is None:
                self.seen_items = pinned(self.seen_items, counter.device)
                self.seen_indptr = pinned(self.seen_indptr, counter.device)
        self.scores: Doubles = np.empty(len(pools.target_items))
        self.above, self.tied = np.zeros((2, len(pools.target_items)), np.int64)
        self.kept: tuple[Tensor, Tensor] | None = None
        self.n_taken: Tensor | None = None
        # Rows of a batch are sorted for the first chunk of items, and lie in that order for all.
        self.orders: dict[int, Tensor] = {}
        self.keeps_orders = not counter.is_resident and 8 * len(pools.target_items) <= PINNED_BYTES
        self.n_recomputed = 0
        are_there = is_tensor(users) and users.device == counter.device
        self.limits = counter.limits
        self.starts = _cuts(pools, self.limits.rows_there if are_there else self.limits.rows)
        if not counter.is_resident:
            largest = int(np.diff(pools.target_indptr[self.starts]).max())
            self.limits = counter.limits_for(largest + FILL, are_there=are_there)
        work = len(pools.target_items) * counter.n_items * users.shape[1]
        engine = counter.engine
        self.is_small = counter.n_items <= engine.FEW_ITEMS or work <= engine.WHOLE_WORK
        # Until a list turns out to be too short: then the next ones may be, too.
        self.is_ahead = engine.CAN_COUNT_AHEAD and not counter.is_resident and not self.is_small
        self.seen_is_wrong: Tensor | None = None

    @cached_property
    def _numbers(self) -> Tensor:
        """0, 1, ... for the rows of any batch."""
        import torch

        return torch.arange(int(np.diff(self.starts).max()), device=self.counter.device)

    @property
    def _can_read_seen(self) -> bool:
        """Whether the device reads seen items of a chunk from the host, instead of being sent all of them."""
        is_pinned = is_tensor(self.seen_items) and is_tensor(self.seen_indptr)
        if self.counter.given is not None or not (is_pinned or self.counter.device.type == "cpu"):
            return False
        longest = int(np.diff(self.pools.seen_indptr).max())
        return 0 < longest <= int(self.counter.engine.LONGEST_SEEN)

    def run(self) -> None:
        """Count everything; raise where seen items are not as ``Pools`` asks."""
        self._count_all()
        if self.seen_is_wrong is not None and bool(self.seen_is_wrong):
            self.pools.check_seen()

    def _count_all(self) -> None:
        """Count all batches; where items are not on the device, the targets' vectors are sent beforehand."""
        import torch

        counter, ends = self.counter, list(zip(self.starts[:-1], self.starts[1:], strict=True))
        if counter.is_resident:
            (chunk,) = counter.chunks()
            for first, stop in ends:
                batch = self._batch(first, stop)
                self._check_magnitudes(largest_of("user", batch.users, self.users), chunk)
                codes = to_device(self.pools.target_items[batch.pairs], counter.device)
                score = counter.engine.score_pairs(batch.users, *chunk.factors, batch.user, codes)
                torch.from_numpy(self.scores[batch.pairs]).copy_(score)
                counts = self._counts_of(batch)
                self._count(batch, chunk, score, counts)
                for total, found in zip((self.above, self.tied), counts, strict=True):
                    torch.from_numpy(total[batch.pairs]).copy_(found)
                self._report(stop - first)
            return
        if len(self.scores) <= self.limits.kept_pairs:
            score = torch.empty(len(self.scores), dtype=torch.float64, device=counter.device)
            self.kept = (score, torch.zeros((2, len(score)), dtype=torch.int64, device=counter.device))
            if self._can_read_seen:
                self.n_taken = torch.zeros(self.pools.n_rows, dtype=torch.int32, device=counter.device)
        largest = max(self._score_targets(self._batch(first, stop)) for first, stop in ends)
        for chunk in counter.chunks(self.limits.items):
            self._check_magnitudes(largest, chunk)
            begun: list[Begun] = []
            for first, stop in ends:
                batch = self._batch(first, stop)
                begun.append(self._begin(batch, chunk, self._score_of(batch)))
                del batch
                # The device has the next batch to do while the host looks at the one before.
                if len(begun) > 1:
                    self._finish(begun.pop(0), chunk)
            self._finish(begun.pop(), chunk)
        if self.kept is not None:
            self.scores[:] = to_host(self.kept[0])
            self.above[:], self.tied[:] = to_host(self.kept[1])

    def _score_of(self, batch: Batch) -> Tensor:
        """Return the scores of the targets of a batch, computed before."""
        if self.kept is not None:
            return self.kept[0][batch.pairs]
        return to_device(self.scores[batch.pairs], self.counter.device)

    def _counts_of(self, batch: Batch) -> Tensor:
        """Return what the counts of a batch are added to, (2, n_pairs)."""
        import torch

        if self.kept is not None:
            return self.kept[1][:, batch.pairs]
        n_pairs = batch.pairs.stop - batch.pairs.start
        return torch.zeros((2, n_pairs), dtype=torch.int64, device=self.counter.device)

    def _report(self, n_rows: int) -> None:
        if self.on_rows is not None:
            self.on_rows(n_rows)

    def _check_magnitudes(self, largest: float, chunk: Chunk) -> None:
        check_magnitudes(-int(np.frexp(largest)[1]), -int(np.frexp(chunk.largest)[1]))

    def _pairs(self, start: int, stop: int) -> slice:
        """Return the pairs of some rows."""
        return slice(int(self.pools.target_indptr[start]), int(self.pools.target_indptr[stop]))

    def _batch(self, start: int, stop: int) -> Batch:
        import torch

        pools, device, pairs = self.pools, self.counter.device, self._pairs(start, stop)
        user, indptr = self._numbers[: stop - start], None
        if not pools.is_single:
            indptr = to_device(self.target_indptr[start : stop + 1], device) - pairs.start
            user = torch.repeat_interleave(user, indptr.diff(), output_size=pairs.stop - pairs.start)
        return Batch(start, stop, pairs, to_device(self.users[start:stop], device), user, indptr)

    def _score_targets(self, batch: Batch) -> float:
        """Score the targets by vectors sent for the purpose; return the largest magnitude of the users.

        Where all vectors are on the device, seen items are taken off too, before other things need the room.
        """
        import torch

        largest = largest_of("user", batch.users, self.users)
        codes = self.pools.target_items[batch.pairs]
        factors = self.counter.item_rows(codes)
        number = torch.arange(len(codes), device=self.counter.device)
        score = self.counter.engine.score_pairs(batch.users, *factors, batch.user, number)
        if self.kept is not None:
            self.kept[0][batch.pairs] = score
        else:
            self.scores[batch.pairs] = to_host(score)
        del factors
        given = self.counter.given
        if given is not None:
            counts = self._counts_of(batch)
            self._take_off_seen(batch, given, 0, score, counts)
            if self.kept is None:
                self._add(batch.pairs, to_host(counts))
        return largest

    def _begin(self, batch: Batch, chunk: Chunk, score: Tensor) -> Begun:
        """Begin to count a batch against a chunk of several."""
        counts = self._counts_of(batch)
        ahead = self._count(batch, chunk, score, counts)
        return Begun((batch.start, batch.stop), ahead, Coming(counts) if self.kept is None else None)

    def _finish(self, begun: Begun, chunk: Chunk) -> None:
        """Add what was begun to the counts of all chunks, and count what it left."""
        pairs = self._pairs(*begun.rows)
        if begun.counts is not None:
            self._add(pairs, begun.counts.wait())
        if begun.ahead is not None:
            n_decided, left = begun.ahead.wait()
            self.n_recomputed += n_decided
            if left:
                self.is_ahead = False
                batch = self._batch(*begun.rows)
                counts = self._counts_of(batch)
                self._count_sides(batch, chunk.side, self._score_of(batch), counts, left)
                if self.kept is None:
                    self._add(pairs, to_host(counts))
        if chunk.start + len(chunk.exact) == self.counter.n_items:
            self._report(begun.rows[1] - begun.rows[0])

    def _count(self, batch: Batch, chunk: Chunk, score: Tensor, counts: Tensor) -> CountedAhead | None:
        """Add a chunk to the counts of a batch, but for seen items that were taken off before."""
        engine, ahead = self.counter.engine, None
        above, tied = counts
        if chunk.start == 0:
            tied -= 1  # the target itself is counted
        if self.is_small:
            engine.count_whole(batch.users, *chunk.factors, batch.user, score, above, tied)
            self.n_recomputed += len(score) * len(chunk.exact)
        else:
            if chunk.side.n_zero:
                above += chunk.side.n_zero * (score < 0)
                tied += chunk.side.n_zero * (score == 0)
            ahead = self._count_sides(batch, chunk.side, score, counts)
        if self.counter.is_resident or self.counter.given is None:
            self._take_off_seen(batch, chunk.factors, chunk.start, score, counts)
        return ahead

    def _add(self, pairs: slice, counts: Ints) -> None:
        """Add counts of some pairs to those on the host."""
        self.above[pairs] += counts[0]
        self.tied[pairs] += counts[1]

    def _take_off_seen(
        self,
        batch: Batch,
        factors: tuple[Tensor, Tensor | None],
        start: int,
        score: Tensor,
        counts: Tensor,
    ) -> None:
        """Take the seen items of a batch off the counts, part by part; factors begin with item start."""
        import torch

        indptr, device, first = self.pools.seen_indptr, self.counter.device, batch.start
        if indptr[first] == indptr[batch.stop]:
            return
        if self.seen_is_wrong is None:
            self.seen_is_wrong = torch.zeros(1, dtype=torch.int32, device=device)
        if self.n_taken is not None:
            self.counter.engine.take_off_next(
                batch.users,
                *factors,
                as_tensor(self.seen_items),
                as_tensor(self.seen_indptr),
                self.n_taken,
                (batch.start, batch.stop),
                batch.indptr,
                score,
                *counts,
                self.seen_is_wrong,
                first_item=start,
                n_items=self.counter.n_items,
            )
            return
        begins = to_device(self.seen_indptr[batch.start : batch.stop + 1], device)
        while first < batch.stop:
            last = int(np.searchsorted(indptr, indptr[first] + self.limits.seen_items, side="right")) - 1
            last = max(first + 1, min(last, batch.stop))
            places = int(indptr[first]), int(indptr[last])
            self.counter.engine.take_off(
                batch.users,
                *factors,
                to_device(self.seen_items[slice(*places)], device),
                begins,
                (first - batch.start, last - batch.start),
                places,
                batch.indptr,
                score,
                *counts,
                self.seen_is_wrong,
                first_item=start,
                n_items=self.counter.n_items,
            )
            first = last

    def _count_sides(
        self, batch: Batch, side: ItemSide, score: Tensor, counts: Tensor, left: list[int] | None = None
    ) -> CountedAhead | None:
        """Add items to the counts of a batch, or to those of what was left of it; return what is not done."""
        engine, room = self.counter.engine, self.limits.list_bytes
        order = self.orders.get(batch.start)
        given = () if order is None else (to_device(order, self.counter.device),)
        rows = engine.prepare_rows(batch.users, batch.user, score, side, *given)
        if order is None and self.keeps_orders:
            self.orders[batch.start] = Coming(rows.pair).here
        if self.is_ahead and room is not None:
            begun: CountedAhead = engine.count_ahead(rows, side, *counts, room)
            return begun
        options = {} if left is None else {"starts": left}
        self.n_recomputed += engine.count_rows(rows, side, *counts, list_bytes=room, **options)
        return None

    def counts(self) -> Counts:
        """Return the result."""
        among = count_among_targets(self.pools.target_indptr, self.scores)
        return Counts(self.above, self.tied, *among, self.n_recomputed)


def _cuts(pools: Pools, most: int) -> list[int]:
    """Return the bounds of batches of rows, of similar size: so many pairs each at most, or one row."""
    cuts, n_pairs = [0], len(pools.target_items)
    most = -(-n_pairs // -(-n_pairs // most))
    while cuts[-1] < pools.n_rows:
        start = cuts[-1]
        stop = np.searchsorted(pools.target_indptr, pools.target_indptr[start] + most, side="right")
        cuts.append(max(start + 1, int(stop) - 1))
    return cuts
