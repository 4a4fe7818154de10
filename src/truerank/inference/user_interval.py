"""Confidence intervals for means over users: Student's t, BCa bootstrap, and a choice by the number of users.

They cover the mean over the population that the users are a sample of. A column in which all users have the
same value gets an exact bound instead, because its variance says nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from truerank.core.errors import MOST_RESAMPLES, InvalidData, check_at_least, check_level
from truerank.core.plugin import Plugin, Registry, Source
from truerank.core.types import FloatArray
from truerank.inference.resample import resampled_means


@dataclass(frozen=True)
class Band:
    """Lower and upper limits per column, and the name of the method that made each interval."""

    low: FloatArray
    high: FloatArray
    method: tuple[str, ...]


@dataclass(frozen=True)
class Interval(Plugin, ABC):
    """Method that makes confidence intervals for means over the population that the users come from."""

    @abstractmethod
    def band(self, values: FloatArray, *, level: float = 0.95, seed: int = 0) -> Band:
        """Return intervals for the column means of ``values``, (n_users, n_columns), each within [0, 1]."""


def make_band(
    values: FloatArray,
    level: float,
    name: str,
    varying: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
) -> Band:
    r"""Return the intervals of all columns, using ``varying`` for those that are not constant.

    A sample of n equal values c has variance 0, yet the population mean need not be c. At the given level at
    most a fraction :math:`p = 1 - ((1 - \text{level})/2)^{1/n}` of the users differ from c, and their values
    lie in [0, 1], so the mean lies in :math:`[c (1 - p), c (1 - p) + p]`. For n zeros this is the exact
    binomial bound.

    Examples
    --------
    >>> band = make_band(np.zeros((100, 1)), 0.95, "normal", lambda v: (v[0], v[0]))
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
    fraction = 1 - ((1 - level) / 2) ** (1 / len(values))
    low = values[0] * (1 - fraction)
    high = low + fraction
    if not is_constant.all():
        low[~is_constant], high[~is_constant] = varying(values[:, ~is_constant])
    return Band(low, high, tuple("constant" if is_flat else name for is_flat in is_constant))


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
        return make_band(values, level, self.key, lambda varying: _t_limits(varying, level))


def _t_limits(values: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    mean = values.mean(axis=0)
    half = stdtrit(len(values) - 1, (1 + level) / 2) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.clip(mean - half, 0, 1), np.clip(mean + half, 0, 1)


@dataclass(frozen=True)
class BCa(Interval):
    r"""Bootstrap over users, corrected for bias and skewness; O(resamples x n_users).

    .. math::
        \alpha_\pm = \Phi\left(z_0 + \frac{z_0 \pm z}{1 - a (z_0 \pm z)}\right), \qquad
        a = \frac{\sum_u (x_u - \bar x)^3}{6 \left(\sum_u (x_u - \bar x)^2\right)^{3/2}}

    with :math:`z_0` the normal quantile of the fraction of resampled means below the mean (ties count half);
    the limits are the quantiles of the resampled means at :math:`\alpha_\pm`. All columns share the
    resamples, so metrics of one model stay comparable.

    Parameters
    ----------
    resamples : bootstrap repetitions, at least 100

    Notes
    -----
    Resample b is a function of (seed, "bca", b), so the result does not depend on batching.
    Checked by: ``scipy.stats.bootstrap`` in tests/inference/test_user_interval.py.
    """

    key: ClassVar[str] = "bca"
    source: ClassVar[Source | None] = Source("efron1987", "Sec. 3")

    resamples: int = 2000

    def __post_init__(self) -> None:
        check_at_least("resamples of bca", self.resamples, 100, MOST_RESAMPLES)

    def band(
        self,
        values: FloatArray,
        *,
        level: float = 0.95,
        seed: int = 0,
        means: Callable[[FloatArray], FloatArray] | None = None,
    ) -> Band:
        """Return the intervals.

        Parameters
        ----------
        values, level, seed : as for every interval
        means : replaces ``resample``: returns the resampled means of the columns that vary,
            (resamples, n_columns), for callers that compute them on other machines
        """
        resample = means if means is not None else lambda varying: self.resample(varying, seed)
        return make_band(
            values, level, self.key, lambda varying: self._limits(varying, resample(varying).copy(), level)
        )

    def resample(self, values: FloatArray, seed: int) -> FloatArray:
        """Return the mean of each column over each resample of the users, (resamples, n_columns)."""
        return resampled_means(values, range(self.resamples), seed=seed, stage=self.key)

    def _limits(self, values: FloatArray, means: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        mean = values.mean(axis=0)
        means.sort(axis=0)
        # A resampled mean equal to the mean may differ from it by rounding: it counts as a tie.
        slack = 1e-12 * np.abs(mean)
        below = (means < mean - slack).mean(axis=0)
        tied = (np.abs(means - mean) <= slack).mean(axis=0)
        fraction = np.clip(below + tied / 2, 0.5 / self.resamples, 1 - 0.5 / self.resamples)
        bias = ndtri(fraction)
        centred = values - mean
        acceleration = (centred**3).sum(axis=0) / (6 * (centred**2).sum(axis=0) ** 1.5)
        limits = []
        for sign in (-1, 1):
            z = bias + sign * ndtri((1 + level) / 2)
            alpha = ndtr(bias + z / (1 - acceleration * z))
            limits.append([np.quantile(means[:, column], alpha[column]) for column in range(len(alpha))])
        return np.clip(limits[0], 0, 1), np.clip(limits[1], 0, 1)


@dataclass(frozen=True)
class AutoUserInterval(Interval):
    """``bca`` up to ``most`` users; ``normal`` above, where the two agree and the bootstrap takes seconds.

    The method's name in the result is that of the interval used.

    Parameters
    ----------
    most : largest number of users that are bootstrapped
    """

    key: ClassVar[str] = "auto"

    most: int = 50_000

    def band(self, values: FloatArray, *, level: float = 0.95, seed: int = 0) -> Band:
        """Return the intervals of the chosen method."""
        return self.chosen(len(values)).band(values, level=level, seed=seed)

    def chosen(self, n_users: int) -> Interval:
        """Return the method for a number of users."""
        return BCa() if n_users <= self.most else Normal()


INTERVALS: Registry[Interval] = Registry(
    "interval",
    {
        "auto": "truerank.inference.user_interval:AutoUserInterval",
        "bca": "truerank.inference.user_interval:BCa",
        "normal": "truerank.inference.user_interval:Normal",
    },
)
