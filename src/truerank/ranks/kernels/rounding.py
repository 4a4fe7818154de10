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

The thresholds target -/+ bound are rounded outwards. A bound that is not finite sends every item to float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen
from truerank.ranks.kernels.counts import Ints
from truerank.ranks.kernels.pair_score import Doubles, Floats

Singles = NDArray[np.float32]

MOST_COORDINATES = 4096
CHUNK = 1 << 14


@dataclass(frozen=True, eq=False)
class Side:
    """One factor matrix, made ready for the tile.

    Parameters
    ----------
    exact : the factors as given, contiguous float32 or float64
    fast : float32 factors times 2^exponent, with the extra column; ``exact`` itself when that is all it is
    exponent : a power of two
    square_norms : (n,) squared norms of the rows of ``fast``, up to rounding
    """

    exact: Floats
    fast: Singles
    exponent: int
    square_norms: Singles

    @classmethod
    def prepare(cls, name: str, factors: Floats, extra: Doubles | None) -> Side:
        """Check and scale a factor matrix; costs one pass, and a float32 copy unless it is one already."""
        if factors.dtype == np.float32 and extra is None:
            norms = _square_norms(factors)
            top = norms.max(initial=0.0)
            if 2.0**-40 <= top <= 2.0**40:
                return cls(factors, factors, 0, norms)
        exponent = exponent_of(name, factors, extra)
        fast = _scaled(factors, extra, exponent)
        return cls(factors, fast, exponent, _square_norms(fast))


def _square_norms(factors: Singles) -> Singles:
    from truerank.ranks.kernels.factor_compiled import square_sums

    norms = np.empty(len(factors), np.float32)
    square_sums(factors, norms)
    return norms


def exponent_of(name: str, factors: Floats, extra: Doubles | None) -> int:
    """Return the exponent that scales the largest magnitude into [1/2, 1); raise unless all are finite."""
    return -int(np.frexp(_largest(name, factors, extra))[1])


def _largest(name: str, factors: Floats, extra: Doubles | None) -> float:
    """Return the largest magnitude; raise when one is not finite."""
    largest = 0.0 if extra is None else _largest(f"{name} bias", extra[:, None], None)
    for start in range(0, len(factors), CHUNK):
        part = np.abs(factors[start : start + CHUNK])
        top = float(part.max(initial=0.0))
        if not np.isfinite(top):
            row = start + int(np.argmin(np.isfinite(part).all(axis=1)))
            raise InvalidData(
                f"{name} factors must be finite, row {row} holds {part[row - start].max()}. "
                "Check how the model was trained, or leave that row out."
            )
        largest = max(largest, top)
    return largest


def _scaled(factors: Floats, extra: Doubles | None, exponent: int) -> Singles:
    width = factors.shape[1]
    out = np.empty((len(factors), width + (extra is not None)), np.float32)
    for start in range(0, len(factors), CHUNK):
        rows = slice(start, start + CHUNK)
        out[rows, :width] = np.ldexp(factors[rows].astype(np.float64), exponent)
        if extra is not None:
            out[rows, width] = np.ldexp(extra[rows], exponent)
    return frozen(out)


def check_magnitudes(user_exponent: int, item_exponent: int) -> None:
    """Raise when float64 scores of factors up to 2^-exponent could overflow."""
    if user_exponent + item_exponent < -900:
        raise InvalidData(
            "factors must give scores far below the largest float64, got factors of magnitude "
            f"2^{-user_exponent} (user) and 2^{-item_exponent} (item). Divide them by a constant."
        )


def thresholds(user: Side, item: Side, rows: Ints, target_scores: Doubles) -> tuple[Singles, Singles]:
    """Return, per pair, below which float32 score an item is surely below, and above which surely above."""
    shift = user.exponent + item.exponent
    n = user.fast.shape[1]
    top = item.square_norms.max(initial=0.0)
    norms = _upper_norm(user.square_norms, n) * _upper_norm(top, n)
    middle, infinite = np.ldexp(target_scores, shift), np.float32(np.inf)
    with np.errstate(over="ignore"):
        smallest = n * 2.0**-104 + np.ldexp(float(n), shift - 1074)
        bound = (1.01 * 2.0**-24 * (n + 4) * norms + smallest)[rows]
        low = np.nextafter((middle - bound).astype(np.float32), -infinite)
        high = np.nextafter((middle + bound).astype(np.float32), infinite)
    # Items that do not compete score -inf in the tile and must stay below every threshold.
    return np.maximum(low, np.finfo(np.float32).min), high


def _upper_norm(square_norm: Any, n: int) -> Any:
    """Return an upper bound of a norm whose square was summed in float32 in any order."""
    return np.sqrt(np.asarray(square_norm, np.float64) * (1 + (n + 2) * 2.0**-22) + n * 2.0**-125)
