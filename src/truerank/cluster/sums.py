"""Means and intervals of values per user from sums that lose nothing, however users were cut into tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import stdtrit

from truerank.core.errors import InvalidData
from truerank.core.interval import Band
from truerank.core.types import FloatArray

# Sums are whole numbers of 2^-UNIT, finer than any float64.
UNIT = 1200
_HALF = 26


def exact_sum(values: FloatArray) -> int:
    """Return the sum in units of 2^-1200, without rounding; any order of the values gives the same.

    Examples
    --------
    >>> total = exact_sum(np.array([1e16, 1.0, -1e16]))
    >>> float(Fraction(total, 2**UNIT))
    1.0
    """
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    if not np.isfinite(fraction).all():
        raise InvalidData("values per user must be finite numbers to be summed, got NaN or infinity.")
    whole = np.ldexp(fraction, 53).astype(np.int64)
    high, low = whole >> _HALF, whole & ((1 << _HALF) - 1)  # so that 2^36 of them fit an int64 sum
    total = 0
    for power in np.unique(exponent):
        here = exponent == power
        total += ((int(high[here].sum()) << _HALF) + int(low[here].sum())) << (UNIT + int(power) - 53)
    return total


@dataclass(frozen=True)
class Sums:
    """What intervals need to know of the values of one metric.

    Parameters
    ----------
    n : users
    total, squares : sums of the values and of their (rounded) squares, in units of 2^-1200
    low, high : the smallest and the largest value
    """

    n: int
    total: int
    squares: int
    low: float
    high: float

    @classmethod
    def of(cls, values: FloatArray) -> Sums:
        """Sum one value per user.

        Examples
        --------
        >>> Sums.of(np.array([0.0, 1.0])).mean
        0.5
        """
        total, squares = exact_sum(values), exact_sum(np.asarray(values, np.float64) ** 2)
        if len(values) == 0:
            return cls(0, 0, 0, np.inf, -np.inf)
        return cls(len(values), total, squares, float(np.min(values)), float(np.max(values)))

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.n + other.n,
            self.total + other.total,
            self.squares + other.squares,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def mean(self) -> float:
        """The mean, rounded once."""
        return float(Fraction(self.total, self.n << UNIT))

    @property
    def deviation(self) -> float:
        """The sample standard deviation."""
        centred = Fraction(self.squares, 1 << UNIT) - Fraction(self.total**2, self.n << (2 * UNIT))
        return float(np.sqrt(max(0.0, float(centred / (self.n - 1))))) if self.n > 1 else 0.0

    def to_list(self) -> list[int | float | str]:
        """Return what JSON can hold."""
        ends = (self.low, self.high) if self.n else (0.0, 0.0)
        return [self.n, f"{self.total:x}", f"{self.squares:x}", *ends]

    @classmethod
    def from_list(cls, written: Sequence[int | float | str]) -> Sums:
        """Read what ``to_list`` returned."""
        n, total, squares, low, high = written
        if not n:
            return cls(0, 0, 0, np.inf, -np.inf)
        return cls(int(n), int(str(total), 16), int(str(squares), 16), float(low), float(high))


def normal_band(sums: Sequence[Sums], level: float) -> Band:
    """Return the normal interval of each metric, as ``normal`` gives it for the values themselves."""
    ends = [_limits(one, level) for one in sums]
    method = tuple("constant" if one.low == one.high else "normal" for one in sums)
    return Band(np.array([low for low, _ in ends]), np.array([high for _, high in ends]), method)


def _limits(one: Sums, level: float) -> tuple[float, float]:
    if one.low == one.high:  # see truerank.inference.constant
        share = 1 - ((1 - level) / 2) ** (1 / one.n)
        return one.low * (1 - share), one.low * (1 - share) + share
    half = float(stdtrit(one.n - 1, (1 + level) / 2)) * one.deviation / np.sqrt(one.n)
    return float(np.clip(one.mean - half, 0, 1)), float(np.clip(one.mean + half, 0, 1))
