"""The counting kernel of ``triton_tiles`` for Hopper GPUs, which multiply and count at the same time.

It counts what ``count_kernel`` counts with cross products in float8 (``cross``), from the same sums. What is
different is who does what. One warp fetches tiles of items into a ring of slots; two groups of four warps
have 128 rows each and multiply them by every tile. While one group counts its scores, the matrix units work
for the other. Triton has no word for that, so the kernel is written in gluon, the language below triton. It
is called experimental there: where it is missing or refused, ``count_kernel`` counts, and nothing else
changes.

Items that fill up the last tile are zeros here. Each adds the q of the score 0 to both sums of
``triton_tiles``, and is taken off again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from truerank.core.errors import DataWarning
from truerank.ranking.gpu.device import Kernel, has_float8
from truerank.ranking.gpu.triton_tiles import LEAST_TILES, PROGRAMS

if TYPE_CHECKING:
    import torch
    from torch import Tensor

gl: Any
hopper: Any

try:
    import triton.experimental.gluon.language.nvidia.hopper  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    gl = hopper = None

    def _jit(*sizes: str) -> Callable[[Kernel], Any]:
        """Return the function as it is."""
        return lambda function: function
else:
    gl = triton.experimental.gluon.language
    hopper = gl.nvidia.hopper

    def _jit(*sizes: str) -> Callable[[Kernel], Any]:
        """Compile a kernel on first use, once for all values of the named sizes."""
        return triton.experimental.gluon.jit(do_not_specialize=list(sizes))  # type: ignore[no-any-return,unused-ignore]


# Rows of a group of warps, items of a tile, and tiles in the ring.
ROWS, ITEMS, SLOTS = 128, 128, 4
# Tiles of 128 rows and 128 items from which on it is faster than ``count_kernel``.
LEAST_WORK = 1 << 18


@_jit()
def _start(cross, high, tile_cross, tile_high, OF_BYTES: gl.constexpr, OF_HALVES: gl.constexpr):  # type: ignore[no-untyped-def]
    """Start both products of a tile, into the same sums, and return what to wait for."""
    nothing = gl.full((cross.shape[0], tile_cross.shape[0]), 0.0, gl.float32, OF_BYTES)
    score = hopper.warpgroup_mma(cross, tile_cross.permute((1, 0)), nothing, use_acc=False, is_async=True)
    # This waits for all products but the last, so for none: the sums only get the type of the next product.
    score = hopper.warpgroup_mma_wait(1, deps=[score])
    score = gl.convert_layout(score, OF_HALVES, assert_trivial=True)
    return hopper.warpgroup_mma(high, tile_high.permute((1, 0)), score, is_async=True)


@_jit()
def _next(slot, turn, SLOTS: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return the slot after this one, and which turn it is in there: 0 or 1."""
    is_over = slot == SLOTS - 1
    return gl.where(is_over, 0, slot + 1), gl.where(is_over, turn ^ 1, turn)


