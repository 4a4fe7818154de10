"""Splitting of rows into halves in one pass over the factors, by a triton kernel.

``error_bound.ScaledRows`` does the same in torch, in many passes and with copies in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerank.ranking.gpu.device import jit, tl
from truerank.ranking.gpu.error_bound import FINEST, TOP, Halves, ScaledRows

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


class FusedRows(ScaledRows):
    """Rows that a kernel splits; parameters as in ``ScaledRows``."""

    def norms(self) -> Tensor:
        """Return the norms, (n,) float64, up to rounding."""
        import torch

        squares = torch.empty((1, len(self.index)), dtype=torch.float64, device=self.factors.device)
        self._launch(squares, squares, squares, self.factors.shape[1], writes=False)
        norm = squares[0].sqrt_()
        return norm if self.extra is None else torch.hypot(norm, self.extra)

    def split(self, width: int) -> Halves:
        """Split the rows into halves of ``width`` columns, at least d."""
        import torch

        n, device = len(self.index), self.factors.device
        high, low = torch.empty((2, n, width), dtype=torch.float16, device=device)
        squares = torch.empty((4, n), dtype=torch.float64, device=device)
        self._launch(high, low, squares, width, writes=True)
        return self.halves(high, low, squares)

    def _launch(self, high: Tensor, low: Tensor, squares: Tensor, width: int, *, writes: bool) -> None:
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
            COLUMNS=min(SPLIT_COLUMNS, max(16, 1 << (width - 1).bit_length())),
            enable_fp_fusion=False,
        )
