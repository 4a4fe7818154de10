"""How far a float32 score can be from the float64 one, so that only closer calls are decided again.

Let x = 2^a u and y = 2^b v be the factors after scaling by powers of two (exact, and without effect on
ranks), X and Y what float32 keeps of them, n the coordinates (one more for a bias: x_n = 2^a, y_n = 2^b
bias), r = 2^-24 the rounding unit of float32 and f = 2^-126 its smallest normal number; |x|, |y| <= 2^20.

* storing:    X = x (1 + e) + g with |e| <= r, |g| <= f, even where the host flushes subnormals to zero
* summing:    the chain of fused (or separate) multiplications and additions is off by at most
              n r / (1 - n r) sum|XY| + n f
* reference:  the float64 sum is off by at most (n + 1) 2^-53 sum|xy| (first order), and by n 2^-1074 where
              products of float64 factors underflow, that is n 2^(a + b - 1074) after scaling
* Cauchy:     sum|xy| <= |x| |y|

For n <= 4097 the relative parts add up to less than 1.01 (n + 4) r, which also covers that the norms are
those of X and Y; the absolute ones, with 2 f 2^20 per coordinate for storing, to less than n 2^-104:

    |float32 - float64| <= 1.01 (n + 4) 2^-24 |x| |y| + n 2^-104 + n 2^(a + b - 1074)

The tile compares with low - spread weight and high + spread weight: ``spread`` is the factor before |y| of
the row, ``weight`` the largest |y| in a group of items, low and high enclose the target's score t and the
absolute part. Three float32 roundings there (product, sum and t) are covered by 1.02 instead of 1.01 and
by another 2^-22 |t|. Bounds beyond float32 become infinite and send every item to float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.ranks.kernels.pair_score import Doubles
from truerank.ranks.kernels.side import Side, Singles

MOST_COORDINATES = 4096


def brackets(user: Side, item: Side, target_scores: Doubles) -> tuple[Singles, Singles]:
    """Return, per pair, between which float32 scores an item of weight 0 could tie with the target."""
    n, shift = user.fast.shape[1], user.exponent + item.exponent
    middle = np.ldexp(target_scores, shift)
    with np.errstate(over="ignore"):
        margin = np.abs(middle) * 2.0**-22 + (n * 2.0**-104 + np.ldexp(float(n), shift - 1074))
        low, high = _rounded(middle - margin, -np.inf), _rounded(middle + margin, np.inf)
    # Items that do not compete score -inf in the tile and must stay below every threshold.
    return np.maximum(low, np.finfo(np.float32).min), high


def spreads(user: Side) -> Singles:
    """Return, per row, how much the bracket widens with the norm of an item."""
    n = user.fast.shape[1]
    return _rounded(1.02 * 2.0**-24 * (n + 4) * _upper_norm(user.square_norms, n), np.inf)


def weights(item: Side, group: int) -> Singles:
    """Return the largest norm in each group of consecutive items."""
    starts = np.arange(0, len(item.square_norms), group)
    return _rounded(_upper_norm(np.maximum.reduceat(item.square_norms, starts), item.fast.shape[1]), np.inf)


def _upper_norm(square_norm: Singles, n: int) -> Doubles:
    """Return an upper bound of a norm whose square was summed in float32 in any order."""
    norm: Doubles = np.sqrt(square_norm.astype(np.float64) * (1 + (n + 2) * 2.0**-22) + n * 2.0**-125)
    return norm


def _rounded(values: Any, towards: float) -> Singles:
    return np.nextafter(np.asarray(values).astype(np.float32), np.float32(towards))
