"""Exact ranks of a factor model on a GPU: users stream through the device in batches, items in chunks.

`exact_ranks_gpu` ranks a split, `count_on_device` and `DeviceCounter` count from factors and lists.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

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
    Ints,
    Pools,
    as_integers,
)
from truerank.ranking.exact import exact_ranks, make_queries, ranks_from_counts
from truerank.ranking.gpu.batches import Chunk, DeviceBatch
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
    pinned_ahead,
    rows_to_device,
    to_device,
    to_host,
)
from truerank.ranking.gpu.error_bound import padded_width

if TYPE_CHECKING:
    from torch import Tensor


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
        None for about 3 GB. One row of users or items is sent in any case; 64 MiB take about twice as long,
        256 MiB one and a half times
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
        self._limits = partial(
            DeviceLimits.of,
            memory,
            width=padded_width(self.items.shape[1]),
            itemsize=self.items.dtype.itemsize,
            of=self.engine.BYTES,
            is_there=is_tensor(self.items) and self.items.device == self.device,
        )
        self.limits = self._limits()
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
        return self._chunk(0, self.items)

    def limits_for(self, n_rows: int, *, are_there: bool) -> DeviceLimits:
        """Return the limits for batches of so many rows, whose factors are on the device already or not."""
        return self._limits(n_rows=n_rows, rows_are_there=are_there)

    def chunks(self, most: int | None = None) -> Iterator[Chunk]:
        """Yield all items, or so many at a time, or as many as fit."""
        if self.is_resident:
            yield self._resident
            return
        n_chunks = -(-self.n_items // (most or self.limits.items))
        cuts = [self.n_items * part // n_chunks for part in range(n_chunks + 1)]
        parts = [self.items[start:stop] for start, stop in pairwise(cuts)]
        for start, part in zip(cuts, pinned_ahead(parts, self.device), strict=False):
            yield self._chunk(start, part)

    def item_rows(self, codes: Ints) -> tuple[Tensor, Tensor | None]:
        """Return the vectors and biases of some items, on the device."""
        bias = None if self.bias is None else rows_to_device(self.bias, codes, self.device).double()
        return rows_to_device(self.items, codes, self.device), bias

    @cached_property
    def given(self) -> tuple[Tensor, Tensor | None] | None:
        """Vectors and biases of all items where they were on the device from the start; else None."""
        parts = (self.items,) if self.bias is None else (self.items, self.bias)
        if not all(is_tensor(part) and part.device == self.device for part in parts):
            return None
        return self.items, None if self.bias is None else self.bias.double()

    def _chunk(self, start: int, items: Matrix) -> Chunk:
        """Send consecutive items that begin with item ``start``."""
        exact, stop = to_device(items, self.device), start + len(items)
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
