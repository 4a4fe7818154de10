"""Counts of items above targets by triton kernels: how work is cut into launches, and what these share.

What the kernels do, and why nothing is miscounted, is said in ``triton_tiles``. Lists are sized after
counting what goes there, and made in parts where they would be too long, so that no product is repeated.
With little memory there are many small launches, and waiting for sizes takes as long as counting. Then
``count_ahead`` makes lists as long as fit, and tells afterwards which rows need longer ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from truerank.ranking.gpu import triton_seen
from truerank.ranking.gpu.cross import Cross
from truerank.ranking.gpu.device import Coming, EngineBytes, has_float8, interprets
from truerank.ranking.gpu.error_bound import FILL, ItemSide, RowSide
from truerank.ranking.gpu.hopper_tiles import HopperTiles
from truerank.ranking.gpu.triton_pairs import (
    decide_kernel,
    dense_kernel,
    near_kernel,
    score_kernel,
    whole_kernel,
)
from truerank.ranking.gpu.triton_split import FusedRows, prepare_fused_rows
from truerank.ranking.gpu.triton_tiles import (
    LEAST_TILES,
    PROGRAMS,
    add_kernel,
    count_kernel,
    expand_kernel,
    list_kernel,
    settle_kernel,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class TileShape:
    """Rows and items that one program multiplies at a time.

    Parameters
    ----------
    rows, items : the tile; both divide ``FILL``, which the lists and bounds are made for
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


# Whether negatives can be sampled on the device too, and rows counted without waiting.
CAN_SAMPLE = True
CAN_COUNT_AHEAD = True
# What splits items and prepares rows, and the bytes it all takes; without a limit of memory float8 takes two
# more per factor.
ROWS = FusedRows
prepare_rows = prepare_fused_rows
# What takes seen items off, and the longest lists that are read where they are.
take_off, take_off_next = triton_seen.take_off_sent, triton_seen.take_off_next
LONGEST_SEEN = 1 << 12
BYTES = EngineBytes(cell=4, item=64, row=144, seen=8, pair=32 / (21 * FILL))
# Of a limited memory for marks and lists, the parts of marks, open rows and undecided pairs.
LIST_PARTS: tuple[float, float, float] = (21, 10, 1)
# Bytes for the marks of open rows, for their list (36 each), and for that of undecided pairs (8 each).
MARK_BYTES = 1 << 29
OPEN_BYTES = 9 << 26
NEAR_BYTES = 1 << 27
BYTES_PER_OPEN, BYTES_PER_NEAR = 36, 8
# Up to this many multiplications float64 alone is done before anything else is prepared.
WHOLE_WORK = 1 << 32
# Catalogues of up to this many items are counted in float64 too, however many rows there are.
FEW_ITEMS = 256
# Rows that leave more than this share of all pairs undecided are counted in float64.
DENSE_SHARE = 1 / 32
PAIRS_PER_PROGRAM = 128
# Rows among which a program looks for open ones, and open rows that are multiplied at a time.
GROUP = 4096
SETTLED_ROWS = 128
ENTRIES = 256


def count_rows(
    rows: RowSide,
    items: ItemSide,
    above: Tensor,
    tied: Tensor,
    shape: TileShape | None = None,
    *,
    list_bytes: int | None = None,
    starts: Iterable[int] | None = None,
) -> int:
    """Add all items to the counts of each row's pair; parameters as in ``blocks.count_rows``.

    ``list_bytes`` bounds marks and lists, down to those of 128 rows and a tile; None for 0.6 GB. ``starts``
    are the steps to count, None for all.
    """
    if len(rows) == 0 or items.n_items == 0:
        return 0
    job = _Job(rows, items, above, tied, shape or TileShape.of(items.high.shape[1]), list_bytes)
    return sum(job.count(start) for start in (job.starts if starts is None else starts))


