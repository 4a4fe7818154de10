"""Counting in triton kernels that store no score; what they cannot decide is listed and decided in float64.

Comparing would cost as much as multiplying, so it is done by arithmetic that runs beside it. A score s is
mapped to q = s c + e cut to [0, 1], with c and e such that q = 1/2 at the target and q = 1/4, 3/4 at the
ends of its band. The sum of q over a tile counts what is above as long as no q is fractional, and the sum
of q (1 - q) tells: it is 0.17 or more when a score lies in the band (0.03 of rounding allowed for), and below
0.1 the sum of q is within 0.12 of the count. Rows of a tile where it is larger, about one in a hundred for
Gaussian factors, are listed by tile; a second kernel goes through these lists score by score and lists the
pairs in the band, about one in twenty thousand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerank.ranks.gpu.band import ItemSide, RowSide
from truerank.ranks.gpu.kernel import TileShape, count_kernel, settle_kernel
from truerank.ranks.gpu.pair_kernel import decide_kernel, score_kernel, whole_kernel

if TYPE_CHECKING:
    from torch import Tensor

# Whether ``growing`` can draw here too.
DRAWS = True
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
    """Return the scores of pairs as ``kernels.pair_score`` defines them, (n,) float64."""
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
