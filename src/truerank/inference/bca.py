"""The bootstrap interval, bias-corrected and accelerated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from truerank.core.check import check_at_least
from truerank.core.interval import Band, Interval
from truerank.core.source import Source
from truerank.core.types import FloatArray
from truerank.inference.constant import band_of
from truerank.inference.resample import resampled_means


@dataclass(frozen=True)
class BCa(Interval):
    r"""Bootstrap over users, corrected for bias and skewness; O(resamples x n_users).

    .. math::
        \alpha_\pm = \Phi\left(z_0 + \frac{z_0 \pm z}{1 - a (z_0 \pm z)}\right), \qquad
        a = \frac{\sum_u (x_u - \bar x)^3}{6 \left(\sum_u (x_u - \bar x)^2\right)^{3/2}}

    with :math:`z_0` from the share of resampled means below the mean (ties count half) and the ends read off
    the resampled means at :math:`\alpha_\pm`. All columns share the resamples, so metrics of one model
    stay comparable.

    Parameters
    ----------
    resamples : bootstrap repetitions, at least 100

    Notes
    -----
    Resample b is drawn from the stream (seed, "bca", b), so the result does not depend on batching.
    Checked by: ``scipy.stats.bootstrap`` in tests/inference/test_intervals.py.
    """

    key: ClassVar[str] = "bca"
    source: ClassVar[Source | None] = Source("efron1987", "Sec. 3")

    resamples: int = 2000

    def __post_init__(self) -> None:
        check_at_least("resamples of bca", self.resamples, 100)

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
        means : what returns the resampled means of the columns that vary, (resamples, n_columns), in place of
            ``resample``: for those who draw them elsewhere
        """
        drawn = means if means is not None else lambda varying: self.resample(varying, seed)
        return band_of(
            values, level, self.key, lambda varying: self._limits(varying, drawn(varying).copy(), level)
        )

    def resample(self, values: FloatArray, seed: int) -> FloatArray:
        """Return the mean of each column over each resample of the users, (resamples, n_columns)."""
        return resampled_means(values, range(self.resamples), seed=seed, stage=self.key)

    def _limits(self, values: FloatArray, means: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        mean = values.mean(axis=0)
        means.sort(axis=0)
        # Rounding differs between the mean and a resampled mean of equal value: call them ties.
        slack = 1e-12 * np.abs(mean)
        below = (means < mean - slack).mean(axis=0)
        tied = (np.abs(means - mean) <= slack).mean(axis=0)
        share = np.clip(below + tied / 2, 0.5 / self.resamples, 1 - 0.5 / self.resamples)
        bias = ndtri(share)
        centred = values - mean
        acceleration = (centred**3).sum(axis=0) / (6 * (centred**2).sum(axis=0) ** 1.5)
        ends = []
        for sign in (-1, 1):
            z = bias + sign * ndtri((1 + level) / 2)
            alpha = ndtr(bias + z / (1 - acceleration * z))
            ends.append([np.quantile(means[:, column], alpha[column]) for column in range(len(alpha))])
        return np.clip(ends[0], 0, 1), np.clip(ends[1], 0, 1)
