"""Many comparisons at once: intervals that all hold together, and p-values to match."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from truerank.comparison.contrast import Contrasts
from truerank.comparison.options import Correction
from truerank.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class Family:
    """Intervals and p-values of all differences, arrays (n_pairs, n_metrics); NaN for a single user.

    Parameters
    ----------
    low, high : ends of the intervals, within [-1, 1]
    p_value, p_adjusted : of no difference, alone and among all comparisons
    probability : that the first is better, as far as noise goes: Student's, at the difference
    """

    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray
    probability: FloatArray


def make_family(found: Contrasts, *, level: float, correction: Correction) -> Family:
    r"""Return intervals and p-values by one of the corrections.

    Notes
    -----
    With t = difference/error on n - 1 degrees of freedom and its normal score
    :math:`z = \Phi^{-1}(T_{n-1}(t))`:

    * ``max-t``: the critical score is the quantile of :math:`\max_c |z^*_c|` over resampled users,
      :math:`z^* = \text{shift}/\text{error}`, which knows how comparisons depend on each other. An adjusted
      p-value is the share of maxima that reach :math:`|z|`; it is below 1 - level where the interval leaves
      out 0. The interval is difference :math:`\pm T^{-1}_{n-1}(\Phi(z_{crit}))` error.
    * ``holm``: p-values by Holm's steps, intervals by Bonferroni's level, which may be wider.
    * ``none``: each for itself.

    Differences that are equal for all users have no spread. At the level at most
    :math:`s = 1 - ((1 - \text{level})/2)^{1/n}` of the users differ, by at most 1, so the mean lies within
    :math:`c (1 - s) \pm s`, and the p-value is that of the level whose interval ends at 0:
    :math:`2 (1 + |c|)^{-n}`. They take their part of the family's level as in Bonferroni's correction.
    """
    shape = found.value.shape
    value, error = found.value.ravel(), found.error.ravel()
    n_users = np.repeat(found.n_users, shape[1]).astype(np.float64)
    is_known = np.isfinite(error)
    is_flat = is_known & (error == 0)
    varies = is_known & ~is_flat
    size = int(is_known.sum())
    alpha = 1 - level
    single = alpha if correction == "none" else alpha / max(size, 1)

    p_value = np.full(len(value), np.nan)
    p_value[is_flat] = np.minimum(2 * (1 + np.abs(value[is_flat])) ** -n_users[is_flat], 1.0)
    t = value[varies] / error[varies]
    free = n_users[varies] - 1
    p_value[varies] = np.minimum(2 * stdtr(free, -np.abs(t)), 1.0)

    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    share = 1 - (single / 2) ** (1 / n_users[is_flat])
    low[is_flat] = value[is_flat] * (1 - share) - share
    high[is_flat] = value[is_flat] * (1 - share) + share
    p_adjusted = p_value.copy()
    tail: FloatArray = np.full(len(t), single / 2)
    if correction == "max-t" and varies.any():
        part = size / int(varies.sum())  # what flat differences leave of the level
        scores = np.abs(ndtri(stdtr(free, -np.abs(t))))
        shifts = found.shifts.reshape(len(found.shifts), -1)[:, varies]
        maxima = np.sort(np.abs(shifts / error[varies]).max(axis=1))
        reached = len(maxima) - np.searchsorted(maxima, scores, side="left")
        shares = part * (1 + reached) / (len(maxima) + 1)
        p_adjusted[varies] = np.minimum(np.maximum(shares, part * p_value[varies]), 1.0)
        tail[:] = min(float(ndtr(-_critical(maxima, alpha / part))), alpha / part / 2)
        p_adjusted[is_flat] = np.minimum(size * p_value[is_flat], 1.0)
    elif correction != "none":
        p_adjusted[is_known] = _holm(p_value[is_known])
    half = np.where(tail > 0, -stdtrit(free, np.maximum(tail, 1e-300)), np.inf) * error[varies]
    low[varies], high[varies] = value[varies] - half, value[varies] + half

    probability = np.full(len(value), np.nan)
    probability[is_flat] = 0.5 + np.sign(value[is_flat]) * (0.5 - p_value[is_flat] / 2)
    probability[varies] = stdtr(free, t)
    return Family(
        np.clip(low, -1, 1).reshape(shape),
        np.clip(high, -1, 1).reshape(shape),
        p_value.reshape(shape),
        p_adjusted.reshape(shape),
        probability.reshape(shape),
    )


def _critical(maxima: FloatArray, alpha: float) -> float:
    """Return the smallest maximum reached by a share below alpha, in the counting of adjusted p-values."""
    # (1 + #{maxima >= z}) / (B + 1) <= alpha holds beyond the place that leaves this many above
    above = int(np.floor(alpha * (len(maxima) + 1))) - 1
    if above < 0:
        return float("inf")  # too few resamples for the level: nothing can be told
    return float(maxima[len(maxima) - above - 1])


def _holm(p_value: FloatArray) -> FloatArray:
    """Return Holm's adjusted p-values.

    Examples
    --------
    >>> _holm(np.array([0.01, 0.04, 0.03])).round(4).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_value, kind="stable")
    steps = p_value[order] * np.arange(len(p_value), 0, -1)
    adjusted = np.empty_like(p_value)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
