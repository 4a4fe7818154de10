"""The triton kernels that count."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.ranks.gpu.language import jit, tl


@dataclass(frozen=True)
class TileShape:
    """Rows and items that one program multiplies at a time.

    Parameters
    ----------
    rows, items : the tile
    chunk : coordinates per product
    n_warps, n_stages : how triton compiles it
    """

    rows: int
    items: int
    chunk: int
    n_warps: int
    n_stages: int

    @classmethod
    def of(cls, width: int) -> TileShape:
        """Return the fastest of those tried on an H200."""
        if width <= 64:
            return cls(128, 128, width, 4, 2)
        return cls(128, 128, width if width == 128 else 64, 8, 2)

    @property
    def options(self) -> dict[str, int]:
        """What the kernel is launched with."""
        return {
            "ROWS": self.rows,
            "ITEMS": self.items,
            "CHUNK": self.chunk,
            "num_warps": self.n_warps,
            "num_stages": self.n_stages,
        }

    @property
    def settling(self) -> dict[str, int]:
        """What the kernel for open rows is launched with; its tiles hold the same items."""
        return {
            "ROWS": 128,
            "ITEMS": self.items,
            "CHUNK": min(self.chunk, 64),
            "num_warps": 8,
            "num_stages": 2,
        }


@jit
def count_kernel(  # type: ignore[no-untyped-def]
    x_high,
    x_low,
    y_high,
    y_low,
    bias,
    scale,
    target,
    slack,
    row_bounds,
    tile_bounds,
    n_tiles,
    n_above,
    open_row,
    n_open,
    first_block,
    first_tile,
    stop_tile,
    n_items,
    capacity,
    D: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Count what is surely above the targets of a block of rows; list rows of a tile that stay open."""
    block = first_block + tl.program_id(0)
    row = block * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, CHUNK)
    length = tl.maximum(tl.minimum(tl.load(n_tiles + block), stop_tile) - first_tile, 0)
    start = first_tile + length * tl.program_id(1) // tl.num_programs(1)
    stop = first_tile + length * (tl.program_id(1) + 1) // tl.num_programs(1)

    middle = tl.load(target + row)
    absolute = tl.load(slack + row)
    a0 = tl.load(row_bounds + row * 3)
    a1 = tl.load(row_bounds + row * 3 + 1)
    a2 = tl.load(row_bounds + row * 3 + 2)
    row_scale = tl.load(scale + row)
    x_place = row[:, None] * D + k[None, :]
    if D == CHUNK:
        high = tl.load(x_high + x_place)
        low = tl.load(x_low + x_place)
    total = tl.zeros((ROWS,), tl.int32)
    wide_capacity = tl.cast(capacity, tl.int64)

    for tile in range(start, stop):
        item = tile * ITEMS + tl.arange(0, ITEMS)
        y_place = item[None, :] * D + k[:, None]
        if D == CHUNK:
            item_high = tl.load(y_high + y_place)
            item_low = tl.load(y_low + y_place)
            score = tl.dot(low, item_high)
            score = tl.dot(high, item_low, score)
            score = tl.dot(high, item_high, score)
        else:
            score = _long_scores(x_high, x_low, y_high, y_low, x_place, y_place, D, ROWS, ITEMS, CHUNK)
        if HAS_BIAS:
            score += row_scale[:, None] * tl.load(bias + item)[None, :]
        if (tile + 1) * ITEMS > n_items:
            score = tl.where((item < n_items)[None, :], score, float("-inf"))
        b0 = tl.load(tile_bounds + tile * 3)
        b1 = tl.load(tile_bounds + tile * 3 + 1)
        b2 = tl.load(tile_bounds + tile * 3 + 2)
        slope = 0.25 / (absolute + a0 * b0 + a1 * b1 + a2 * b2)
        offset = 0.5 - middle * slope
        # A product, a sum and the cut to [0, 1] in one instruction.
        share = tl.inline_asm_elementwise(
            "fma.rn.sat.f32 $0, $1, $2, $3;",
            "=f,f,f,f",
            [score, slope[:, None], offset[:, None]],
            dtype=tl.float32,
            is_pure=True,
            pack=1,
        )
        summed = tl.sum(share, 1)
        is_open = summed - tl.sum(share * share, 1) > 0.1
        total += tl.where(is_open, 0, (summed + 0.5).to(tl.int32))
        place = tl.atomic_add(n_open + tile + tl.zeros((ROWS,), tl.int32), 1, mask=is_open, sem="relaxed")
        tl.store(open_row + tile * wide_capacity + place, row, mask=is_open & (place < capacity))
    tl.atomic_add(n_above + (row - first_block * ROWS), total, sem="relaxed")