def count_ahead(rows: RowSide, items: ItemSide, above: Tensor, tied: Tensor, list_bytes: int) -> CountedAhead:
    """Begin to do what ``count_rows`` does, and return without waiting for the device."""
    import torch

    if len(rows) == 0 or items.n_items == 0:
        return CountedAhead(range(0), Coming(torch.zeros(0, dtype=torch.int64)))
    job = _Job(rows, items, above, tied, TileShape.of(items.high.shape[1]), list_bytes)
    n_decided = torch.empty(len(job.starts), dtype=torch.int64, device=above.device)
    for number, start in enumerate(job.starts):
        job.count_ahead(start, n_decided[number : number + 1])
    return CountedAhead(job.starts, Coming(n_decided))


@dataclass(frozen=True, eq=False)
class CountedAhead:
    """What ``count_ahead`` has begun.

    Parameters
    ----------
    starts : the steps
    n_decided : (n_steps,) int64, the pairs that float64 decides; -1 for a step that has added nothing,
        because its lists were too short
    """

    starts: range
    n_decided: Coming

    def wait(self) -> tuple[int, list[int]]:
        """Return how many pairs float64 decided, and the steps that ``count_rows`` is left with."""
        found = self.n_decided.wait().tolist()
        left = [start for start, n in zip(self.starts, found, strict=True) if n < 0]
        return sum(n for n in found if n > 0), left