@_jit()
def _count(  # type: ignore[no-untyped-def]
    cross,
    high,
    ring,
    about,
    sizes,
    block,
    ROWS: gl.constexpr,
    ITEMS: gl.constexpr,
    SLOTS: gl.constexpr,
):
    """Count the tiles start..stop-1 for one block of rows; what a group of four warps does."""
    ring_cross, ring_high, is_full, is_free = ring
    target, slack, row_bounds, tile_bounds, n_tiles, n_above, is_open = about
    first_block, start, stop, stop_tile, n_items, n_rows = sizes
    OF_BYTES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ITEMS, 32])
    OF_HALVES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ITEMS, 16])
    local = (block - first_block) * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, OF_HALVES))
    is_row = local < n_rows
    row = first_block * ROWS + local
    is_block = (block - first_block) * ROWS < n_rows
    length = gl.minimum(gl.load(n_tiles + block, mask=is_block, other=0), stop_tile)
    middle = gl.load(target + row, mask=is_row, other=0.0)
    absolute = gl.load(slack + row, mask=is_row, other=1.0)
    a0 = gl.load(row_bounds + row * 4, mask=is_row, other=0.0)
    a1 = gl.load(row_bounds + row * 4 + 1, mask=is_row, other=0.0)
    a2 = gl.load(row_bounds + row * 4 + 2, mask=is_row, other=0.0)
    a3 = gl.load(row_bounds + row * 4 + 3, mask=is_row, other=0.0)
    total = gl.zeros((ROWS,), gl.int32, gl.SliceLayout(1, OF_HALVES))
    wide_rows = gl.cast(n_rows, gl.int64)
    slot = gl.to_tensor(0)
    turn = gl.to_tensor(0)
    for tile in range(start, stop):
        b0 = gl.load(tile_bounds + tile * 4)
        b1 = gl.load(tile_bounds + tile * 4 + 1)
        b2 = gl.load(tile_bounds + tile * 4 + 2)
        b3 = gl.load(tile_bounds + tile * 4 + 3)
        hopper.mbarrier.wait(is_full.index(slot), turn)
        coming = _start(cross, high, ring_cross.index(slot), ring_high.index(slot), OF_BYTES, OF_HALVES)
        slope = 0.25 / (absolute + a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3)
        offset = 0.5 - middle * slope
        score = hopper.warpgroup_mma_wait(0, deps=[coming])
        hopper.mbarrier.arrive(is_free.index(slot), count=1)
        slot, turn = _next(slot, turn, SLOTS)
        # A product, a sum and the cut to [0, 1] in one instruction.
        share = gl.inline_asm_elementwise(
            "fma.rn.sat.f32 $0, $1, $2, $3;",
            "=f,f,f,f",
            [score, gl.expand_dims(slope, 1), gl.expand_dims(offset, 1)],
            dtype=gl.float32,
            is_pure=True,
            pack=1,
        )
        summed = gl.sum(share, 1)
        squared = gl.sum(share * share, 1)
        n_filled = gl.maximum((tile + 1) * ITEMS - n_items, 0).to(gl.float32)
        of_zero = gl.minimum(gl.maximum(offset, 0.0), 1.0)
        summed -= n_filled * of_zero
        squared -= n_filled * (of_zero * of_zero)
        opened = summed - squared > 0.1
        is_mine = is_row & (tile < length)
        gl.store(is_open + tile * wide_rows + local, opened.to(gl.int8), mask=is_mine)
        total += gl.where(is_mine & (opened == 0), (summed + 0.5).to(gl.int32), 0)
    gl.atomic_add(n_above + local, total, mask=is_row, sem="relaxed")


@_jit()
def _fetch(  # type: ignore[no-untyped-def]
    items_cross,
    items_high,
    ring,
    start,
    stop,
    ITEMS: gl.constexpr,
    SLOTS: gl.constexpr,
    BYTES: gl.constexpr,
):
    """Fetch tile after tile, each into a slot that both groups have left; what one warp does."""
    ring_cross, ring_high, is_full, is_free = ring
    slot = gl.to_tensor(0)
    turn = gl.to_tensor(1)  # slots are free at first
    for tile in range(start, stop):
        hopper.mbarrier.wait(is_free.index(slot), turn)
        hopper.mbarrier.expect(is_full.index(slot), BYTES)
        hopper.tma.async_copy_global_to_shared(
            items_cross, [tile * ITEMS, 0], is_full.index(slot), ring_cross.index(slot)
        )
        hopper.tma.async_copy_global_to_shared(
            items_high, [tile * ITEMS, 0], is_full.index(slot), ring_high.index(slot)
        )
        slot, turn = _next(slot, turn, SLOTS)


