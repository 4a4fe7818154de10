"""Intervals for means over users that hold at every moment, so that looking after each user is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray

#: Where the bets come from; that they are made for a wanted half-width is ours.
SOURCE = Source("waudbysmith2024", "Sec. 4 and 5")
_LARGEST = 0.75  # of the capital, at stake in one bet
_PRIOR = 0.25  # variance of one user before any is seen: the largest there is
_ROUNDING = 1e-9
_HALVINGS = 24  # ends are found to 6e-8, outwards


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    r"""Values of users in the order in which they were drawn, and what was known before each.

    Parameters
    ----------
    value : (n,) in [0, 1]
    before : (n,) sum of all values known before the draw, those that needed no draw included
    left : (n,) users whose value was not known before the draw; the drawn one is any of them alike
    stake : (n,) bet per unit of weight N/left, fixed before the draw: the half-width that is aimed at / a
        guess of the variance of the draw
    n_users : users the mean is over; None for all users like them, of whom the drawn ones are a sample
    known : sum of all values known at the end
    unknown : users whose value is not known at the end

    Notes
    -----
    **Claim.** With probability at least ``level`` the mean lies within ``limits`` after every draw at once.
    So it lies within the limits at the end whatever made one stop.

    Proof, as in [waudbysmith2024]_. Let m be the true mean over the N users. Given all that was known before
    draw i, the drawn user is any of the ``left`` ones alike, so the mean of its value x is

    .. math:: \mu_i(m) = (N m - \text{before}_i) / \text{left}_i

    exactly, and mu = m where users are drawn from a population. Somebody who bets a share
    :math:`\lambda_i \mu_i \le 3/4` of what they own on x being larger has
    :math:`K_i = K_{i-1} (1 + \lambda_i (x_i - \mu_i))`. The factor is positive and has mean 1, because
    lambda_i was fixed before the draw: K is a nonnegative martingale that starts at 1. By Ville's inequality
    it ever reaches 2/(1 - level) with probability (1 - level)/2 at most. The same holds for bets on x being
    smaller. An m against which one of both ever earned that much is left out. A factor falls (or grows)
    with m, so the m that are left form an interval, whose ends are found by halving.

    Bets of :math:`\lambda_i = (N / \text{left}_i)\, h / \text{variance}_i` earn most against means that lie h
    away. Then the half-width h is reached when :math:`\sum_i (N / \text{left}_i)^2` is about
    2 log(2/(1 - level)) variance / h^2. That sum is n N/(N - n) for n users of N: the correction for a finite
    population comes out by itself.
    """

    value: FloatArray
    before: FloatArray
    left: IntArray
    stake: FloatArray
    n_users: int | None
    known: float
    unknown: int

    def limits(self, *, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the interval.

        Examples
        --------
        >>> draws = ConfidenceSequence.simple(np.array([1.0, 0.0, 1.0, 1.0]), 0.1, n_users=4)
        >>> draws.limits()  # all users were drawn: the mean is known
        (0.75, 0.75)
        """
        if len(self.value) and not (self.value.min() >= 0 and self.value.max() <= 1 + _ROUNDING):
            raise InvalidData("values per user must lie in [0, 1] for an interval by betting.")
        goal = float(np.log(2 / (1 - level)))
        low, high = self._end(True, goal), self._end(False, goal)
        if self.n_users is not None:
            low = max(low, self.known / self.n_users)
            high = min(high, (self.known + self.unknown) / self.n_users)
        return (low, high) if low <= high else (high, low)

    @classmethod
    def simple(cls, value: FloatArray, aim: float, *, n_users: int | None) -> ConfidenceSequence:
        """Return draws one after the other, with nothing known but the values drawn before.

        ``aim`` is the half-width that bets are made for.
        """
        drawn = np.arange(len(value))
        sums = np.concatenate([[0.0], np.cumsum(value)])
        total = len(value) if n_users is None else n_users
        return cls(
            value,
            sums[:-1],
            total - drawn,
            aim / predictable_variance(value),
            n_users,
            float(sums[-1]),
            total - len(value),
        )

    def _end(self, is_lower: bool, goal: float) -> float:
        """Return the mean furthest in that is left out, or the last one possible."""
        outside, inside = (0.0, 1.0) if is_lower else (1.0, 0.0)
        if self._earned(outside, is_lower) < goal:
            return outside
        for _ in range(_HALVINGS):
            middle = (outside + inside) / 2
            if self._earned(middle, is_lower) >= goal:
                outside = middle
            else:
                inside = middle
        return outside

    def _earned(self, mean: float, is_lower: bool) -> float:
        """Return the largest logarithm of the capital of bets against a mean."""
        weight = 1.0 if self.n_users is None else self.n_users / self.left
        if self.n_users is None:
            expected = np.full(len(self.value), mean)
        else:
            expected = (self.n_users * mean - self.before) / self.left
        room, gain = expected, self.value - expected
        if not is_lower:
            room, gain = 1 - expected, -gain
        if (room < -_ROUNDING).any():  # the values known so far leave no place for such a mean
            return np.inf
        bets = np.minimum(weight * self.stake, _LARGEST / np.maximum(room, _ROUNDING))
        return float(np.cumsum(np.log1p(bets * gain)).max(initial=0.0))


def predictable_variance(value: FloatArray, seen: FloatArray | None = None) -> FloatArray:
    """Return the variance of all values before each one; ``seen`` come before the first.

    Examples
    --------
    >>> predictable_variance(np.array([1.0, 0.0, 1.0])).round(3).tolist()
    [0.25, 0.125, 0.25]
    """
    first = np.zeros(0) if seen is None else seen
    both = np.concatenate([first, value])
    count = np.arange(len(both))
    sums = np.concatenate([[0.0], np.cumsum(both)])[:-1]
    squares = np.concatenate([[0.0], np.cumsum(both**2)])[:-1]
    spread = np.maximum(squares - sums**2 / np.maximum(count, 1), 0.0)
    result: FloatArray = ((_PRIOR + spread) / (1 + count))[len(first) :]
    return result
