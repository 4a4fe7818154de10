"""How rows are laid out for the register tile: lanes, and the scratch memory of one thread."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truerank.ranks.kernels.counts import Ints
from truerank.ranks.kernels.pool import Pools
from truerank.ranks.kernels.tile import ITEMS, LANES, UNROLL

TARGETS_PER_LANE = 16
USER_BYTES = 160 * 1024
ITEM_BYTES = 128 * 1024


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
        if pools.is_single:
            numbers = np.arange(pools.n_rows)
            return cls(numbers, numbers, np.ones_like(numbers), np.ones(pools.n_rows, np.bool_))
        n_targets = pools.n_targets
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
    n_above: NDArray[np.int32]
    cursor: Ints
    pool: NDArray[np.uint16]
    near: NDArray[np.uint16]
    tail: NDArray[np.float32]

    @classmethod
    def allocate(cls, *, n_coordinates: int, n_targets: int, n_panels: int) -> Scratch:
        """Return scratch for ``n_panels`` x 16 lanes with up to ``n_targets`` targets."""
        width = -(-n_coordinates // UNROLL) * UNROLL
        n_tiles = max(1, ITEM_BYTES // (4 * width * ITEMS))
        return cls(
            users=_aligned((n_panels, width, LANES), np.float32),
            low=_aligned((n_panels, n_targets, LANES), np.float32),
            high=_aligned((n_panels, n_targets, LANES), np.float32),
            spread=_aligned((n_panels, LANES), np.float32),
            n_above=_aligned((n_panels, n_targets, LANES), np.int32),
            cursor=np.zeros(n_panels * LANES, np.int64),
            pool=np.zeros(n_tiles * ITEMS, np.uint16),
            near=np.zeros((n_targets, ITEMS), np.uint16),
            tail=np.zeros((ITEMS, width), np.float32),
        )

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))


def panels_per_block(n_lanes: int, *, n_coordinates: int, n_targets: int, n_threads: int) -> int:
    """Return how many panels of 16 lanes share a pass over the items.

    As many as fit the cache beside a tile of items, but few enough that every thread gets several blocks.
    """
    fit = USER_BYTES // (4 * LANES * (n_coordinates + 3 * n_targets) + 12 * LANES)
    fair = -(-n_lanes // LANES) if n_threads == 1 else n_lanes // (LANES * 4 * n_threads)
    return max(1, min(fit, fair))


def _aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return zeros that start on a cache line."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array: NDArray[Any] = memory[start : start + n_bytes].view(dtype).reshape(shape)
    return array