@_jit("first_block", "stop_tile", "n_items", "n_rows")
def _kernel(  # type: ignore[no-untyped-def]
    rows_cross,
    rows_high,
    items_cross,
    items_high,
    target,
    slack,
    row_bounds,
    tile_bounds,
    n_tiles,
    n_above,
    is_open,
    first_block,
    stop_tile,
    n_items,
    n_rows,
    D: gl.constexpr,
    ROWS: gl.constexpr,
    ITEMS: gl.constexpr,
    SLOTS: gl.constexpr,
):
    """Count a part of the tiles for two blocks of rows; mark the rows of a tile that stay open."""
    block = first_block + 2 * gl.program_id(0)
    is_second = (block + 1 - first_block) * ROWS < n_rows
    length = gl.maximum(gl.load(n_tiles + block), gl.load(n_tiles + block + 1, mask=is_second, other=0))
    length = gl.minimum(length, stop_tile)
    start = length * gl.program_id(1) // gl.num_programs(1)
    stop = length * (gl.program_id(1) + 1) // gl.num_programs(1)
    cross = gl.allocate_shared_memory(gl.float8e4nv, [2, ROWS, 2 * D], rows_cross.layout)
    high = gl.allocate_shared_memory(gl.float16, [2, ROWS, D], rows_high.layout)
    ring_cross = gl.allocate_shared_memory(gl.float8e4nv, [SLOTS, ITEMS, 2 * D], items_cross.layout)
    ring_high = gl.allocate_shared_memory(gl.float16, [SLOTS, ITEMS, D], items_high.layout)
    is_full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    is_free = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], hopper.mbarrier.MBarrierLayout())
    has_rows = gl.allocate_shared_memory(gl.int64, [1], hopper.mbarrier.MBarrierLayout())
    for slot in gl.static_range(SLOTS):
        hopper.mbarrier.init(is_full.index(slot), count=1)
        hopper.mbarrier.init(is_free.index(slot), count=2)
    hopper.mbarrier.init(has_rows, count=1)
    hopper.fence_async_shared()
    hopper.mbarrier.expect(has_rows, 2 * ROWS * D * 4)
    for side in gl.static_range(2):
        hopper.tma.async_copy_global_to_shared(
            rows_cross, [(block + side) * ROWS, 0], has_rows, cross.index(side)
        )
        hopper.tma.async_copy_global_to_shared(
            rows_high, [(block + side) * ROWS, 0], has_rows, high.index(side)
        )
    hopper.mbarrier.wait(has_rows, 0)
    ring = (ring_cross, ring_high, is_full, is_free)
    about = (target, slack, row_bounds, tile_bounds, n_tiles, n_above, is_open)
    sizes = (first_block, start, stop, stop_tile, n_items, n_rows)
    gl.warp_specialize(
        [
            (_count, (cross.index(0), high.index(0), ring, about, sizes, block, ROWS, ITEMS, SLOTS)),
            (_count, (cross.index(1), high.index(1), ring, about, sizes, block + 1, ROWS, ITEMS, SLOTS)),
            (_fetch, (items_cross, items_high, ring, start, stop, ITEMS, SLOTS, ITEMS * D * 4)),
        ],
        [4, 1],
        [232, 24],  # registers per thread; the first group has what is left
    )


class HopperTiles:
    """Whether and how the kernel counts on a device.

    Parameters
    ----------
    rows_high, rows_cross : (n_rows, width) float16 and (n_rows, 2 width) float8, filled up to full blocks
    items_high, items_cross : the same of items
    n_items : how many of them count
    """

    # Set when the kernel was refused: it is not tried again.
    _was_refused = False

    def __init__(
        self, rows_high: Tensor, rows_cross: Tensor, items_high: Tensor, items_cross: Tensor, n_items: int
    ) -> None:
        self.width = rows_high.shape[1]
        n_rows = len(rows_high)
        self.sides = (
            _descriptor(rows_cross, n_rows, ROWS),
            _descriptor(rows_high, n_rows, ROWS),
            _descriptor(items_cross, n_items, ITEMS),
            _descriptor(items_high, n_items, ITEMS),
        )

    @classmethod
    def pay(cls, device: torch.device, n_blocks: int, n_tiles: int) -> bool:
        """Whether the kernel can be had, and there is enough to do for it."""
        is_large = n_blocks * n_tiles >= LEAST_WORK
        return is_large and hopper is not None and not cls._was_refused and has_float8(device)

    @classmethod
    def refused(cls, error: Exception) -> None:
        """Say once that the kernel cannot be compiled, and do without it from now on."""
        cls._was_refused = True
        warnings.warn(
            "the counting kernel for Hopper GPUs cannot be compiled by the installed triton "
            f"({type(error).__name__}), so a slower one counts; ranks are the same.",
            DataWarning,
            stacklevel=2,
        )

    def count(self, n_blocks: int, most_tiles: int, *arguments: Any) -> None:
        """Launch the kernel for some blocks of rows; arguments from ``target`` on as in ``_kernel``."""
        n_pairs = -(-n_blocks // 2)
        n_parts = max(1, min(most_tiles // LEAST_TILES, PROGRAMS // n_pairs))
        shape = {"D": self.width, "ROWS": ROWS, "ITEMS": ITEMS, "SLOTS": SLOTS}
        _kernel[(n_pairs, n_parts)](*self.sides, *arguments, **shape, num_warps=4)


def _descriptor(values: Tensor, n_rows: int, n_block: int) -> Any:
    """Return what the copy engine needs to know of a matrix: blocks of rows, zeros from ``n_rows`` on."""
    from triton.experimental.gluon.nvidia.hopper import (  # type: ignore[import-not-found,unused-ignore]
        TensorDescriptor,
    )

    width = values.shape[1]
    kind = gl.float16 if values.dtype.itemsize == 2 else gl.float8e4nv
    layout = gl.NVMMASharedLayout.get_default_for([n_block, width], kind)
    return TensorDescriptor(values, [n_rows, width], [width, 1], [n_block, width], layout)
