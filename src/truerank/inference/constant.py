"""The interval when all users have the same value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from truerank.core.check import check_level
from truerank.core.errors import InvalidData
from truerank.core.interval import Band
from truerank.core.types import FloatArray


def band_of(
    values: FloatArray,
    level: float,
    name: str,
    varying: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
) -> Band:
    r"""Return the band of all columns, using ``varying`` for those that are not constant.

    A sample of n equal values c has no spread, yet the mean need not be c. At the given level at most
    :math:`p = 1 - ((1 - \text{level})/2)^{1/n}` of the users differ from c, and their values lie in [0, 1],
    so the mean lies in :math:`[c (1 - p), c (1 - p) + p]`. For n zeros this is the exact binomial bound.

    Examples
    --------
    >>> band = band_of(np.zeros((100, 1)), 0.95, "normal", lambda v: (v[0], v[0]))
    >>> float(band.low[0]), round(float(band.high[0]), 4), band.method
    (0.0, 0.0362, ('constant',))
    """
    check_level(level)
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise InvalidData(
            "an interval needs at least one user, got none. Check that the test part has targets."
        )
    is_constant = np.ptp(values, axis=0) == 0
    share = 1 - ((1 - level) / 2) ** (1 / len(values))
    low = values[0] * (1 - share)
    high = low + share
    if not is_constant.all():
        low[~is_constant], high[~is_constant] = varying(values[:, ~is_constant])
    return Band(low, high, tuple("constant" if flat else name for flat in is_constant))
