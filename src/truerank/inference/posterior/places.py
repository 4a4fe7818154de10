r"""Law of the place of a target among the targets of its user, given its rank among irrelevant items.

A user's best target has few irrelevant items above it *because* it is the best of several: its place among
the user's targets is known from their scores, and it says more about its rank than a small sample does. For
exchangeable targets the law of the place follows from the distribution of ranks. Let p be the fraction of
targets, over users with n targets each, that rank above a given one. If all users were alike, each of the
other n - 1 targets of the user would be above with probability p. Users differ: with log-odds

.. math:: \operatorname{logit} p_u = \eta(p) + s z_u, \qquad z_u \sim N(0, 1), \qquad
          \operatorname{E} \operatorname{expit}(\eta(p) + s z) = p

the number of other targets above is Binomial(n - 1, p_u), averaged over the z of users who have a target
there. s is the spread between users; 0 makes them alike.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import expit, gammaln, logit

from truerank.core.types import FloatArray, IntArray, frozen

#: Spreads between users that are summed over. Exact ranks of real models have 0.2 to 1.2.
SPREADS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0])
#: Log-odds of p at which the law is tabulated.
_ODDS = np.linspace(-14.0, 10.0, 481)
_FRACTIONS = np.concatenate([[0.0], expit(_ODDS), [1.0]])
_NORMAL = np.linspace(-3.6, 3.6, 37)  # of z
_SINGLES = 8  # so many first places, and numbers of targets, are not put together
_RATIO = 1.25  # of places, and of numbers of targets, that are


def round_down(numbers: IntArray) -> IntArray:
    """Return the largest step of a fixed ladder at most as large: 0..8, then by a quarter.

    Examples
    --------
    >>> round_down(np.array([0, 7, 9, 11, 12])).tolist()
    [0, 7, 8, 10, 12]
    """
    ladder = _ladder()
    found: IntArray = ladder[np.searchsorted(ladder, numbers, side="right") - 1]
    return found


@lru_cache(maxsize=1)
def _ladder() -> IntArray:
    steps = [*range(_SINGLES + 1)]
    while steps[-1] < 1 << 40:
        steps.append(max(steps[-1] + 1, round(steps[-1] * _RATIO)))
    return np.array(steps)


def middle_of(number: int) -> int:
    """Return a number in the middle of those that ``round_down`` takes to this one.

    Examples
    --------
    >>> middle_of(5), middle_of(94)
    (5, 105)
    """
    ladder = _ladder()
    following = int(ladder[np.searchsorted(ladder, number, side="right")])
    return (number + following - 1) // 2


@lru_cache(maxsize=512)
def place_table(n_targets: int, n_places: int, spread: float) -> FloatArray:
    """Return P(place of the target, fraction of targets above <= p), (n_steps + 1, n_fractions).

    Places 0, 1, ... (targets of the same user above) are put together by ``round_down``, those from
    ``n_places`` on are the last row. Column sums are p. The fractions are those of ``joint_masses``.
    """
    others = n_targets - 1
    n_places = min(n_places, n_targets)
    shift = spread * _NORMAL if spread > 0 else np.zeros(1)
    weight = np.exp(-(_NORMAL**2) / 2) if spread > 0 else np.ones(1)
    log_odds = _centred(spread, weight / weight.sum())[:, None] + shift
    above = expit(log_odds)
    density = above * expit(-log_odds) * weight
    density /= density.sum(axis=1, keepdims=True)
    log_above, log_below = -np.logaddexp(0, -log_odds), -np.logaddexp(0, log_odds)
    place = np.arange(n_places)
    coefficient = gammaln(n_targets) - gammaln(place + 1) - gammaln(n_targets - place)
    rows = np.empty((n_places, len(_ODDS)))
    for k, constant in zip(place.tolist(), coefficient.tolist(), strict=True):
        rows[k] = (density * np.exp(constant + k * log_above + (others - k) * log_below)).sum(axis=1)
    starts = np.flatnonzero(np.diff(round_down(place), prepend=-1))
    rows = np.add.reduceat(rows, starts, axis=0)
    rows = np.concatenate([rows, np.maximum(1 - rows.sum(axis=0, keepdims=True), 0.0)])
    rows /= rows.sum(axis=0)
    rows = np.concatenate([rows[:, :1], rows, rows[:, -1:]], axis=1)
    pieces = (rows[:, 1:] + rows[:, :-1]) / 2 * np.diff(_FRACTIONS)
    return frozen(np.concatenate([np.zeros((len(rows), 1)), np.cumsum(pieces, axis=1)], axis=1))


def _centred(spread: float, weight: FloatArray) -> FloatArray:
    """Return eta(p) at the tabulated p."""
    if spread == 0:
        return _ODDS
    eta = np.linspace(3 * _ODDS[0], 3 * _ODDS[-1], 1441)
    mean = expit(eta[:, None] + spread * _NORMAL) @ weight
    is_open = (mean > 1e-300) & (mean < 1 - 1e-13)
    return np.interp(_ODDS, logit(mean[is_open]), eta[is_open])


def joint_masses(table: FloatArray, masses: FloatArray) -> FloatArray:
    """Return P(place, bin) under distributions over bins, (n_places, n_bins, n_draws).

    Parameters
    ----------
    table : (n_places, n_fractions) as of ``place_table``
    masses : (n_bins, n_draws)
    """
    below = np.minimum(np.cumsum(masses, axis=0), 1.0)
    x = np.interp(below, _FRACTIONS, np.arange(len(_FRACTIONS)))
    left = np.minimum(x.astype(np.int64), len(_FRACTIONS) - 2)
    part = x - left
    at_edges = table[:, left] * (1 - part) + table[:, left + 1] * part
    joint = np.diff(at_edges, axis=1, prepend=0.0)
    result: FloatArray = np.maximum(joint, 0.0)
    return result