@jit
def settle_kernel(  # type: ignore[no-untyped-def]
    x_high,
    x_low,
    y_high,
    y_low,
    bias,
    scale,
    target,
    slack,
    row_bounds,
    tile_bounds,
    n_above,
    open_row,
    n_open,
    near_row,
    near_item,
    n_near,
    first_block,
    first_tile,
    n_items,
    capacity,
    near_capacity,
    D: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Count the open rows of a tile score by score; list the pairs that are too close to tell."""
    tile = first_tile + tl.program_id(0)
    n_rows = tl.minimum(tl.load(n_open + tile), capacity)
    item = tile * ITEMS + tl.arange(0, ITEMS)
    k = tl.arange(0, CHUNK)
    y_place = item[None, :] * D + k[:, None]
    is_item = (item < n_items)[None, :]
    b0 = tl.load(tile_bounds + tile * 3)
    b1 = tl.load(tile_bounds + tile * 3 + 1)
    b2 = tl.load(tile_bounds + tile * 3 + 2)
    wide_capacity = tl.cast(capacity, tl.int64)
    for first in range(tl.program_id(1) * ROWS, n_rows, tl.num_programs(1) * ROWS):
        at = first + tl.arange(0, ROWS)
        is_row = at < n_rows
        row = tl.load(open_row + tile * wide_capacity + at, mask=is_row, other=first_block * BLOCK)
        x_place = row[:, None] * D + k[None, :]
        score = _long_scores(x_high, x_low, y_high, y_low, x_place, y_place, D, ROWS, ITEMS, CHUNK)
        if HAS_BIAS:
            score += tl.load(scale + row)[:, None] * tl.load(bias + item)[None, :]
        band = tl.load(slack + row) + tl.load(row_bounds + row * 3) * b0
        band += tl.load(row_bounds + row * 3 + 1) * b1 + tl.load(row_bounds + row * 3 + 2) * b2
        gap = score - tl.load(target + row)[:, None]
        competes = is_item & is_row[:, None]
        found = tl.sum(((gap > band[:, None]) & competes).to(tl.int32), 1)
        tl.atomic_add(n_above + (row - first_block * BLOCK), found, mask=is_row, sem="relaxed")
        near = (tl.abs(gap) <= band[:, None]) & competes
        if tl.max(tl.max(near.to(tl.int32), 1), 0) > 0:
            place = tl.atomic_add(n_near + tl.zeros((ROWS, ITEMS), tl.int32), 1, mask=near, sem="relaxed")
            is_kept = near & (place < near_capacity)
            tl.store(near_row + place, tl.broadcast_to(row[:, None], (ROWS, ITEMS)), mask=is_kept)
            tl.store(near_item + place, tl.broadcast_to(item[None, :], (ROWS, ITEMS)), mask=is_kept)


@jit
def _long_scores(  # type: ignore[no-untyped-def]
    x_high,
    x_low,
    y_high,
    y_low,
    x_place,
    y_place,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    ITEMS: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Return the scores of a tile, chunk after chunk of the coordinates, the small products first."""
    score = tl.zeros((ROWS, ITEMS), tl.float32)
    for at in range(0, D, CHUNK):
        score = tl.dot(tl.load(x_low + x_place + at), tl.load(y_high + y_place + at), score)
        score = tl.dot(tl.load(x_high + x_place + at), tl.load(y_low + y_place + at), score)
    for at in range(0, D, CHUNK):
        score = tl.dot(tl.load(x_high + x_place + at), tl.load(y_high + y_place + at), score)
    return score
