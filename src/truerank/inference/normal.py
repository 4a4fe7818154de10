"""The normal interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.interval import Band, Interval
from truerank.core.types import FloatArray
from truerank.inference.constant import band_of


@dataclass(frozen=True)
class Normal(Interval):
    r"""Mean plus and minus Student's quantile times the standard error; O(n_users).

    .. math:: \bar x \pm t_{n-1, (1 + \text{level})/2} \; s / \sqrt n

    Clipped to [0, 1]. Good for many users; with few users or rare hits prefer ``bca``.

    Examples
    --------
    >>> band = Normal().band(np.array([[0.0], [1.0], [0.0], [1.0]]))
    >>> band.low.round(3).tolist(), band.high.round(3).tolist()
    ([0.0], [1.0])
    """

    key: ClassVar[str] = "normal"

    def band(self, values: FloatArray, *, level: float = 0.95, seed: int = 0) -> Band:
        """Return the intervals."""
        return band_of(values, level, self.key, lambda varying: _limits(varying, level))


def _limits(values: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    mean = values.mean(axis=0)
    half = stdtrit(len(values) - 1, (1 + level) / 2) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)
