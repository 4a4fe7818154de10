"""Rows as sums of two float16 numbers per coordinate, scaled by powers of two, with norms of what is left.

What that is good for, and how far scores of halves are from float64, is said in ``error_bound``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


# The exponent that the largest magnitude of a row is scaled to; float16 ends at 65504.
TOP = 15
# That of rows (``cross`` says why), and the finest multiples that are looked for: float16 holds 11 bits.
ROW_TOP = 13
FINEST = 2
CHUNK = 1 << 18
# Covers the roundings of a norm in float64.
SCALE_LIFT = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Halves:
    """Scaled rows as two float16 matrices.

    Parameters
    ----------
    high, low : (n, width) float16, zeros beyond the coordinates
    norm : (n,) float64, bounds the norms of the row, of ``high`` and of ``high + low``
    low_norm, rest_norm : (n,) float64, bound the norms of ``low`` and of what neither holds
    multiple : (n,) float64, the largest power of two of which all of a row are multiples; 0 where that is
        finer than 2^FINEST, or where high halves do not hold the row
    """

    high: Tensor
    low: Tensor
    norm: Tensor
    low_norm: Tensor
    rest_norm: Tensor
    multiple: Tensor


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows of a matrix as they are split: in some order, a centre taken off, scaled by powers of two.

    Parameters
    ----------
    factors : (n_factors, d) float32 or float64
    index : (n,) int64, which rows
    exponent : (n,) int64, of the scales
    centre : (d,) float64 or None
    extra : (n,) float64 or None: one more coordinate, scaled already and kept as a float32 elsewhere, which
        counts in the norms
    """

    factors: Tensor
    index: Tensor
    exponent: Tensor
    centre: Tensor | None = None
    extra: Tensor | None = None

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield the rows in float64, an eighth of them at a time, at most ``CHUNK``."""
        step = max(1, min(CHUNK, -(-len(self.index) // 8)))
        for start in range(0, len(self.index), step):
            rows = slice(start, start + step)
            x = self.factors[self.index[rows]].double()
            if self.centre is not None:
                x -= self.centre
            yield rows, scaled(x, self.exponent[rows, None])

    def norms(self) -> Tensor:
        """Return the norms, (n,) float64, up to rounding."""
        import torch

        norm = torch.empty(len(self.index), dtype=torch.float64, device=self.factors.device)
        for rows, x in self.chunks():
            norm[rows] = torch.linalg.vector_norm(x, dim=1)
        return norm if self.extra is None else torch.hypot(norm, self.extra)

    def split(self, width: int) -> Halves:
        """Split the rows into halves of ``width`` columns, at least d."""
        import torch

        n, d = len(self.index), self.factors.shape[1]
        high = torch.zeros((n, width), dtype=torch.float16, device=self.factors.device)
        low = torch.zeros_like(high)
        squares = torch.empty((4, n), dtype=torch.float64, device=high.device)
        for part, x in self.chunks():
            squares[0, part] = (x * x).sum(1)
            squares[3, part] = multiples(x)
            high[part, :d] = x.half()
            x -= high[part, :d]
            low[part, :d] = x.half()
            small = low[part, :d].double()
            x -= small
            squares[1, part] = (small * small).sum(1)
            squares[2, part] = (x * x).sum(1)
        return self.halves(high, low, squares)

    def halves(self, high: Tensor, low: Tensor, squares: Tensor) -> Halves:
        """Return the halves with their norms, from squared norms of rows, low halves and rests."""
        if self.extra is not None:
            squares[0] += self.extra * self.extra
            squares[2] += (self.extra - self.extra.float().double()) ** 2
        squares[3] *= (squares[1] == 0) & (squares[2] == 0)
        whole, of_low, of_rest = squares[:3].sqrt_() * SCALE_LIFT
        return Halves(high, low, whole + of_low + of_rest, of_low, of_rest, squares[3])

    @classmethod
    def hashes(cls, factors: Tensor, extra: Tensor | None) -> Tensor:
        """Return a 64-bit number per row that rows of equal factors (and extra coordinate) share."""
        import torch

        n, d = factors.shape
        odd = odd_numbers(d + 1, factors.device)
        key = torch.empty(n, dtype=torch.int64, device=factors.device)
        step = max(1, min(CHUNK, -(-n // 8)))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            bits = (factors[rows] + 0.0).view(torch.int32 if factors.dtype == torch.float32 else torch.int64)
            key[rows] = (bits * odd[:d]).sum(1)
            if extra is not None:
                key[rows] += (extra[rows] + 0.0).view(torch.int64) * odd[d]
        return key ^ (key >> 29)


def odd_numbers(n: int, device: torch.device) -> Tensor:
    """Return fixed odd 64-bit numbers, as many as asked for."""
    import torch

    draw = torch.Generator().manual_seed(0)
    return torch.randint(-(2**62), 2**62, (n,), generator=draw).mul_(2).add_(1).to(device)


def multiples(x: Tensor) -> Tensor:
    """Return, per row, the largest power of two of which all entries are multiples, 0 below 2^FINEST.

    Examples
    --------
    >>> import torch
    >>> multiples(torch.tensor([[32.0, -48.0, 0.0], [32.0, 2.0, 0.0], [0.0, 0.0, 0.0]])).tolist()
    [16.0, 0.0, 32768.0]
    """
    import torch

    whole = (x * 2.0**-FINEST).int()
    is_whole = (whole.double() * 2.0**FINEST == x).all(1)
    lowest = torch.where(whole == 0, 1 << (TOP - FINEST), whole & -whole).amin(1)
    return lowest.double() * 2.0**FINEST * is_whole


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


def exponents(largest: Tensor, top: int = TOP) -> Tensor:
    """Return the exponents that scale magnitudes into [2^14, 2^15), or to another top; 0 for 0.

    Examples
    --------
    >>> import torch
    >>> exponents(torch.tensor([1.0, 0.0, 2.0**20], dtype=torch.float64)).tolist()
    [14, 0, -6]
    """
    import torch

    raised = torch.frexp(largest.double())[1].long()
    return torch.where(largest == 0, 0, top - raised)
