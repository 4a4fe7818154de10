"""Factor matrices made ready for the tile: checked, float32, and scaled where their magnitude asks for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen
from truerank.ranks.kernels.pair_score import Doubles, Floats

Singles = NDArray[np.float32]

CHUNK = 1 << 14


@dataclass(frozen=True, eq=False)
class Side:
    """One factor matrix, made ready for the tile.

    Parameters
    ----------
    exact : the factors as given, contiguous float32 or float64
    fast : float32 factors times 2^exponent, with the extra column; ``exact`` itself when that is all it is
    exponent : a power of two
    square_norms : (n,) squared norms of the rows of ``fast``, up to rounding; 0 only for rows of zeros
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
                return cls(factors, factors, 0, _without_false_zeros(norms, factors))
        exponent = exponent_of(name, factors, extra)
        fast = _scaled(factors, extra, exponent)
        norms = _without_false_zeros(_square_norms(fast), factors)
        if extra is not None:
            norms = _without_false_zeros(norms, extra[:, None])
        return cls(factors, fast, exponent, norms)


def _square_norms(factors: Singles) -> Singles:
    from truerank.ranks.kernels.factor_compiled import square_sums

    norms = np.empty(len(factors), np.float32)
    square_sums(factors, norms)
    return norms


def _without_false_zeros(norms: Singles, factors: Floats) -> Singles:
    """Lift norms that only underflow made zero."""
    zero = np.flatnonzero(norms == 0)
    norms[zero[factors[zero].any(axis=1)]] = np.finfo(np.float32).tiny
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
