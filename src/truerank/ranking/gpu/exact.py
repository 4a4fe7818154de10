"""Exact ranks of a factor model on a GPU: users stream through the device in batches, items in chunks.

`exact_ranks_gpu` ranks a split, `count_on_device` and `DeviceCounter` count from factors and lists.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, check_choice
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import SEEN_POLICIES, Ranks, SeenPolicy
from truerank.core.scorer import HasFactors, HasItemWeights, Scorer, check_scorer
from truerank.core.split import Split
from truerank.ranking.cpu.counts import (
    MOST_COORDINATES,
    Counts,
    Doubles,
    Ints,
    Pools,
    as_integers,
    check_magnitudes,
    count_among_targets,
)
from truerank.ranking.exact import exact_ranks, make_queries, ranks_from_counts
from truerank.ranking.gpu.device import (
    DeviceLimits,
    Engine,
    Matrix,
    as_matrix,
    engine_for,
    has_gpu,
    is_tensor,
    largest_of,
    open_device,
    to_device,
    to_host,
)
from truerank.ranking.gpu.error_bound import padded_width

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from truerank.ranking.gpu.error_bound import ItemSide


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

    def chunks(self) -> Iterable[Chunk]:
        """Return the chunks; can be called again."""

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
        self.scores: Doubles = np.empty(len(pools.target_items))
        self.above, self.tied = np.zeros((2, len(pools.target_items)), np.int64)
        self.kept: tuple[Tensor, Tensor] | None = None
        self.n_recomputed = 0
        self.starts = _cuts(pools, counter.limits.rows)
        work = len(pools.target_items) * counter.n_items * users.shape[1]
        engine = counter.engine
        self.is_small = counter.n_items <= engine.FEW_ITEMS or work <= engine.WHOLE_WORK

    def run(self) -> None:
        """Count everything; where items are not on the device, the targets' vectors are sent beforehand."""
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
                self._count(batch, chunk, score)
                self._report(stop - first)
            return
        if len(self.scores) <= counter.limits.kept_pairs:
            score = torch.empty(len(self.scores), dtype=torch.float64, device=counter.device)
            self.kept = (score, torch.zeros((2, len(score)), dtype=torch.int64, device=counter.device))
        largest = max(self._score_targets(self._batch(first, stop)) for first, stop in ends)
        for chunk in counter.chunks():
            self._check_magnitudes(largest, chunk)
            is_last = chunk.start + len(chunk.exact) == counter.n_items
            for first, stop in ends:
                batch = self._batch(first, stop)
                self._count(batch, chunk, self._score_of(batch))
                if is_last:
                    self._report(stop - first)
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

    def _batch(self, start: int, stop: int) -> Batch:
        import torch

        pools, device = self.pools, self.counter.device
        pairs = slice(int(pools.target_indptr[start]), int(pools.target_indptr[stop]))
        user, indptr = torch.arange(stop - start, device=device), None
        if not pools.is_single:
            indptr = to_device(pools.target_indptr[start : stop + 1], device) - pairs.start
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
        given = self.counter.given
        if given is not None:
            counts = self._counts_of(batch)
            self._take_off_seen(batch, given, 0, score, counts, 8 * self.counter.limits.seen_items)
            self._add(batch, counts)
        return largest

    def _count(self, batch: Batch, chunk: Chunk, score: Tensor) -> None:
        engine = self.counter.engine
        above, tied = counts = self._counts_of(batch)
        if chunk.start == 0:
            tied -= 1  # the target itself is counted
        if self.is_small:
            engine.count_whole(batch.users, *chunk.factors, batch.user, score, above, tied)
            self.n_recomputed += len(score) * len(chunk.exact)
        else:
            self._count_sides(batch, chunk.side, score, above, tied)
        if self.counter.is_resident or self.counter.given is None:
            limit = self.counter.limits.seen_items
            self._take_off_seen(batch, chunk.factors, chunk.start, score, counts, limit)
        self._add(batch, counts)

    def _add(self, batch: Batch, counts: Tensor) -> None:
        """Add counts of a batch to those on the host, unless they are kept on the device."""
        import torch

        if self.kept is not None:
            return
        if self.counter.is_resident:  # there are no others
            for total, found in zip((self.above, self.tied), counts, strict=True):
                torch.from_numpy(total[batch.pairs]).copy_(found)
            return
        for total, found in zip((self.above, self.tied), to_host(counts), strict=True):
            total[batch.pairs] += found

    def _take_off_seen(
        self,
        batch: Batch,
        factors: tuple[Tensor, Tensor | None],
        start: int,
        score: Tensor,
        counts: Tensor,
        most: int,
    ) -> None:
        """Take the seen items of a batch off the counts, so many at a time; factors begin with item start."""
        import torch

        pools, device, first = self.pools, self.counter.device, batch.start
        indptr = pools.seen_indptr
        while first < batch.stop and indptr[first] < indptr[batch.stop]:
            last = int(np.searchsorted(indptr, indptr[first] + most, side="right")) - 1
            last = max(first + 1, min(last, batch.stop))
            begin, end = int(indptr[first]), int(indptr[last])
            row = torch.arange(first - batch.start, last - batch.start, device=device)
            lengths = to_device(indptr[first : last + 1], device).diff()
            row = torch.repeat_interleave(row, lengths, output_size=end - begin)
            code = to_device(pools.seen_items[begin:end], device).long()
            if start == 0:
                self._check_seen(row, code)
            if len(factors[0]) < self.counter.n_items:
                code = code - start
                is_here = (code >= 0) & (code < len(factors[0]))
                row, code = row[is_here], code[is_here]
            pair = (row, None) if batch.indptr is None else (batch.indptr[row], batch.indptr[row + 1])
            self.counter.engine.decide(batch.users, *factors, row, code, *pair, score, *counts, -1)
            first = last

    def _check_seen(self, row: Tensor, code: Tensor) -> None:
        if not len(code):
            return
        ascends = (code[1:] > code[:-1]) | (row[1:] != row[:-1])
        if not bool(ascends.all() & (code.amin() >= 0) & (code.amax() < self.counter.n_items)):
            self.pools.check_seen()

    def _count_sides(self, batch: Batch, side: ItemSide, score: Tensor, above: Tensor, tied: Tensor) -> None:
        if side.n_zero:
            above += side.n_zero * (score < 0)
            tied += side.n_zero * (score == 0)
        engine = self.counter.engine
        rows = engine.prepare_rows(batch.users, batch.user, score, side)
        room = self.counter.limits.list_bytes
        self.n_recomputed += engine.count_rows(rows, side, above, tied, list_bytes=room)

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


