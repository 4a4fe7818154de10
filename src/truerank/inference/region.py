"""Confidence limits of mean chances, for rows that are independent but not alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import betaincinv, xlogy

from truerank.core.check import check_level
from truerank.core.types import FloatArray, IntArray

Method: TypeAlias = Literal["binomial", "chernoff", "dkw"]
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Region:
    """Limits within which the mean chances of all events lie at once.

    Parameters
    ----------
    low, high : (n_events,)
    level : probability, at least, that none of them is missed
    method : how they were made
    """

    low: FloatArray
    high: FloatArray
    level: float
    method: Method


def make_region(share: FloatArray, n: int, *, level: float, method: Method) -> Region:
    r"""Return limits of :math:`\bar p_e = \frac1n \sum_i p_{ie}` for all events e, from the shares seen.

    Each of n independent rows has its own chances. ``binomial`` and ``chernoff`` split what the level leaves
    evenly over the ends of all events (Bonferroni), ``dkw`` takes one distance for all.

    Parameters
    ----------
    share : (n_events,) means over rows of numbers within [0, 1]
    n : rows
    level : simultaneous confidence
    method : ``binomial`` for events that happen or not; ``chernoff`` for any numbers within [0, 1];
        ``dkw`` for nested events, those that a number stays below a limit

    Notes
    -----
    *binomial.* The number of events is a sum of independent indicators, whose law is not binomial. By
    Hoeffding's theorem 4 its chance to reach s is at most the binomial one of the same mean, provided that
    :math:`s \ge n \bar p + 1`; likewise below. Clopper and Pearson's limits :math:`c_-(s), c_+(s)` hence hold
    at every level when drawn out to :math:`\min(c_-, (s-1)/n)` and :math:`\max(c_+, (s+1)/n)`: a limit is
    then missed only by an s for which the theorem speaks. The change matters for s = 1 and s = n - 1 alone.

    *chernoff.* :math:`\Pr(S \ge n x) \le \exp(-n \, \mathrm{KL}(x, \bar p))` for :math:`x \ge \bar p` holds
    for sums of independent numbers within [0, 1] (Hoeffding 1963), users with several targets among them.

    *dkw.* Half-width :math:`\sqrt{(1 + \log(2/\alpha))/2n}`; Massart's constant 2 needs rows that are alike,
    Bretagnolle's 2e does not.
    """
    check_level(level)
    share = np.clip(np.asarray(share, dtype=np.float64), 0.0, 1.0)
    if method == "dkw":
        half = np.sqrt((1 + np.log(2 / (1 - level))) / (2 * n))
        return Region(np.maximum(share - half, 0.0), np.minimum(share + half, 1.0), level, method)
    alpha = (1 - level) / (2 * len(share))
    limits = binomial_limits if method == "binomial" else chernoff_limits
    low, high = limits(share, n, alpha)
    return Region(low, high, level, method)


def binomial_limits(share: FloatArray, n: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return limits, each missed with at most ``alpha``, of mean chances of which a share was seen.

    Examples
    --------
    >>> low, high = binomial_limits(np.array([0.0, 0.01, 0.5]), 100, 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.0, 0.3983], [0.0362, 0.0545, 0.6017])
    """
    count: IntArray = np.rint(np.asarray(share) * n).astype(np.int64)
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1, alpha), 0.0)
    high = np.where(count < n, betaincinv(count + 1, np.maximum(n - count, 1), 1 - alpha), 1.0)
    low = np.clip(np.minimum(low, (count - 1) / n), 0.0, 1.0)
    return low, np.clip(np.maximum(high, (count + 1) / n), 0.0, 1.0)


def chernoff_limits(share: FloatArray, n: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return limits, each missed with at most ``alpha``, of the means of numbers within [0, 1].

    Examples
    --------
    >>> low, high = chernoff_limits(np.array([0.0, 0.5]), 100, 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.3667], [0.0362, 0.6333])
    """
    most = -np.log(alpha) / n
    share = np.asarray(share, dtype=np.float64)
    ends = []
    for end in (0.0, 1.0):
        inside, outside = share.copy(), np.full_like(share, end)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_in = _divergence(share, middle) <= most
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def _divergence(x: FloatArray, p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = xlogy(x, x / p) + xlogy(1 - x, (1 - x) / (1 - p))
    return np.where((p <= 0) & (x > 0) | (p >= 1) & (x < 1), np.inf, np.where(x == p, 0.0, found))
