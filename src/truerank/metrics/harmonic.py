"""Sums of reciprocals and of logarithmic discounts over runs of ranks."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from truerank.core.types import FloatArray, IntArray

Discount: TypeAlias = Literal["log2", "clip"]

_SMALL = 32
_HARMONIC = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _SMALL + 1))])
# Coefficients of psi(m + 1/2) - log(m) in powers of m**-2.
_SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720)


def reciprocal_sum(start: IntArray, count: IntArray) -> FloatArray:
    r"""Return the sum of 1/(start + j) over j = 1..count to full relative precision.

    Differences of a table of harmonic numbers would lose the digits that a run deep in the list needs.
    Time O(1) per entry, no table: the first 32 reciprocals are added, the rest follows from the asymptotic
    series of the digamma function at half-integers.

    .. math:: \sum_{j=1}^{q} \frac{1}{A + j} = \psi(A + q + 1) - \psi(A + 1)

    Examples
    --------
    >>> float(reciprocal_sum(np.array(1), np.array(2)) - (1 / 2 + 1 / 3))
    0.0
    """
    start, count = np.asarray(start, dtype=np.int64), np.asarray(count, dtype=np.int64)
    head = _HARMONIC[np.minimum(start + count, _SMALL)] - _HARMONIC[np.minimum(start, _SMALL)]
    low = np.maximum(start, _SMALL) + 0.5
    high = np.maximum(start + count, _SMALL) + 0.5
    tail = np.log1p((high - low) / low)
    below, above = low**-2, high**-2
    for power, coefficient in enumerate(_SERIES, start=1):
        tail = tail + coefficient * (above**power - below**power)
    total: FloatArray = head + tail
    return total


def log_discount(rank: IntArray, kind: Discount) -> FloatArray:
    """Return 1/log2(rank + 1), or 1/log2(max(rank, 2)) for ``clip``.

    Examples
    --------
    >>> log_discount(np.array([1, 3]), "log2").tolist(), log_discount(np.array([1, 2, 4]), "clip").tolist()
    ([1.0, 0.5], [1.0, 1.0, 0.5])
    """
    shifted = np.asarray(rank) + 1.0 if kind == "log2" else np.maximum(rank, 2.0)
    return 1 / np.log2(shifted)


def discount_sums(depth: int, kind: Discount) -> NDArray[np.longdouble]:
    """Return the table whose entry r is the sum of the discounts of ranks 1..r, for r at least to depth.

    Extended precision where the platform has it, so that differences of entries keep full precision.
    """
    return _discount_table(max(10, int(depth).bit_length()), kind)


@lru_cache(maxsize=4)
def _discount_table(bits: int, kind: Discount) -> NDArray[np.longdouble]:
    discounts = log_discount(np.arange(1, 2**bits), kind)
    table = np.concatenate([[0.0], discounts]).astype(np.longdouble).cumsum()
    table.flags.writeable = False
    return table
