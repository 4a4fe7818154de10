"""Cross products in float8: two of the three products of halves at twice the speed, with their own error.

The products l_x h_y and h_x l_y of ``error_bound`` are 2^-11 of the score, so four bits of each factor leave
an error of about 2^-16. Rows are scaled to [2^12, 2^13) and items to [2^14, 2^15), so that with L = l 2^7,
H = h 2^-5 (rows) and H = h 2^-7, L = l 2^5 (items) all magnitudes end at 256 (float8, e4m3, ends at 448)
and the scales cancel. Let a prime mean rounded to float8. One product of twice the width sums
L'_x H'_y + H'_x L'_y; then h_x h_y is added in float16 as before. To the error of ``error_bound`` come

* rounding:  l_x (h_y - h'_y) + (l_x - l'_x) h'_y + (h_x - h'_x) l_y + h'_x (l_y - l'_y), by norms that are
             measured; |h'| <= 1.07 |h|, because float8 rounds by at most 1/16
* summing:   matrix units add float8 products in blocks of b >= 16 and keep fewer bits. What is assumed: each
             of the b + 1 addends of a block loses less than 2^-13 of the largest of them, and their sum less
             than 2^-13 of itself, so that m products lose at most 1.125 m 2^-13 of the sum of magnitudes,
             which is at most |l'_x| |h'_y| + |h'_x| |l'_y|. Sums made to lose as much as possible lost 0.62
             of that on an H200; other GPUs than Hopper's use float16

With c8 = 1.125 (2 width + 2) 2^-13 that makes four products of a number per row and a number per item:

    |x| (c |y| + |r_y| + 3 c |l_y| + 1.07 |l_y - l'_y| + 1.07 c8 |l'_y|) + |l_x| (|l_y| + |h_y - h'_y|)
    + (|r_x| + 3 c |l_x| + 1.07 |l_x - l'_x| + 1.07 c8 |l'_x|) |y| + |h_x - h'_x| |l_y| + slack

Rows that this leaves open are settled by the float16 products and their smaller error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truerank.ranking.gpu.error_bound import LIFT, ItemSide, RowSide, rounding, sum_block
from truerank.ranking.gpu.halves import CHUNK

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Cross:
    """One side of the cross products.

    Parameters
    ----------
    values : (n, 2 width) float8: low and high halves of rows, high and low halves of items
    bounds : (4, n) float32, the factors of the error that belong to a row or an item
    """

    values: Tensor
    bounds: Tensor

    @classmethod
    def of_rows(cls, rows: RowSide, d: int) -> Cross:
        """Round the halves of rows."""
        import torch

        values, off_high, off_low = _rounded(rows.high, rows.low, 2.0**-5, 2.0**7, is_row=True)
        norm, low_norm, rest_norm = rows.norms
        c, c8 = rounding(d, sum_block(rows.high.device)), cross_rounding(rows.high.shape[1])
        own = rest_norm + 3 * c * low_norm + 1.07 * (off_low + c8 * (low_norm + off_low))
        bounds = (torch.stack([norm, own, low_norm, off_high]) * LIFT).float()
        if rows.is_exact is not None:
            bounds *= rows.is_exact == 0
        return cls(values, bounds)

    @classmethod
    def of_items(cls, items: ItemSide, d: int) -> Cross:
        """Round the halves of items."""
        import torch

        values, off_high, off_low = _rounded(items.high, items.low, 2.0**-7, 2.0**5, is_row=False)
        norm, low_norm, rest_norm = items.norms
        c, c8 = rounding(d, sum_block(items.high.device)), cross_rounding(items.high.shape[1])
        own = c * norm + rest_norm + 3 * c * low_norm + 1.07 * (off_low + c8 * (low_norm + off_low))
        return cls(values, (torch.stack([own, norm, low_norm + off_high, low_norm]) * LIFT).float())


def cross_rounding(width: int) -> float:
    """Return the constant c8.

    Examples
    --------
    >>> round(cross_rounding(64), 4)
    0.0179
    """
    return 1.125 * (2 * width + 2) * 2.0**-13


def _rounded(
    high: Tensor, low: Tensor, high_scale: float, low_scale: float, *, is_row: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the halves in float8, and the norms of what rounding took off high and low halves."""
    import torch

    n, width = high.shape
    values = torch.empty((n, 2 * width), dtype=torch.float8_e4m3fn, device=high.device)
    off = torch.empty((2, n), dtype=torch.float64, device=high.device)
    places = (slice(width, None), slice(None, width)) if is_row else (slice(None, width), slice(width, None))
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        for side, (half, scale, place) in enumerate(
            zip((high, low), (high_scale, low_scale), places, strict=True)
        ):
            given = half[rows].float() * scale
            values[rows, place] = given.to(torch.float8_e4m3fn)
            given -= values[rows, place].float()
            off[side, rows] = torch.linalg.vector_norm(given, dim=1).double() / scale
    return values, off[0], off[1]
