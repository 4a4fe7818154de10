"""Error bound of GPU scores: factors as sums of two float16 numbers, and their distance from float64 scores.

A matrix unit multiplies float16 numbers exactly and adds the products in float32. Let x be a row scaled by a
power of two so that its largest magnitude lies in [2^14, 2^15): x = h + l + r, where h is x rounded to
float16, l is x - h rounded to float16 and r what is left, about 2^-23 of x where float16 is normal. The
differences are exact in float64, so the norm of r is measured instead of estimated.

Let x = h + l + r (user) and y likewise (item) be rows as ``split_rows`` splits them, with d coordinates, and
n the next multiple of 16. The kernel sums l_x h_y and h_x l_y, then adds h_x h_y and last the bias, which is
one more coordinate of x and y. Products of float16 numbers are exact in float32.

* leaving out:  x y - (the three products) = l_x l_y + (h_x + l_x) r_y + r_x y
* summing:      a matrix unit adds products in blocks of b >= 4. What is assumed of it: each of the b + 1
                addends of a block loses less than 2^-23 of the largest of them, and their sum less than 2^-23
                of itself, as alignment by truncation without any guard bit would. Sums that round, as on a
                CPU, lose less. With S a bound of all partial sums of magnitudes, m products lose at most
                m (b + 2) / b 2^-23 S <= 1.5 m 2^-23 S; two more account for the other additions
* reference:    the float64 sum is off by at most (d + 2) 2^-52 |x| |y|, and by d 2^-1074 where products
                underflow
* Cauchy:       sum |h_x h_y| <= |x| |y|, sum |l_x h_y| <= |l_x| |y|, and so on

With c = 1.5 (n + 2) 2^-23 + (d + 2) 2^-52 the error is a sum of three products of what is known per row and
what is known per item:

    |float16 - float64| <= |x| (c |y| + |r_y| + 3 c |l_y|) + (|r_x| + 3 c |l_x|) |y| + |l_x| |l_y| + slack

The slack holds the rounding of the target's score to float32 and its use in ``triton_count`` (2^-20 of it in
all) and what underflows. ``LIFT`` covers the float32 arithmetic on the bounds themselves.

Cauchy also says that an item with |x| |y| < |t| lies below the target if t > 0 and above it if t < 0. Items
are sorted by norm, so a row needs only the first ``n_needed`` of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


# The exponent that the largest magnitude of a row is scaled to; float16 ends at 65504.
TOP = 15
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
    norms *= SCALE_LIFT
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


LIFT = 1 + 2.0**-10


@dataclass(frozen=True, eq=False)
class ItemSide:
    """Items in descending order of their norms; those whose score is always zero are left out.

    Parameters
    ----------
    high, low : (n, width) float16
    bias : (n,) float32, scaled like the items; or None
    bounds : (3, n) float32, the factors of the error that belong to an item
    norm : (n,) float64, descending
    code : (n,) int64, where an item stands in ``exact``
    exponent : what the items were scaled by
    exact, exact_bias : the factors as given
    """

    high: Tensor
    low: Tensor
    bias: Tensor | None
    bounds: Tensor
    norm: Tensor
    code: Tensor
    exponent: int
    exact: Tensor
    exact_bias: Tensor | None

    @cached_property
    def n_zero(self) -> int:
        """Items left out because every user gives them the score 0."""
        return len(self.exact) - len(self.code)

    @classmethod
    def prepare(cls, exact: Tensor, bias: Tensor | None, largest: float) -> ItemSide:
        """Split, measure and sort; ``largest`` is the largest magnitude of factors and bias."""
        import torch

        n, d = exact.shape
        exponent = int(exponents(torch.tensor(largest, dtype=torch.float64)))
        raised = torch.full((n,), exponent, device=exact.device)
        extra = None if bias is None else scaled(bias, raised)
        halves = split_rows(exact, raised, padded_width(d), extra)
        order = torch.argsort(halves.norm, descending=True, stable=True)
        if bias is None:
            order = order[: int(torch.count_nonzero(exact.any(1)))]
        c = rounding(d)
        bounds = torch.stack(
            [
                c * halves.norm + halves.rest_norm + 3 * c * halves.low_norm,
                halves.norm,
                halves.low_norm,
            ]
        )
        return cls(
            halves.high[order],
            halves.low[order],
            None if extra is None else extra[order].float(),
            (bounds[:, order] * LIFT).float(),
            halves.norm[order],
            order,
            exponent,
            exact,
            bias,
        )


@dataclass(frozen=True, eq=False)
class RowSide:
    """Rows to count for, one per (user, target), in ascending order of the target's score over the norm.

    Parameters
    ----------
    high, low : (n, width) float16
    scale : (n,) float32, what the bias is multiplied with
    target, slack : (n,) float32, the target's score and the absolute part of the error; a row of zeros, which
        ties with every item, has an infinite target and counts none
    bounds : (3, n) float32, the factors of the error that belong to a row
    n_needed : (n,) int64, how many items must be scored
    user, pair : (n,) int64, the row of ``exact`` and the target a row belongs to
    target_score : (n_pairs,) float64, in the order of the pairs
    exact : the factors as given
    """

    high: Tensor
    low: Tensor
    scale: Tensor
    target: Tensor
    slack: Tensor
    bounds: Tensor
    n_needed: Tensor
    user: Tensor
    pair: Tensor
    target_score: Tensor
    exact: Tensor

    def __len__(self) -> int:
        return len(self.user)

    @classmethod
    def prepare(cls, exact: Tensor, user: Tensor, target_score: Tensor, item: ItemSide) -> RowSide:
        """Split, measure and sort; pair p is of row ``user[p]``, its target scores ``target_score[p]``."""
        import torch

        d = exact.shape[1]
        largest = exact.abs().amax(1).double()
        ones = None
        if item.bias is not None:
            largest = largest.clamp(min=1.0)
            ones = torch.ones_like(largest)
        exponent = exponents(largest)
        extra = None if ones is None else scaled(ones, exponent)
        halves = split_rows(exact, exponent, item.high.shape[1], extra)
        shift = exponent[user] + item.exponent
        middle = scaled(target_score, shift)
        lost = d * power_of_two((shift - 1074).clamp(-1000, 1000))
        needed = n_needed(middle, lost, halves.norm[user], item.norm)
        # Rows with similar ratios of target score and norm lie together, rows of zeros last.
        order = torch.argsort((middle.abs() / halves.norm[user]).nan_to_num(torch.inf), stable=True)
        owner, middle = user[order], middle[order]
        c = rounding(d)
        bounds = torch.stack([halves.norm, halves.rest_norm + 3 * c * halves.low_norm, halves.low_norm])
        slack = 2.0**-20 * middle.abs() + d * 2.0**-60 + lost[order]
        return cls(
            halves.high[owner],
            halves.low[owner],
            (torch.zeros_like(largest) if extra is None else extra)[owner].float(),
            torch.where(largest[owner] == 0, torch.inf, middle).float(),
            (slack * LIFT).float(),
            (bounds[:, owner] * LIFT).float(),
            needed[order],
            owner,
            order,
            target_score,
            exact,
        )


def n_needed(middle: Tensor, lost: Tensor, norm: Tensor, item_norm: Tensor) -> Tensor:
    """Return how many of the items, by descending norm, can reach a magnitude; none for rows of zeros."""
    import torch

    least = (middle.abs() * (1 - 2.0**-19) - lost) / norm
    found = torch.searchsorted(-item_norm, -least.nan_to_num(0.0), right=True)
    return torch.where(norm == 0, 0, found)


def rounding(d: int) -> float:
    """Return the constant c.

    Examples
    --------
    >>> round(rounding(64) * 2**23, 3)
    99.0
    """
    return 1.5 * (-(-d // 16) * 16 + 2) * 2.0**-23 + (d + 2) * 2.0**-52


def padded_width(d: int) -> int:
    """Return how many columns the kernels get: a power of two up to 128, beyond that a multiple of 64.

    Examples
    --------
    >>> [padded_width(d) for d in (3, 20, 64, 130)]
    [16, 32, 64, 192]
    """
    if d <= 128:
        return int(max(16, 1 << (d - 1).bit_length())) if d else 16
    return -(-d // 64) * 64
