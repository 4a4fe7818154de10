"""Score tests of a mean over users: Wilson's and Tango's intervals for values that are not only 0 and 1.

Student's interval takes the variance of the users that were seen. Where few users differ, that variance is
small just when too few of them were seen, and the interval ends too early. A score interval takes the
variance that users would have if the mean were at the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from truerank.core.plugin import Source
from truerank.core.types import FloatArray

#: Score intervals of the difference of two proportions of the same users: values of -1, 0 and 1.
SOURCE = Source("tango1998")
#: With 95 % at most 3/m of the users who differ are farther away than all m of them that were seen.
_RULE_OF_THREE = 3.0
_MOST_VALUES = 4096  # values that are kept as they are; more of them are put on a grid
_NEARLY_ONE = 1 - 1e-12


@dataclass(frozen=True, eq=False)
class ScoreTest:
    r"""Score test of the mean of values per user, such as differences of two models.

    Parameters
    ----------
    deviation : distances of the values from their mean, increasing
    share : fraction of the users at each of them
    below, above : how far below and above the mean a user may be
    n_users : number of users

    Notes
    -----
    Which users would there be if the mean were :math:`\mu`, farther up by m? Those that make the sample most
    likely (empirical likelihood), where users may be anywhere up to a largest distance b above the mean. In
    units of b, with y the distances that were seen and f the fraction of users at each,

    .. math::
        g(y) \propto f(y) / (1 - s y), \quad 0 \le s < 1, \quad \sum_y g(y) y = m,

    and where :math:`s = 1` is not enough, a fraction of users at b beside them. The statistic is
    :math:`m \sqrt{n - 1} / \sqrt{v}` with v the variance of g. For values of 0 and 1 it is Wilson's
    (1927), for differences of -1, 0 and 1 that of [tango1998]_, whose value at no difference is McNemar's.
    Where many users differ, v is nearly the variance of the sample, and the statistic Student's.

    The largest distance b is that of the farthest user plus 3/k where k users differ from the median, up to
    values of -1 or 1: by the rule of three so many of those who differ may be farther away than all that were
    seen, and none by more than 1. A few have not shown how far others go; hundreds nearly have.
    """

    deviation: FloatArray
    share: FloatArray
    below: float
    above: float
    n_users: int

    @classmethod
    def of(cls, values: FloatArray) -> ScoreTest:
        """Return the test of the mean of values in [-1, 1], (n_users,); they must not be all equal."""
        mean = float(values.mean())
        deviation = values - mean
        away = np.abs(values - np.median(values))
        n_away = int((away > 1e-12).sum())
        farthest = float(np.abs(deviation).max())
        reach = farthest + _RULE_OF_THREE / n_away
        lowest, highest = -float(deviation.min()), float(deviation.max())
        kept, share = _compressed(deviation)
        return cls(
            kept, share, max(min(reach, 1 + mean), lowest), max(min(reach, 1 - mean), highest), len(values)
        )

    def distances(self, critical: float) -> tuple[float, float]:
        """Return how far below and above the mean the statistic reaches a critical value.

        Examples
        --------
        >>> hits = ScoreTest.of(np.repeat([0.0, 1.0], [90, 10]))
        >>> below, above = hits.distances(1.96)
        >>> round(0.1 + above, 3)  # Wilson's limit, with n - 1 instead of n: 0.174
        0.175
        """
        return self._distance(critical, is_above=False), self._distance(critical, is_above=True)

    def statistic(self, distance: float) -> float:
        """Return the statistic of the mean that lies at a signed distance from that of the sample.

        Examples
        --------
        >>> score = ScoreTest.of(np.repeat([-1.0, 0.0, 1.0], [4, 80, 16]))
        >>> round(score.statistic(-0.12), 3)  # McNemar's (16 - 4) / sqrt(16 + 4), with n - 1: 2.67
        2.67
        """
        if distance == 0:
            return 0.0
        moments, reach = self._moments(distance > 0)
        aim = abs(distance) / reach
        if aim >= 1:
            return float("inf")
        mean, variance = moments(_root(lambda tilt: moments(tilt)[0] - aim))
        return mean * math.sqrt((self.n_users - 1) / variance)

    def _distance(self, critical: float, *, is_above: bool) -> float:
        moments, reach = self._moments(is_above)

        def excess(tilt: float) -> float:
            mean, variance = moments(tilt)
            return mean * math.sqrt(self.n_users - 1) - critical * math.sqrt(max(variance, 0.0))

        return reach * moments(_root(excess))[0]

    def _moments(self, is_above: bool) -> tuple[Callable[[float], tuple[float, float]], float]:
        """Return the mean and variance of g by its tilt, in units of the largest distance, and that distance.

        Tilts up to 1 are s; those from 1 to 2 are 1 + the fraction of users at the largest distance.
        """
        reach = self.above if is_above else self.below
        sign, order = (1, slice(None)) if is_above else (-1, slice(None, None, -1))
        y, share = sign * self.deviation[order] / reach, self.share[order]

        def moments(tilt: float) -> tuple[float, float]:
            weight = share / (1 - min(tilt, _NEARLY_ONE) * y)
            weight /= weight.sum()
            farthest = max(tilt - 1, 0.0)
            mean = (1 - farthest) * float(weight @ y) + farthest
            square = (1 - farthest) * float(weight @ (y * y)) + farthest
            return mean, square - mean * mean

        return moments, reach


def _root(function: Callable[[float], float]) -> float:
    """Return the tilt at which an increasing function is 0."""
    found: float = brentq(function, 0.0, 2.0, xtol=1e-14, rtol=1e-12)
    return found


def _compressed(deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return distinct values and the fraction of each.

    Many values are divided between the neighbouring points of a grid, which keeps their mean and adds at most
    a quarter of the squared step to their variance.
    """
    n = len(deviation)
    if n <= _MOST_VALUES:
        kept, count = np.unique(deviation, return_counts=True)
        return kept, count / n
    grid = np.linspace(deviation.min(), deviation.max(), _MOST_VALUES)
    place = (deviation - grid[0]) * ((_MOST_VALUES - 1) / (grid[-1] - grid[0]))
    cell = np.minimum(place.astype(np.int64), _MOST_VALUES - 2)
    part = place - cell
    share = np.bincount(cell, 1 - part, _MOST_VALUES) + np.bincount(cell + 1, part, _MOST_VALUES)
    return grid[share > 0], share[share > 0] / n