def count_on_device(
    user_factors: Matrix,
    item_factors: Matrix,
    item_bias: Matrix | None,
    target_indptr: ArrayLike,
    target_items: ArrayLike,
    seen_indptr: ArrayLike,
    seen_items: ArrayLike,
    *,
    device: str = "cuda",
    engine: Engine = "auto",
    memory: int | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Counts:
    """Return exact counts for every (row, target) of a factor model, equal to those of ``count_factors``.

    Use ``DeviceCounter`` to count several batches of rows against the same items. Neither side has to fit on
    the device; tensors that are there already are used as they are.

    Parameters
    ----------
    user_factors : (n_rows, d) array or tensor, one row per user to be evaluated
    item_factors : (n_items, d) array or tensor
    item_bias : (n_items,) or None
    target_indptr, target_items, seen_indptr, seen_items : see ``Pools``
    device : name in torch; ``cpu`` works too, slowly
    engine : ``triton`` (one fused kernel), ``torch`` (in blocks), or ``auto``: the better one available
    memory : bytes of the device to use (besides tensors that are already there), at least 2^20;
        None for about 3 GB. One row of users or items is sent in any case; 64 MiB take about three times as
        long, 256 MiB one and a half times
    on_rows : called with the number of rows just finished

    Returns
    -------
    Counts, in the order of ``target_items``

    Raises
    ------
    InvalidParameter, MissingDependency
        When there is no such device.
    InvalidData
        When factors are not finite, shapes do not fit, or lists are not as ``Pools`` asks.

    Examples
    --------
    >>> users, items = np.array([[1.0]]), np.array([[3.0], [2.0], [2.0], [9.0]])
    >>> counts = count_on_device(users, items, None, [0, 1], [2], [0, 1], [3], device="cpu")
    >>> counts.n_above.tolist(), counts.n_tied.tolist()
    ([1], [1])
    """
    counter = DeviceCounter(item_factors, item_bias, device=device, engine=engine, memory=memory)
    return counter.count(user_factors, target_indptr, target_items, seen_indptr, seen_items, on_rows=on_rows)


class DeviceCounter:
    """Items of a factor model, counted against many batches of rows.

    Parameters
    ----------
    item_factors : (n_items, d) array or tensor
    item_bias : (n_items,) or None
    device, engine, memory : as in ``count_on_device``
    """

    def __init__(
        self,
        item_factors: Matrix,
        item_bias: Matrix | None = None,
        *,
        device: str = "cuda",
        engine: Engine = "auto",
        memory: int | None = None,
    ) -> None:
        self.device = open_device(device)
        self.engine: ModuleType = engine_for(self.device, engine)
        self.items = as_matrix("item", item_factors)
        self.limits = DeviceLimits.of(
            memory,
            width=padded_width(self.items.shape[1]),
            itemsize=self.items.dtype.itemsize,
            cell_bytes=self.engine.CELL_BYTES,
            is_there=is_tensor(self.items) and self.items.device == self.device,
        )
        self.bias: Matrix | None = None
        if item_bias is not None:
            if tuple(item_bias.shape) != (len(self.items),):
                raise InvalidData(
                    f"item_bias must have one entry per item, {len(self.items)}, "
                    f"got {tuple(item_bias.shape)}."
                )
            self.bias = as_matrix("item bias", item_bias[:, None])[:, 0]

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.items)

    @property
    def is_resident(self) -> bool:
        """Whether all items are on the device at once."""
        return self.n_items <= self.limits.items

    @cached_property
    def _resident(self) -> Chunk:
        return self._chunk(0, self.n_items)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all items, or as many at a time as fit."""
        if self.is_resident:
            yield self._resident
            return
        n_chunks = -(-self.n_items // self.limits.items)
        for part in range(n_chunks):
            yield self._chunk(self.n_items * part // n_chunks, self.n_items * (part + 1) // n_chunks)

    def item_rows(self, codes: Ints) -> tuple[Tensor, Tensor | None]:
        """Return the vectors and biases of some items, on the device."""
        at = to_device(codes, self.items.device) if is_tensor(self.items) else codes
        bias = None if self.bias is None else to_device(self.bias[at], self.device).double()
        return to_device(self.items[at], self.device), bias

    @cached_property
    def given(self) -> tuple[Tensor, Tensor | None] | None:
        """Vectors and biases of all items where they were on the device from the start; else None."""
        parts = (self.items,) if self.bias is None else (self.items, self.bias)
        if not all(is_tensor(part) and part.device == self.device for part in parts):
            return None
        return self.items, None if self.bias is None else self.bias.double()

    def _chunk(self, start: int, stop: int) -> Chunk:
        exact = to_device(self.items[start:stop], self.device)
        largest = largest_of("item", exact, self.items)
        bias = None
        if self.bias is not None:
            bias = to_device(self.bias[start:stop], self.device).double()
            largest = max(largest, largest_of("item bias", bias, self.bias[:, None]))
        return Chunk(start, exact, bias, largest, self.engine)

    def count(
        self,
        user_factors: Matrix,
        target_indptr: ArrayLike,
        target_items: ArrayLike,
        seen_indptr: ArrayLike,
        seen_items: ArrayLike,
        *,
        on_rows: Callable[[int], None] | None = None,
    ) -> Counts:
        """Return exact counts for a batch of rows; parameters as in ``count_on_device``."""
        users = as_matrix("user", user_factors)
        seen = np.asarray(seen_items)
        pools = Pools(
            as_integers("target_indptr", target_indptr),
            as_integers("target_items", target_items),
            as_integers("seen_indptr", seen_indptr),
            seen if seen.dtype.kind in "iu" and seen.ndim == 1 else as_integers("seen_items", seen),
            self.n_items,
        )
        if tuple(users.shape) != (pools.n_rows, self.items.shape[1]):
            raise InvalidData(
                f"user factors must have shape ({pools.n_rows}, {self.items.shape[1]}), one row per row of "
                f"target_indptr and as wide as the items, got {tuple(users.shape)}."
            )
        if users.shape[1] > MOST_COORDINATES or users.shape[1] == 0 or pools.n_rows == 0:
            return self._count_on_cpu(users, pools)
        job = DeviceBatch(self, users, pools, on_rows)
        job.run()
        return job.counts()

    def _count_on_cpu(self, users: Matrix, pools: Pools) -> Counts:
        """Count on the CPU what the kernels here do not support."""
        from truerank.ranking.cpu.factors import FactorCounter

        bias = None if self.bias is None else to_host(self.bias)
        return FactorCounter(to_host(self.items), bias).count(
            to_host(users), pools.target_indptr, pools.target_items, pools.seen_indptr, pools.seen_items
        )


def exact_ranks_gpu(
    scorer: Scorer,
    split: Split,
    *,
    seen: SeenPolicy = "remove",
    device: str = "cuda",
    engine: Engine = "auto",
    memory: int | None = None,
    progress: Progress = SILENT,
) -> Ranks:
    """Return the rank of each test target among all items; every count equals that of ``exact_ranks``.

    Without a GPU the ranks are computed on the CPU, with a warning.

    Parameters
    ----------
    scorer : what gives the scores; must have factors or an item-item matrix
    split : the targets are the test part; items of train and valid are the seen ones
    seen : as in ``exact_ranks``
    device : ``cuda``, ``cuda:1``, ...; ``cpu`` runs the same steps in torch
    engine, memory : as in ``count_on_device``

    Raises
    ------
    InvalidParameter
        When the scorer has neither factors nor an item-item matrix, or there is a GPU but not this device.
    InvalidData
        When the scorer's catalogue is not the split's, or factors are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import Factors
    >>> train = Interactions.from_codes([0], [0], n_items=4)
    >>> split = Split(train, Interactions.from_codes([0], [2], n_items=4))
    >>> factors = Factors(np.array([[1.0]]), np.array([[9.0], [3.0], [2.0], [2.0]]))
    >>> ranks = exact_ranks_gpu(factors, split, device="cpu")
    >>> ranks.n_above.tolist(), ranks.n_tied.tolist(), ranks.n_pool.tolist()
    ([1], [1], [3])
    """
    check_choice("seen", seen, SEEN_POLICIES)
    if not isinstance(scorer, HasFactors | HasItemWeights):
        raise InvalidParameter(
            f"a GPU ranks scorers with factors or item-item matrices, {type(scorer).__name__} has neither. "
            "Leave the device out."
        )
    if device.startswith("cuda") and not has_gpu():
        warnings.warn(f"torch sees no GPU, so {device!r} is the CPU here.", DataWarning, stacklevel=2)
        return exact_ranks(scorer, split, seen=seen, progress=progress)
    opened = open_device(device)
    n_items = split.train.n_items
    queries = make_queries(split, seen)
    if not isinstance(scorer, HasFactors):
        if engine_for(opened, engine).__name__ != "truerank.ranking.gpu.triton_count":
            warnings.warn("item-item models are ranked on the CPU without triton.", DataWarning, stacklevel=2)
            return exact_ranks(scorer, split, seen=seen, progress=progress)
        check_scorer(scorer, split)
        from truerank.ranking.gpu.item_item import ItemWeightCounter

        with tracked(progress, "ranking", len(queries)) as task:
            summed = ItemWeightCounter(scorer.item_weights(), device=device, memory=memory)
            return ranks_from_counts(queries, summed.count(queries, task.advance), n_items, seen)
    factors = scorer.factors()
    check_scorer(factors, split)
    with tracked(progress, "ranking", len(queries)) as task:
        counts = count_on_device(
            factors.user[queries.users],
            factors.item,
            factors.item_bias,
            queries.targets.indptr,
            queries.targets.items,
            queries.excluded.indptr,
            queries.excluded.items,
            device=device,
            engine=engine,
            memory=memory,
            on_rows=task.advance,
        )
    return ranks_from_counts(queries, counts, n_items, seen)
