"""Preparation of rows and items by triton kernels: norms, float16 halves, error bounds.

``halves.ScaledRows`` and ``error_bound.RowSide.prepare`` do the same in torch, in many passes and launches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truerank.ranking.gpu.device import jit, tl, to_device
from truerank.ranking.gpu.error_bound import (
    FILL,
    LIFT,
    ItemSide,
    RowSide,
    along_centre,
    centre_norm,
    filled,
    rounding,
    sum_block,
)
from truerank.ranking.gpu.halves import FINEST, ROW_TOP, TOP, Halves, ScaledRows, odd_numbers

if TYPE_CHECKING:
    from torch import Tensor

# Rows and columns that a program reads at a time.
SPLIT_ROWS = 16
SPLIT_COLUMNS = 128


@jit()
def _power_of_two(exponent):  # type: ignore[no-untyped-def]
    """Return 2^exponent as float64, for exponents of normal numbers."""
    return ((exponent + 1023) << 52).to(tl.float64, bitcast=True)


@jit("n_rows", "n_coordinates", "width")
def split_kernel(  # type: ignore[no-untyped-def]
    factors,
    index,
    exponent,
    centre,
    high_out,
    low_out,
    squares,
    n_rows,
    n_coordinates,
    width,
    HAS_CENTRE: tl.constexpr,
    WRITES: tl.constexpr,
    LOWEST: tl.constexpr,
    UNIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write halves and squared norms of rows, of low halves and of rests; without WRITES the first alone."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n_rows
    source = factors + tl.load(index + row, mask=is_row, other=0) * n_coordinates
    raised = tl.load(exponent + row, mask=is_row, other=0)
    quarter = raised >> 2
    step = _power_of_two(quarter)[:, None]
    last = _power_of_two(raised - 3 * quarter)[:, None]
    whole_square = tl.zeros((ROWS,), tl.float64)
    low_square = tl.zeros((ROWS,), tl.float64)
    rest_square = tl.zeros((ROWS,), tl.float64)
    lowest = tl.full((ROWS,), LOWEST, tl.int32)
    is_whole = tl.full((ROWS,), 1, tl.int32)
    for start in range(0, width, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        is_real = is_row[:, None] & (k < n_coordinates)[None, :]
        x = tl.load(source[:, None] + k[None, :], mask=is_real, other=0).to(tl.float64)
        if HAS_CENTRE:
            x -= tl.load(centre + k, mask=k < n_coordinates, other=0)[None, :]
        x = tl.where(is_real, x * step * step * step * last, 0.0)
        whole_square += tl.sum(x * x, 1)
        if WRITES:
            units = (x * (1.0 / UNIT)).to(tl.int32)
            is_same = (units.to(tl.float64) * UNIT == x).to(tl.int32)
            is_whole = tl.minimum(is_whole, tl.min(is_same, 1))
            lowest = tl.minimum(lowest, tl.min(tl.where(units == 0, LOWEST, units & (-units)), 1))
            high = x.to(tl.float32).to(tl.float16)
            x -= high.to(tl.float64)
            low = x.to(tl.float32).to(tl.float16)
            small = low.to(tl.float64)
            x -= small
            low_square += tl.sum(small * small, 1)
            rest_square += tl.sum(x * x, 1)
            place = row[:, None] * width + k[None, :]
            is_inside = is_row[:, None] & (k < width)[None, :]
            tl.store(high_out + place, high, mask=is_inside)
            tl.store(low_out + place, low, mask=is_inside)
    tl.store(squares + row, whole_square, mask=is_row)
    if WRITES:
        tl.store(squares + n_rows + row, low_square, mask=is_row)
        tl.store(squares + 2 * n_rows + row, rest_square, mask=is_row)
        tl.store(squares + 3 * n_rows + row, (lowest * is_whole).to(tl.float64) * UNIT, mask=is_row)


@jit("n_pairs", "n_coordinates", "item_exponent")
def measure_kernel(  # type: ignore[no-untyped-def]
    users,
    user_of,
    target_score,
    along,
    exponent_out,
    middle_out,
    ratio_out,
    n_pairs,
    n_coordinates,
    item_exponent,
    HAS_CENTRE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROW_TOP: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write, for each pair, what its user is scaled by, the target's score and its ratio to the norm."""
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_real = at < n_pairs
    user = tl.load(user_of + at, mask=is_real, other=0)
    source = users + user * n_coordinates
    largest = tl.zeros((ROWS,), tl.float64)
    for start in range(0, n_coordinates, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        is_inside = is_real[:, None] & (k < n_coordinates)[None, :]
        x = tl.load(source[:, None] + k[None, :], mask=is_inside, other=0).to(tl.float64)
        largest = tl.maximum(largest, tl.max(tl.abs(x), 1))
    if HAS_BIAS:
        largest = tl.maximum(largest, 1.0)
    # The exponent of a float64 number stands in eleven of its bits; those below 2^-900 are raised first.
    is_tiny = largest < 2.0**-900
    bits = tl.where(is_tiny, largest * 2.0**100 * 2.0**100, largest).to(tl.int64, bitcast=True)
    raised = (bits >> 52) - 1022 - tl.where(is_tiny, 200, 0)
    exponent = tl.where(largest == 0.0, 0, ROW_TOP - raised)
    quarter = exponent >> 2
    step = _power_of_two(quarter)[:, None]
    last = _power_of_two(exponent - 3 * quarter)[:, None]
    square = tl.zeros((ROWS,), tl.float64)
    for start in range(0, n_coordinates, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        is_inside = is_real[:, None] & (k < n_coordinates)[None, :]
        x = tl.load(source[:, None] + k[None, :], mask=is_inside, other=0).to(tl.float64)
        x = x * step * step * step * last
        square += tl.sum(x * x, 1)
    if HAS_BIAS:
        extra = _power_of_two(exponent)
        square += extra * extra
    score = tl.load(target_score + at, mask=is_real, other=0.0)
    if HAS_CENTRE:
        score -= tl.load(along + user, mask=is_real, other=0.0)
    shift = exponent + item_exponent
    quarter = shift >> 2
    step = _power_of_two(quarter)
    middle = score * step * step * step * _power_of_two(shift - 3 * quarter)
    ratio = tl.where(
        square > 0.0, tl.abs(middle) / tl.sqrt(tl.where(square > 0.0, square, 1.0)), float("inf")
    )
    tl.store(exponent_out + at, exponent, mask=is_real)
    tl.store(middle_out + at, middle, mask=is_real)
    tl.store(ratio_out + at, ratio.to(tl.float32), mask=is_real)


@jit("n", "n_rows", "n_tiles", "n_items", "n_coordinates", "item_exponent")
def bound_kernel(  # type: ignore[no-untyped-def]
    order,
    exponent,
    middle,
    squares,
    tile_norm,
    constants,
    scale_out,
    target_out,
    slack_out,
    norms_out,
    bounds_out,
    is_exact_out,
    needed_out,
    n,
    n_rows,
    n_tiles,
    n_items,
    n_coordinates,
    item_exponent,
    HAS_BIAS: tl.constexpr,
    HAS_MULTIPLE: tl.constexpr,
    LIFT: tl.constexpr,
    STEPS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write norms, bounds, targets and needed items of sorted rows, from their squared norms.

    Constants that float32 cannot hold are read from memory: c, the norm of the centre, and the power of two
    of which all items are multiples.
    """
    at = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # ROWS divides n
    pair = tl.load(order + at)
    raised = tl.load(exponent + at)
    score = tl.load(middle + pair)
    square = tl.load(squares + at)
    low_square = tl.load(squares + n + at)
    rest_square = tl.load(squares + 2 * n + at)
    multiple = tl.load(squares + 3 * n + at)
    multiple = tl.where((low_square == 0.0) & (rest_square == 0.0), multiple, 0.0)
    is_idle = (square == 0.0) | (at >= n_rows)
    scale = tl.zeros((ROWS,), tl.float32)
    if HAS_BIAS:
        extra = _power_of_two(raised)
        scale = extra.to(tl.float32)
        off = extra - scale.to(tl.float64)
        square += extra * extra
        rest_square += off * off
        is_idle = at >= n_rows
    whole = tl.sqrt(square)
    whole += whole * 2.0**-40
    low_norm = tl.sqrt(low_square)
    low_norm += low_norm * 2.0**-40
    rest_norm = tl.sqrt(rest_square)
    rest_norm += rest_norm * 2.0**-40
    norm = whole + low_norm + rest_norm
    c = tl.load(constants)
    width = n_coordinates.to(tl.float64)
    sunk = tl.minimum(tl.maximum(raised + item_exponent - 1074, -1000), 1000)
    lost = 2.0 * width * _power_of_two(sunk) + (width + 4.0) * 2.0**-51 * norm * tl.load(constants + 1)
    slack = (2.0**-20 * tl.abs(score) + width * 2.0**-60 + lost) * LIFT
    own = rest_norm + 3.0 * c * low_norm

    # Tiles of items whose norm can reach the target's score; norms descend.
    least = (tl.abs(score) * (1.0 - 2.0**-19) - lost) / tl.where(norm == 0.0, 1.0, norm)
    below = tl.zeros((ROWS,), tl.int64)
    end = below + n_tiles
    for _ in range(STEPS):
        place = (below + end) // 2
        reaches = tl.load(tile_norm + place, mask=below < end, other=0.0) >= least
        below = tl.where((below < end) & reaches, place + 1, below)
        end = tl.where((below < end) & (reaches == 0), place, end)
    needed = tl.minimum(below * 128, n_items)

    keeps = tl.full((ROWS,), 1.0, tl.float64)
    if HAS_MULTIPLE:
        unit = multiple * tl.load(constants + 2)
        is_exact = (norm * tl.load(tile_norm) < 4194304.0 * unit) & (lost < unit)
        slack = tl.where(is_exact, unit * 0.25, slack)
        keeps = tl.where(is_exact, 0.0, 1.0)
        tl.store(is_exact_out + at, is_exact.to(tl.int8))
    tl.store(scale_out + at, scale)
    tl.store(target_out + at, tl.where(is_idle, float("inf"), score.to(tl.float32)))
    tl.store(slack_out + at, slack.to(tl.float32))
    tl.store(norms_out + at, norm)
    tl.store(norms_out + n + at, low_norm)
    tl.store(norms_out + 2 * n + at, rest_norm)
    tl.store(bounds_out + at * 4, (keeps * norm * LIFT).to(tl.float32))
    tl.store(bounds_out + at * 4 + 1, (keeps * own * LIFT).to(tl.float32))
    tl.store(bounds_out + at * 4 + 2, (keeps * low_norm * LIFT).to(tl.float32))
    tl.store(bounds_out + at * 4 + 3, tl.zeros((ROWS,), tl.float32))
    tl.store(needed_out + at, tl.where(is_idle | (norm == 0.0), 0, needed))


@jit("n_rows", "n_coordinates")
def hash_kernel(  # type: ignore[no-untyped-def]
    factors,
    extra,
    odd,
    out,
    n_rows,
    n_coordinates,
    HAS_EXTRA: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write a number per row that equal rows share; 0 and -0 are equal."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    is_row = row < n_rows
    key = tl.zeros((ROWS,), tl.int64)
    for start in range(0, n_coordinates, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        is_inside = is_row[:, None] & (k < n_coordinates)[None, :]
        x = tl.load(factors + row[:, None] * n_coordinates + k[None, :], mask=is_inside, other=0).to(
            tl.float64
        )
        bits = tl.where(x == 0.0, 0.0, x).to(tl.int64, bitcast=True)
        bits = bits ^ (bits >> 32)
        key += tl.sum(bits * tl.load(odd + k, mask=k < n_coordinates, other=0)[None, :], 1)
    if HAS_EXTRA:
        x = tl.load(extra + row, mask=is_row, other=0.0)
        key += tl.where(x == 0.0, 0.0, x).to(tl.int64, bitcast=True) * tl.load(odd + n_coordinates)
    tl.store(out + row, key ^ (key >> 29), mask=is_row)


class FusedRows(ScaledRows):
    """Rows that kernels measure and split; parameters as in ``ScaledRows``."""

    @classmethod
    def hashes(cls, factors: Tensor, extra: Tensor | None) -> Tensor:
        """Return a 64-bit number per row that rows of equal factors (and extra coordinate) share."""
        import torch

        n, d = factors.shape
        key = torch.empty(n, dtype=torch.int64, device=factors.device)
        hash_kernel[(-(-n // SPLIT_ROWS),)](
            factors,
            key if extra is None else extra,
            odd_numbers(d + 1, factors.device),
            key,
            n,
            d,
            HAS_EXTRA=extra is not None,
            ROWS=SPLIT_ROWS,
            COLUMNS=_columns(d),
        )
        return key

    def norms(self) -> Tensor:
        """Return the norms, (n,) float64, up to rounding."""
        import torch

        squares = torch.empty((1, len(self.index)), dtype=torch.float64, device=self.factors.device)
        self.launch(squares, squares, squares, self.factors.shape[1], writes=False)
        norm = squares[0].sqrt_()
        return norm if self.extra is None else torch.hypot(norm, self.extra)

    def split(self, width: int) -> Halves:
        """Split the rows into halves of ``width`` columns, at least d."""
        import torch

        n, device = len(self.index), self.factors.device
        high, low = torch.empty((2, n, width), dtype=torch.float16, device=device)
        squares = torch.empty((4, n), dtype=torch.float64, device=device)
        self.launch(high, low, squares, width, writes=True)
        return self.halves(high, low, squares)

    def launch(self, high: Tensor, low: Tensor, squares: Tensor, width: int, *, writes: bool) -> None:
        """Write halves and squared norms, or squared norms alone."""
        if not len(self.index):
            return
        split_kernel[(-(-len(self.index) // SPLIT_ROWS),)](
            self.factors,
            self.index,
            self.exponent,
            squares if self.centre is None else self.centre,
            high,
            low,
            squares,
            len(self.index),
            self.factors.shape[1],
            width,
            HAS_CENTRE=self.centre is not None,
            WRITES=writes,
            LOWEST=1 << (TOP - FINEST),
            UNIT=2.0**FINEST,
            ROWS=SPLIT_ROWS,
            COLUMNS=_columns(width),
            enable_fp_fusion=False,
        )


def prepare_fused_rows(
    exact: Tensor, user: Tensor, target_score: Tensor, item: ItemSide, order: Tensor | None = None
) -> RowSide:
    """Return what ``RowSide.prepare`` does, in two kernels and a sort."""
    import torch

    n_pairs, d, device = len(user), exact.shape[1], exact.device
    exponent = torch.empty(n_pairs, dtype=torch.int64, device=device)
    middle = torch.empty(n_pairs, dtype=torch.float64, device=device)
    ratio = torch.empty(n_pairs, dtype=torch.float32, device=device)
    constants = item.cached("constants", lambda: _constants(item, d))
    measure_kernel[(-(-n_pairs // SPLIT_ROWS),)](
        exact,
        user,
        target_score,
        middle if item.centre is None else along_centre(exact, item),
        exponent,
        middle,
        ratio,
        n_pairs,
        d,
        item.exponent,
        HAS_CENTRE=item.centre is not None,
        HAS_BIAS=item.bias is not None,
        ROW_TOP=ROW_TOP,
        ROWS=SPLIT_ROWS,
        COLUMNS=_columns(d),
        enable_fp_fusion=False,
    )
    if order is None:
        order = filled(torch.argsort(ratio, stable=True), FILL)
    n, width = len(order), item.high.shape[1]
    owner, raised = user[order], exponent[order]
    high, low = torch.empty((2, n, width), dtype=torch.float16, device=device)
    squares = torch.empty((4, n), dtype=torch.float64, device=device)
    FusedRows(exact, owner, raised).launch(high, low, squares, width, writes=True)
    scale, target, slack = torch.empty((3, n), dtype=torch.float32, device=device)
    bounds = torch.empty((n, 4), dtype=torch.float32, device=device)
    norms = torch.empty((3, n), dtype=torch.float64, device=device)
    is_exact = torch.empty(n, dtype=torch.int8, device=device)
    needed = torch.empty(n, dtype=torch.int64, device=device)
    bound_kernel[(n // FILL,)](
        order,
        raised,
        middle,
        squares,
        item.tile_norm,
        constants,
        scale,
        target,
        slack,
        norms,
        bounds,
        is_exact,
        needed,
        n,
        n_pairs,
        len(item.tile_norm),
        item.n_items,
        d,
        item.exponent,
        HAS_BIAS=item.bias is not None,
        HAS_MULTIPLE=item.multiple != 0,
        LIFT=LIFT,
        STEPS=max(1, len(item.tile_norm).bit_length()),
        ROWS=FILL,
        enable_fp_fusion=False,
    )
    has_exact = item.multiple != 0 and bool(is_exact.any())
    return RowSide(
        high,
        low,
        scale,
        target,
        slack,
        norms,
        bounds,
        is_exact if has_exact else None,
        needed,
        owner,
        order,
        target_score,
        exact,
    )


def _columns(width: int) -> int:
    """Return how many columns a program reads at a time."""
    return min(SPLIT_COLUMNS, max(16, 1 << (width - 1).bit_length()))


def _constants(item: ItemSide, d: int) -> Tensor:
    """Return the constants of ``bound_kernel``."""
    found = [rounding(d, sum_block(item.exact.device)), centre_norm(item), item.multiple]
    return to_device(np.array(found), item.exact.device)
