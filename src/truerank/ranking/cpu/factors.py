"""Exact counts for scores that are dot products of factors.

A float32 pass scores every pair in registers and counts it a moment later; pairs that lie closer to the
target than a proven rounding bound (see ``counts``) are decided again by the float64 sum of ``pair_scores``.
So the counts are those of that sum, whatever the batch, the order of rows and items or the number of threads.

Several targets of a row share its scores: each register tile is compared with up to 16 targets while the next
one is multiplied. A row with more targets takes several lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen
from truerank.ranking.cpu.copies import number_copies
from truerank.ranking.cpu.counts import (
    MOST_COORDINATES,
    Counts,
    Doubles,
    Floats,
    Pools,
    Side,
    check_magnitudes,
    exponent_of,
    score_block,
)
from truerank.ranking.cpu.rows import count_sorted

Path = Literal["auto", "numpy", "compiled"]

# Below this many scores NumPy, which sorts them, answers in 0.1 s, before even a cached kernel is loaded.
SMALL_CELLS = 2_000_000
BLOCK_CELLS = 1 << 16


def count_factors(
    user_factors: Floats,
    item_factors: Floats,
    item_bias: Floats | None,
    target_indptr: ArrayLike,
    target_items: ArrayLike,
    seen_indptr: ArrayLike,
    seen_items: ArrayLike,
    *,
    n_threads: int = 1,
    on_rows: Callable[[int], None] | None = None,
    path: Path = "auto",
) -> Counts:
    """Return exact counts for every (row, target) of a factor model.

    Use ``FactorCounter`` to count several batches of rows against the same items. Time is that of a float32
    matrix product or less; each thread holds less than 1 MB.

    Parameters
    ----------
    user_factors : (n_rows, d) float32 or float64, one row per user to be evaluated
    item_factors : (n_items, d) float32 or float64
    item_bias : (n_items,) or None
    target_indptr, target_items, seen_indptr, seen_items : see ``Pools``
    n_threads : threads that share the rows
    on_rows : called with the number of rows just finished, in the calling thread
    path : which implementation; both return the same counts

    Returns
    -------
    Counts, in the order of ``target_items``

    Raises
    ------
    InvalidData
        When factors are not finite, shapes do not fit, or lists are not as ``Pools`` asks.

    Examples
    --------
    >>> users, items = np.array([[1.0]]), np.array([[3.0], [2.0], [2.0], [9.0]])
    >>> counts = count_factors(users, items, None, [0, 1], [2], [0, 1], [3])
    >>> counts.n_above.tolist(), counts.n_tied.tolist()
    ([1], [1])
    """
    return FactorCounter(item_factors, item_bias).count(
        user_factors,
        target_indptr,
        target_items,
        seen_indptr,
        seen_items,
        n_threads=n_threads,
        on_rows=on_rows,
        path=path,
    )


class FactorCounter:
    """Items of a factor model, prepared once and counted against many batches of rows.

    Float32 items without a bias are used as they are; others are copied to float32 once, O(n_items d), shared
    by all threads.

    Parameters
    ----------
    item_factors : (n_items, d) float32 or float64
    item_bias : (n_items,) or None
    """

    def __init__(self, item_factors: Floats, item_bias: Floats | None = None) -> None:
        self.items = _as_factors("item", item_factors)
        if item_bias is not None and np.shape(item_bias) != (len(self.items),):
            raise InvalidData(
                f"item_bias must have one entry per item, {len(self.items)}, got {np.shape(item_bias)}."
            )
        bias = None if item_bias is None else np.ascontiguousarray(item_bias, dtype=np.float64)
        self.bias: Doubles | None = None if bias is None else frozen(bias)

    @cached_property
    def _item_side(self) -> Side:
        return Side.prepare("item", self.items, self.bias)

    @cached_property
    def _copies(self) -> NDArray[np.int32]:
        return number_copies(self._item_side, self.bias)

    def count(
        self,
        user_factors: Floats,
        target_indptr: ArrayLike,
        target_items: ArrayLike,
        seen_indptr: ArrayLike,
        seen_items: ArrayLike,
        *,
        n_threads: int = 1,
        on_rows: Callable[[int], None] | None = None,
        path: Path = "auto",
    ) -> Counts:
        """Return exact counts for a batch of rows; parameters as in ``count_factors``."""
        users = _as_factors("user", user_factors)
        pools = Pools.of(target_indptr, target_items, seen_indptr, seen_items, len(self.items))
        if users.shape != (pools.n_rows, self.items.shape[1]):
            raise InvalidData(
                f"user factors must have shape ({pools.n_rows}, {self.items.shape[1]}), one row per row of "
                f"target_indptr and as wide as the items, got {users.shape}."
            )
        cells = len(users) * len(self.items)
        is_small = path == "numpy" or (path == "auto" and cells < SMALL_CELLS)
        if is_small or users.shape[1] > MOST_COORDINATES or users.size == 0:
            return self._count_numpy(users, pools, on_rows)
        return self._count_compiled(users, pools, n_threads, on_rows)

    def _count_numpy(self, users: Floats, pools: Pools, on_rows: Callable[[int], None] | None) -> Counts:
        check_magnitudes(exponent_of("user", users, None), exponent_of("item", self.items, self.bias))
        block = max(1, BLOCK_CELLS // max(1, len(self.items)))
        return count_sorted(
            pools,
            lambda start, stop: score_block(users[start:stop], self.items, self.bias),
            block=block,
            on_rows=on_rows,
        )

    def _count_compiled(
        self, users: Floats, pools: Pools, n_threads: int, on_rows: Callable[[int], None] | None
    ) -> Counts:
        from truerank.ranking.cpu.factor_job import FactorJob

        item, user = self._item_side, Side.prepare("user", users, self._ones(users))
        check_magnitudes(user.exponent, item.exponent)
        job = FactorJob(item, self.bias, user, pools, self._copies)
        job.run(n_threads=n_threads, on_rows=on_rows)
        return job.counts()

    def _ones(self, users: Floats) -> Doubles | None:
        """Return what the bias is multiplied with."""
        return None if self.bias is None else np.ones(len(users))


def _as_factors(name: str, factors: Floats) -> Floats:
    array = np.asarray(factors)
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise InvalidData(
            f"{name} factors must be a matrix of numbers, got {array.dtype} of shape {array.shape}."
        )
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    return frozen(np.ascontiguousarray(array, dtype=dtype))
