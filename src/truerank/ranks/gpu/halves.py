"""Factors as sums of two float16 numbers, with what that leaves out.

A matrix unit multiplies float16 numbers exactly and adds the products in float32. Let x be a row scaled by a
power of two so that its largest magnitude lies in [2^14, 2^15): x = h + l + r, where h is x rounded to
float16, l is x - h rounded to float16 and r what is left, about 2^-23 of x where float16 is normal. The
differences are exact in float64, so the norm of r is measured instead of estimated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# The exponent that the largest magnitude of a row is scaled to; float16 ends at 65504.
TOP = 15
CHUNK = 1 << 18
# Covers the roundings of a norm in float64.
LIFT = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Halves:
    """Scaled rows as two float16 matrices.

    Parameters
    ----------
    high, low : (n, width) float16, zeros beyond the coordinates
    norm : (n,) float64, bounds the norms of the row, of ``high`` and of ``high + low``
    low_norm, rest_norm : (n,) float64, bound the norms of ``low`` and of what neither holds
    """

    high: Tensor
    low: Tensor
    norm: Tensor
    low_norm: Tensor
    rest_norm: Tensor


def split_rows(factors: Tensor, exponent: Tensor, width: int, extra: Tensor | None = None) -> Halves:
    """Scale row i by 2^exponent[i] and split it.

    Parameters
    ----------
    factors : (n, d) float32 or float64
    exponent : (n,) int64
    width : columns of the result, at least d
    extra : (n,) float64 or None: one more coordinate, scaled already and kept as a float32 elsewhere, which
        counts in the norms
    """
    import torch

    n, d = factors.shape
    high = torch.zeros((n, width), dtype=torch.float16, device=factors.device)
    low = torch.zeros_like(high)
    norms = torch.empty((3, n), dtype=torch.float64, device=factors.device)
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        x = scaled(factors[rows].double(), exponent[rows, None])
        square, rest_square = (x * x).sum(1), torch.zeros_like(norms[0, rows])
        if extra is not None:
            kept = extra[rows]
            square = square + kept * kept
            rest_square = (kept - kept.float().double()) ** 2
        high[rows, :d] = x.half()
        x -= high[rows, :d]
        low[rows, :d] = x.half()
        small = low[rows, :d].double()
        x -= small
        norms[1, rows] = (small * small).sum(1).sqrt()
        norms[2, rows] = ((x * x).sum(1) + rest_square).sqrt()
        norms[0, rows] = square.sqrt() + norms[1, rows] + norms[2, rows]
    norms *= LIFT
    return Halves(high, low, norms[0], norms[1], norms[2])


def scaled(values: Tensor, exponent: Tensor) -> Tensor:
    """Return values times 2^exponent in float64, in steps that neither over- nor underflow on the way.

    Examples
    --------
    >>> import torch
    >>> scaled(torch.tensor([3.0, 2.0**-1070], dtype=torch.float64), torch.tensor([1, 1070])).tolist()
    [6.0, 1.0]
    """
    quarter = exponent >> 2
    step = power_of_two(quarter)
    values = values * step
    values *= step
    values *= step
    values *= power_of_two(exponent - 3 * quarter)
    return values


def power_of_two(exponent: Tensor) -> Tensor:
    """Return 2^exponent as float64, exactly, for exponents of normal numbers.

    Examples
    --------
    >>> import torch
    >>> power_of_two(torch.tensor([0, -3, 10])).tolist()
    [1.0, 0.125, 1024.0]
    """
    import torch

    return ((exponent.long() + 1023) << 52).view(torch.float64)


def exponents(largest: Tensor) -> Tensor:
    """Return the exponents that scale magnitudes into [2^14, 2^15); 0 for 0.

    Examples
    --------
    >>> import torch
    >>> exponents(torch.tensor([1.0, 0.0, 2.0**20], dtype=torch.float64)).tolist()
    [14, 0, -6]
    """
    import torch

    raised = torch.frexp(largest.double())[1].long()
    return torch.where(largest == 0, 0, TOP - raised)
