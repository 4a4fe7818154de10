"""Triton kernels that count items above a target without storing scores; near ties are decided in float64.

Comparing would cost as much as multiplying, so it is done by arithmetic that runs beside it. A score s is
mapped to q = s c + e cut to [0, 1], with c and e such that q = 1/2 at the target and q = 1/4, 3/4 at the
ends of its band. The sum of q over a tile counts what is above as long as no q is fractional, and the sum
of q (1 - q) tells: it is 0.17 or more when a score lies in the band (0.03 of rounding allowed for), and below
0.1 the sum of q is within 0.12 of the count. Rows of a tile where it is larger, about one in a hundred for
Gaussian factors, are listed by tile; a second kernel goes through these lists score by score and lists the
pairs in the band, about one in twenty thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truerank.ranking.gpu.device import jit, tl
from truerank.ranking.gpu.error_bound import ItemSide, RowSide
from truerank.ranking.gpu.triton_pairs import decide_kernel, score_kernel, whole_kernel

if TYPE_CHECKING:
    from torch import Tensor


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


# Whether negatives can be sampled on the device too.
CAN_SAMPLE = True
# Open rows of tiles and undecided pairs that are listed at a time, 4 and 8 bytes each.
OPEN_ROWS = 1 << 26
NEAR_PAIRS = 1 << 25
# Up to this many multiplications float64 alone is done before anything else is prepared.
WHOLE_WORK = 1 << 32
# Programs that keep the largest GPUs busy.
PROGRAMS = 1 << 10
PAIRS_PER_PROGRAM = 128


def count_rows(
    rows: RowSide,
    items: ItemSide,
    above: Tensor,
    tied: Tensor,
    shape: TileShape | None = None,
    *,
    list_bytes: int | None = None,
) -> int:
    """Add all items to the counts of each row's pair; parameters as in ``blocks.count_rows``.

    ``list_bytes`` bounds the lists, down to those of one tile; None for 0.5 GB.
    """
    if len(rows) == 0 or len(items.code) == 0:
        return 0
    shape = shape or TileShape.of(items.high.shape[1])
    job = _Job(rows, items, shape, list_bytes)
    n_scored = (job.n_tiles.long() * shape.items).clamp(max=len(items.code))
    rest = len(items.code) - n_scored.repeat_interleave(shape.rows)[: len(rows)]
    above.index_add_(0, rows.pair, rest * (rows.target < 0))
    return job.count(0, job.n_blocks, 0, int(job.n_tiles.amax()), above, tied)


class _Job:
    """One call: padded arrays, and the lists that open rows and undecided pairs go to."""

    def __init__(self, rows: RowSide, items: ItemSide, shape: TileShape, list_bytes: int | None) -> None:
        import torch

        self.rows, self.items, self.shape = rows, items, shape
        self.n_blocks = -(-len(rows) // shape.rows)
        n_rows, n_items = self.n_blocks * shape.rows, -(-len(items.code) // shape.items) * shape.items
        scale = _padded(rows.scale, n_rows)
        self.sides = (
            _padded(rows.high, n_rows),
            _padded(rows.low, n_rows),
            _padded(items.high, n_items),
            _padded(items.low, n_items),
            scale if items.bias is None else _padded(items.bias, n_items),
            scale,
            _padded(rows.target, n_rows, float("inf")),
            _padded(rows.slack, n_rows, 1.0),
            _padded(rows.bounds.T, n_rows),
            _padded(items.bounds.T, n_items).view(-1, shape.items, 3).amax(1),
        )
        needed = _padded(rows.n_needed, n_rows).view(-1, shape.rows).amax(1)
        self.n_tiles = (needed + (shape.items - 1)).div(shape.items, rounding_mode="floor").int()
        device = rows.high.device
        n_tiles = n_items // shape.items
        open_rows, near_pairs = OPEN_ROWS, NEAR_PAIRS
        if list_bytes is not None:
            open_rows = min(open_rows, list_bytes // 8)
            near_pairs = min(near_pairs, max(shape.rows * shape.items, list_bytes // 16))
        self.capacity = min(n_rows, max(shape.rows, open_rows // n_tiles))
        self.open_row = torch.empty(n_tiles * self.capacity, dtype=torch.int32, device=device)
        self.near_capacity = min(near_pairs, max(shape.rows * shape.items, len(rows) * len(items.code)))
        self.near = torch.empty((2, self.near_capacity), dtype=torch.int32, device=device)

    def count(self, start: int, stop: int, first: int, last: int, above: Tensor, tied: Tensor) -> int:
        """Count the blocks start..stop-1 of rows against the tiles first..last-1; halve what overflows."""
        import torch

        if first == last:
            return 0
        shape, rows, items, device = self.shape, self.rows, self.items, above.device
        n_above = torch.zeros((stop - start) * shape.rows, dtype=torch.int32, device=device)
        n_open = torch.zeros(self.sides[-1].shape[0], dtype=torch.int32, device=device)
        n_near = torch.zeros(1, dtype=torch.int64, device=device)
        options = {"D": self.sides[0].shape[1], "HAS_BIAS": items.bias is not None}
        count_kernel[(stop - start, max(1, min(last - first, PROGRAMS // (stop - start))))](
            *self.sides,
            self.n_tiles,
            n_above,
            self.open_row,
            n_open,
            start,
            first,
            last,
            len(items.code),
            self.capacity,
            **options,
            **shape.options,
        )
        settle_kernel[(last - first, max(1, PROGRAMS // (last - first)))](
            *self.sides,
            n_above,
            self.open_row,
            n_open,
            *self.near,
            n_near,
            start,
            first,
            len(items.code),
            self.capacity,
            self.near_capacity,
            **options,
            BLOCK=shape.rows,
            **shape.settling,
        )
        listed = torch.stack([n_near[0], n_open.amax().long()]).tolist()
        if listed[0] > self.near_capacity or listed[1] > self.capacity:
            if stop - start > 1:
                middle = (start + stop) // 2
                parts = ((start, middle, first, last), (middle, stop, first, last))
            else:
                middle = (first + last) // 2
                parts = ((start, stop, first, middle), (start, stop, middle, last))
            return sum(self.count(*part, above, tied) for part in parts)
        mine = slice(start * shape.rows, min(stop * shape.rows, len(rows)))
        above.index_add_(0, rows.pair[mine], n_above[: mine.stop - mine.start].long())
        row, item = self.near[:, : listed[0]]
        decide(
            rows.exact,
            items.exact,
            items.exact_bias,
            rows.user[row],
            items.code[item],
            rows.pair[row],
            None,
            rows.target_score,
            above,
            tied,
            1,
        )
        return int(listed[0])


def _padded(values: Tensor, n: int, filling: float = 0) -> Tensor:
    """Return n rows, contiguous."""
    import torch

    if len(values) == n:
        return values.contiguous()
    out = torch.full((n, *values.shape[1:]), filling, dtype=values.dtype, device=values.device)
    out[: len(values)] = values
    return out


def decide(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    user: Tensor,
    code: Tensor,
    first: Tensor,
    stop: Tensor | None,
    target_score: Tensor,
    above: Tensor,
    tied: Tensor,
    sign: int,
) -> None:
    """Compare listed items with targets by the float64 sum; parameters as in ``blocks.decide``."""
    if len(user) == 0:
        return
    decide_kernel[(-(-len(user) // PAIRS_PER_PROGRAM),)](
        users,
        items,
        users if bias is None else bias,
        user,
        code,
        first,
        first if stop is None else stop,
        target_score,
        above,
        tied,
        len(user),
        users.shape[1],
        sign,
        HAS_BIAS=bias is not None,
        IS_SINGLE=stop is None,
        PAIRS=PAIRS_PER_PROGRAM,
        # A product and a sum are rounded one after the other, as on the CPU.
        enable_fp_fusion=False,
    )


def score_pairs(users: Tensor, items: Tensor, bias: Tensor | None, user: Tensor, code: Tensor) -> Tensor:
    """Return the scores of pairs as ``ranking.cpu.counts`` defines them, (n,) float64."""
    import torch

    out = torch.empty(len(user), dtype=torch.float64, device=users.device)
    if len(user):
        score_kernel[(-(-len(user) // PAIRS_PER_PROGRAM),)](
            users,
            items,
            users if bias is None else bias,
            user,
            code,
            out,
            len(user),
            users.shape[1],
            HAS_BIAS=bias is not None,
            PAIRS=PAIRS_PER_PROGRAM,
            enable_fp_fusion=False,
        )
    return out


def count_whole(
    users: Tensor,
    items: Tensor,
    bias: Tensor | None,
    user: Tensor,
    target_score: Tensor,
    above: Tensor,
    tied: Tensor,
) -> None:
    """Count all items by float64 scores alone; parameters as in ``blocks.count_whole``."""
    rows, columns = 32, 64
    whole_kernel[(-(-len(items) // columns), -(-len(user) // rows))](
        users,
        items,
        users if bias is None else bias,
        user,
        target_score,
        above,
        tied,
        len(user),
        len(items),
        users.shape[1],
        HAS_BIAS=bias is not None,
        ROWS=rows,
        ITEMS=columns,
        enable_fp_fusion=False,
    )
