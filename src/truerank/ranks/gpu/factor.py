"""Exact counts of a factor model on a device, items and users streamed through it in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import InvalidData
from truerank.ranks.gpu.band import padded_width
from truerank.ranks.gpu.device import Engine, engine_for, open_device
from truerank.ranks.gpu.job import Chunk, Job
from truerank.ranks.gpu.limit import Limits
from truerank.ranks.gpu.matrix import Matrix, as_array, as_matrix, largest_of, to_device
from truerank.ranks.kernels.counts import Counts
from truerank.ranks.kernels.pool import Pools, as_integers
from truerank.ranks.kernels.rounding import MOST_COORDINATES


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
    """Return exact counts for every (row, target) of a factor model, those of ``kernels.factor``.

    Use ``DeviceCounter`` to count several batches of rows against the same items. Neither side has to fit on
    the device; tensors that are there already are used as they are.

    Parameters
    ----------
    user_factors : (n_rows, d) array or tensor, one row per user to be evaluated
    item_factors : (n_items, d) array or tensor
    item_bias : (n_items,) or None
    target_indptr, target_items, seen_indptr, seen_items : see ``Pools``
    device : what torch calls it; ``cpu`` works too, slowly
    engine : ``triton`` (fused), ``torch`` (in blocks) or the better one that is there
    memory : bytes of the device to keep within (tensors that are there already not counted), at least 2^20;
        None for about 3 GB. One row of users or items is sent in any case
    on_rows : called with the number of rows just finished

    Returns
    -------
    Counts, in the order of ``target_items``

    Raises
    ------
    InvalidParameter, MissingDependency
        When the device is not there.
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
        self.limits = Limits.of(memory)
        self.device = open_device(device)
        self.engine: ModuleType = engine_for(self.device, engine)
        self.items = as_matrix("item", item_factors)
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
        return self.n_items <= self._most_items

    @property
    def _most_items(self) -> int:
        return max(1, self.limits.item_cells // padded_width(self.items.shape[1]))

    @cached_property
    def _resident(self) -> Chunk:
        return self._chunk(0, self.n_items)

    def chunks(self) -> Iterator[Chunk]:
        """Yield all items, or as many at a time as fit."""
        if self.is_resident:
            yield self._resident
            return
        for start in range(0, self.n_items, self._most_items):
            yield self._chunk(start, min(start + self._most_items, self.n_items))

    def _chunk(self, start: int, stop: int) -> Chunk:
        exact = to_device(self.items[start:stop], self.device)
        largest = largest_of("item", exact, self.items)
        bias = None
        if self.bias is not None:
            bias = to_device(self.bias[start:stop], self.device).double()
            largest = max(largest, largest_of("item bias", bias, self.bias[:, None]))
        return Chunk(start, exact, bias, largest)

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
        job = Job(self, users, pools, on_rows)
        job.run()
        return job.counts()

    def _count_on_cpu(self, users: Matrix, pools: Pools) -> Counts:
        """Count what no kernel here is made for."""
        from truerank.ranks.kernels.factor import FactorCounter

        bias = None if self.bias is None else as_array(self.bias)
        return FactorCounter(as_array(self.items), bias).count(
            as_array(users), pools.target_indptr, pools.target_items, pools.seen_indptr, pools.seen_items
        )