class _Job:
    """One call: blocks of rows are counted ``step`` at a time, and share marks and lists."""

    def __init__(
        self,
        rows: RowSide,
        items: ItemSide,
        above: Tensor,
        tied: Tensor,
        shape: TileShape,
        list_bytes: int | None,
    ) -> None:
        import torch

        self.rows, self.items, self.shape, self.above, self.tied = rows, items, shape, above, tied
        device, width = rows.high.device, rows.high.shape[1]
        self.n_blocks = len(rows) // shape.rows
        nothing = rows.scale
        bias = nothing if items.bias is None else items.bias
        self.sides = (rows.high, rows.low, items.high, items.low, bias, rows.scale, rows.target, rows.slack)
        # Not with weights or little memory: more registers, or more small launches, cost more than it gains.
        is_plain = width == shape.chunk <= 64 and items.weight is None and list_bytes is None
        self.in_float8 = is_plain and has_float8(device)
        self.tile_bounds = items.cached("tile bounds", lambda: _of_tiles(items.bounds))
        self.crossed = self._crossed()
        self.hopper: HopperTiles | None = None
        self.weight = nothing if items.weight is None else items.weight
        self.options: dict[str, Any] = {
            "D": width,
            "HAS_BIAS": items.bias is not None,
            "HAS_WEIGHT": items.weight is not None,
        }
        needed = rows.n_needed.view(-1, shape.rows).amax(1)
        self.n_tiles = (needed + (shape.items - 1)).div(shape.items, rounding_mode="floor").int()
        # With little memory there are many small jobs, and not to wait is worth more than short marks.
        is_waited_for = list_bytes is None
        self.most_tiles = max(1, int(self.n_tiles.amax()) if is_waited_for else len(items.tile_norm))
        marks, opened, near = MARK_BYTES, OPEN_BYTES, NEAR_BYTES
        if list_bytes is not None:
            marks, opened, near = (int(part * list_bytes) // 32 for part in LIST_PARTS)
        self.step = max(1, min(self.n_blocks, marks // (self.most_tiles * shape.rows)))
        self.starts = range(0, self.n_blocks, self.step)
        self.marks = torch.empty(self.most_tiles * self.step * shape.rows, dtype=torch.int8, device=device)
        is_plain = self.in_float8 and items.bias is None and rows.is_exact is None
        if is_plain and HopperTiles.pay(device, self.n_blocks, self.most_tiles):
            crossed = self.crossed[:2]
            self.hopper = HopperTiles(rows.high, crossed[0], items.high, crossed[1], items.n_items)
        n_open, n_near = max(1, opened // BYTES_PER_OPEN), max(1, near // BYTES_PER_NEAR)
        # Rows, tiles, and how many undecided pairs they have.
        self.open = torch.empty((3, n_open), dtype=torch.int32, device=device).unbind()
        self.near_words = torch.empty((n_open, shape.items // 32), dtype=torch.int32, device=device)
        self.near = torch.empty((2, n_near), dtype=torch.int32, device=device)

    def _crossed(self) -> tuple[Tensor, ...]:
        """Return cross products' factors and the bounds that go with them, or with float16 products."""
        rows, items = self.rows, self.items
        if not self.in_float8:
            return rows.high, items.high, rows.bounds, self.tile_bounds
        of_rows = Cross.of_rows(rows, rows.exact.shape[1])
        of_items = items.cached("cross", lambda: Cross.of_items(items, rows.exact.shape[1]))
        tiles = items.cached("cross bounds", lambda: _of_tiles(of_items.bounds))
        return of_rows.values, of_items.values, of_rows.bounds.T.contiguous(), tiles

    def count(self, start: int) -> int:
        """Count ``step`` blocks of rows; return how many pairs float64 decided."""
        n_blocks, n_rows, counts = self._counted_tiles(start)
        n_decided = self._settle(start, n_rows, counts[2])
        if n_decided is None:
            counts.zero_()
            first = start * self.shape.rows
            n_decided = self._count_densely(slice(first, first + n_rows))
        self._add(start, n_blocks, counts, None)
        return n_decided

    def count_ahead(self, start: int, n_decided: Tensor) -> None:
        """Count ``step`` blocks of rows without waiting; write how many pairs float64 decides, or -1."""
        n_blocks, n_rows, counts = self._counted_tiles(start)
        n_open, n_entries = self._count_open(start, n_rows), len(self.open[0])
        ends = n_open.cumsum(0)
        self._list(start, n_rows, n_open, ends, 0, n_entries)
        self.open[2].zero_()  # beyond the listed rows nothing is written
        near_ends = self._settle_listed(start, n_rows, ends, counts[2], (0, n_entries))
        # Marks are not needed any more; where their place holds more pairs than the list, it is the list.
        near = self.near
        if self.marks.numel() > 8 * near.shape[1]:
            near = self.marks.view(near.dtype)[: self.marks.numel() // 8 * 2].view(2, -1)
        self._expand(start, n_entries, near_ends, near, (0, near.shape[1]), ends[-1:], n_decided)
        self._compare(near, near.shape[1], n_decided)
        self._add(start, n_blocks, counts, n_decided)

    def _counted_tiles(self, start: int) -> tuple[int, int, Tensor]:
        """Return how many blocks and rows a step has, and their counts: above, tied, and of open rows (0)."""
        import torch

        n_blocks = min(self.step, self.n_blocks - start)
        n_rows = n_blocks * self.shape.rows
        counts = torch.zeros((3, n_rows), dtype=torch.int32, device=self.above.device)
        self._count_tiles(start, n_blocks, n_rows, counts[:2])
        return n_blocks, n_rows, counts

    def _add(self, start: int, n_blocks: int, counts: Tensor, n_decided: Tensor | None) -> None:
        """Add the counts of a step to those of the pairs, unless it turned out that lists were too short."""
        shape, rows, items = self.shape, self.rows, self.items
        add_kernel[(n_blocks,)](
            *counts,
            rows.pair,
            rows.target,
            self.n_tiles,
            rows.pair
            if items.weight is None
            else items.cached("weight before", lambda: _weight_before(items)),
            self.above,
            self.tied,
            counts if n_decided is None else n_decided,
            start,
            len(self.tied),
            items.n_items,
            items.n_tied_with_zeros,
            HAS_WEIGHT=items.weight is not None,
            HAS_EXACT=rows.is_exact is not None,
            IS_AHEAD=n_decided is not None,
            BLOCK=shape.rows,
            TILE=shape.items,
        )

    def _count_tiles(self, start: int, n_blocks: int, n_rows: int, counts: Tensor) -> None:
        """Count what is surely above and tied, and mark open rows, by the faster of two kernels."""
        rows, items, shape = self.rows, self.items, self.shape
        sizes = (start, self.most_tiles, items.n_items, n_rows)
        if self.hopper is not None:
            bounds = (rows.target, rows.slack, *self.crossed[2:], self.n_tiles)
            try:
                self.hopper.count(n_blocks, self.most_tiles, *bounds, counts[0], self.marks, *sizes)
            except Exception as error:  # whatever a version of an experimental language objects to
                HopperTiles.refused(error)
                self.hopper = None
            else:
                return
        n_parts = max(1, min(self.most_tiles // LEAST_TILES, PROGRAMS // n_blocks))
        count_kernel[(n_blocks, n_parts)](
            *self.sides,
            *self.crossed,
            self.weight,
            rows.scale if rows.is_exact is None else rows.is_exact,
            self.n_tiles,
            *counts,
            self.marks,
            *sizes,
            **self.options,
            HAS_EXACT=rows.is_exact is not None,
            HAS_ASM=not interprets(),
            IN_FLOAT8=self.in_float8,
            **{**shape.options, **({"num_warps": 8} if self.in_float8 else {})},
        )

    def _settle(self, start: int, n_rows: int, counts: Tensor) -> int | None:
        """Count the open rows; return how many pairs float64 decided, None for more than it should."""
        n_open = self._count_open(start, n_rows)
        ends = n_open.cumsum(0)
        n_listed, capacity, n_decided = int(ends[-1]), len(self.open[0]), 0
        for first in range(0, n_listed, capacity):
            stop = min(first + capacity, n_listed)
            self._list(start, n_rows, n_open, ends, first, stop)
            near_ends = self._settle_listed(start, n_rows, ends, counts, (first, stop))
            n_near = int(near_ends[-1])
            if first == 0 and n_near > DENSE_SHARE * n_rows * self.items.n_items:
                return None
            self._decide_near(start, stop - first, near_ends, n_near)
            n_decided += n_near
        return n_decided

    def _count_open(self, start: int, n_rows: int) -> Tensor:
        """Return how many open rows each tile and group of rows has."""
        import torch

        n_groups = -(-n_rows // GROUP)
        n_open = torch.empty(self.most_tiles * n_groups, dtype=torch.int64, device=self.above.device)
        self._list(start, n_rows, n_open, n_open, 0, 0)
        return n_open

    def _list(self, start: int, n_rows: int, n_open: Tensor, ends: Tensor, first: int, stop: int) -> None:
        """Count open rows per tile and group or, where ends differ from counts, list some of them."""
        import torch

        list_kernel[(len(n_open),)](
            self.marks.view(torch.int64),
            self.n_tiles,
            n_open,
            ends,
            *self.open[:2],
            start,
            first,
            stop,
            -(-n_rows // GROUP),
            n_rows,
            WRITES=ends is not n_open,
            GROUP=GROUP,
            BLOCK=self.shape.rows,
        )

    def _settle_listed(
        self, start: int, n_rows: int, ends: Tensor, counts: Tensor, part: tuple[int, int]
    ) -> Tensor:
        """Count the listed open rows and mark undecided pairs; return how many there are up to each row."""
        rows, items, shape = self.rows, self.items, self.shape
        settle_kernel[(self.most_tiles, max(1, min(64, 2048 // self.most_tiles)))](
            *self.sides,
            rows.bounds,
            self.tile_bounds,
            self.weight,
            counts,
            ends,
            self.open[0],
            self.near_words,
            self.open[2],
            start,
            *part,
            -(-n_rows // GROUP),
            items.n_items,
            **self.options,
            BLOCK=shape.rows,
            ROWS=SETTLED_ROWS,
            ITEMS=shape.items,
            CHUNK=min(self.options["D"], 64),
            num_warps=8,
            num_stages=1,
            maxnreg=128,
        )
        return self.open[2][: part[1] - part[0]].cumsum(0)

    def _decide_near(self, start: int, n_listed: int, near_ends: Tensor, n_near: int) -> None:
        """Compare the marked pairs by the float64 sum, as many at a time as can be listed."""
        capacity = self.near.shape[1]
        for first in range(0, n_near, capacity):
            stop = min(first + capacity, n_near)
            self._expand(start, n_listed, near_ends, self.near, (first, stop), near_ends, None)
            self._compare(self.near, stop - first, None)

    def _expand(
        self,
        start: int,
        n_listed: int,
        near_ends: Tensor,
        near: Tensor,
        part: tuple[int, int],
        n_open: Tensor,
        n_decided: Tensor | None,
    ) -> None:
        """List a part of the marked pairs."""
        expand_kernel[(-(-n_listed // ENTRIES),)](
            self.near_words,
            self.open[2],
            near_ends,
            *self.open[:2],
            *near,
            n_open,
            n_open if n_decided is None else n_decided,
            start,
            n_listed,
            *part,
            IS_AHEAD=n_decided is not None,
            BLOCK=self.shape.rows,
            ITEMS=self.shape.items,
            ENTRIES=ENTRIES,
        )

    def _compare(self, near: Tensor, n_near: int, n_decided: Tensor | None) -> None:
        """Compare listed pairs: so many, or at most so many where their number is on the device."""
        rows, items = self.rows, self.items
        near_kernel[(-(-n_near // PAIRS_PER_PROGRAM),)](
            rows.exact,
            items.exact,
            rows.exact if items.exact_bias is None else items.exact_bias,
            *near,
            rows.user,
            rows.pair,
            items.code,
            self.weight,
            rows.target_score,
            self.above,
            self.tied,
            near if n_decided is None else n_decided,
            n_near,
            rows.exact.shape[1],
            HAS_BIAS=items.exact_bias is not None,
            HAS_WEIGHT=items.weight is not None,
            IS_AHEAD=n_decided is not None,
            PAIRS=PAIRS_PER_PROGRAM,
            # A product and a sum are rounded one after the other, as on the CPU.
            enable_fp_fusion=False,
        )

    def _count_densely(self, mine: slice) -> int:
        """Count some rows by float64 scores alone; return how many there were."""
        rows, items = self.rows, self.items
        n_rows, (of_rows, of_items) = mine.stop - mine.start, (32, 64)
        dense_kernel[(-(-n_rows // of_rows) * -(-items.n_items // of_items),)](
            rows.exact,
            items.exact,
            rows.exact if items.exact_bias is None else items.exact_bias,
            rows.user[mine],
            rows.pair[mine],
            rows.target[mine],
            self.n_tiles[mine.start // self.shape.rows :],
            items.code,
            self.weight,
            rows.target_score,
            self.above,
            self.tied,
            n_rows,
            items.n_items,
            rows.exact.shape[1],
            HAS_BIAS=items.exact_bias is not None,
            HAS_WEIGHT=items.weight is not None,
            BLOCK=self.shape.rows,
            TILE=self.shape.items,
            ROWS=of_rows,
            ITEMS=of_items,
            enable_fp_fusion=False,
        )
        return int(n_rows * items.n_items)


def _of_tiles(bounds: Tensor) -> Tensor:
    """Return the largest bounds of each ``FILL`` items, four numbers per tile."""
    import torch

    tiles = torch.zeros((bounds.shape[1] // FILL, 4), dtype=torch.float32, device=bounds.device)
    tiles[:, : len(bounds)] = bounds.view(len(bounds), -1, FILL).amax(2).T
    return tiles


def _weight_before(items: ItemSide) -> Tensor:
    """Return how many items the items before each one stand for, and all of them, (n_items + 1,) int64."""
    import torch

    assert items.weight is not None  # noqa: S101 - asked for where there are weights
    weight = items.weight[: items.n_items].long()
    return torch.cat([weight[:1] * 0, weight.cumsum(0)])


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
    whole_kernel[(-(-len(items) // columns) * -(-len(user) // rows),)](
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
