"""Confidence sequences by betting: intervals for means over users that are valid at any stopping time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray

#: Source of the bets; choosing them for a wanted half-width is ours.
SOURCE = Source("waudbysmith2024", "Sec. 4 and 5")
#: Fraction of the capital at risk in one bet.
LARGEST_BET = 0.75
_PRIOR = 0.25  # variance before any user is seen: the largest that values in [0, 1] can have
_ROUNDING = 1e-9
_SUMMING = 1e-12  # by which means of the same values may differ, added in another order
_HALVINGS = 24  # bisection finds limits to 6e-8, rounded outwards


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    r"""Confidence sequence for a mean over users who are drawn at random one after the other.

    Parameters
    ----------
    value : (n,) in [least, most], in the order of the draws
    sum_before : (n,) sum of all values known before the draw, those that needed no draw included
    n_remaining : (n,) users whose value was not known before the draw, from whom it is uniform; or the sum of
        their weights
    bet : (n,) bet per unit of weight N/n_remaining, fixed before the draw: the half-width that is aimed at
        divided by a predicted variance
    n_users : size N of the finite population; None for an infinite population
    known_sum : sum of all values known at the end
    most_unknown : the largest sum that the values of all other users can have: their number, or less
    least_unknown : the smallest sum that they can have
    least, most : limits of the values, fixed before each draw: (n,) or the same for all
    smallest : the smallest mean that is possible: 0, or -1 for differences
    bet_smaller : (n,) bets on values being smaller, where they are others than those on being larger; 0 where
        there is none, so that the sum before need not be right for them
    largest : fraction of the capital at risk in one bet on larger values, at most, below 1 and fixed before
        each draw: (n,) or the same for all
    largest_smaller : the same for bets on smaller values
    lower_share : of 1 - level that the lower limit gets, fixed before the first draw; the upper one gets the
        rest

    Notes
    -----
    **Claim.** With probability at least ``level`` the mean lies within ``limits`` after every draw at once.
    So the limits are valid at the end whatever rule decided to stop there.

    Proof, as in [waudbysmith2024]_. Let m be the true mean over the N users. Given all that was known before
    draw i, the drawn user is uniform on the remaining ones, so the mean of its value x is

    .. math:: \mu_i(m) = (N m - \text{sum before}_i) / \text{remaining}_i

    exactly, and mu = m for an infinite population. Bets of :math:`\lambda_i` with
    :math:`\lambda_i (\mu_i - \text{least}_i) \le \text{largest}_i < 1` on x being larger have the capital
    :math:`K_i = K_{i-1} (1 + \lambda_i (x_i - \mu_i))`. The factor is positive and has mean 1, because
    lambda_i was fixed before the draw: K is a nonnegative martingale that starts at 1. By Ville's inequality
    it ever reaches 1/a with probability a at most. The same holds for bets on x being smaller. Each side has
    its part a of 1 - level, half of it or ``lower_share``, and a mean m is rejected once the capital of one
    side has reached 1/a. Each factor is monotone in m, so the means that are not rejected form an interval,
    whose limits are found by bisection. The upper limit needs little of 1 - level where ceilings are known:
    the mean of the ceilings is a limit that holds for certain.

    Bets of :math:`\lambda_i = (N / \text{remaining}_i)\, h / \text{variance}_i` grow fastest against means
    that lie h away. Then the half-width h is reached when :math:`\sum_i (N / \text{remaining}_i)^2` is about
    2 log(2/(1 - level)) variance / h^2. That sum is n N/(N - n) for n users of N, which is the
    finite-population correction.

    *Ceilings.* Where before draw i each remaining user j is known to have a value of at most c_j, bets are
    better placed on x + 1 - c, which lies in [0, 1] and varies less: the smaller the users' room, the less.
    Its mean over the remaining users is mu_i(m) + 1 - mean(c), so ``value`` is x + 1 - c and ``sum_before``
    is larger by the sum of c_j - 1 over the remaining users, the drawn one included. The ceilings must be
    fixed before the draw, as the bets; they may fall from draw to draw.

    *Weights.* Where user j is drawn with a probability proportional to a weight w_j, bets are placed on the
    drop (x - c)/w of the drawn user, raised by 1: its mean is that of x - c over the remaining users divided
    by that of w, so that ``n_remaining`` is the sum of their weights, and stands in ``sum_before`` for the
    number of users. Where w is the most that a value may lie below its ceiling, no drop is below -1.

    *Reports.* The drop itself need not be known. What was said uses no more of it than its mean, given all
    that was known before, and its limits; so any report with the same mean and known limits does, such as
    that of ``RowParts``. Users who stay open after it remain among those who are drawn from.

    *Differences* of two models lie in [-1, 1], or between narrower limits where the ceilings of both are
    known: with x the difference and c the difference of the ceilings, x + 1 - c lies between 1 minus the
    largest ceiling of the first model and 1 plus that of the second.
    """

    value: FloatArray
    sum_before: FloatArray
    n_remaining: IntArray | FloatArray
    bet: FloatArray
    n_users: int | None
    known_sum: float
    most_unknown: float
    least_unknown: float = 0.0
    least: FloatArray | float = 0.0
    most: FloatArray | float = 1.0
    smallest: float = 0.0
    bet_smaller: FloatArray | None = None
    largest: FloatArray | float = LARGEST_BET
    lower_share: float = 0.5
    largest_smaller: FloatArray | float = LARGEST_BET

    def limits(self, *, level: float = 0.95) -> tuple[float, float]:
        """Return the lower and the upper limit after the last draw.

        Examples
        --------
        >>> sequence = ConfidenceSequence.simple(np.array([1.0, 0.0, 1.0, 1.0]), 0.1, n_users=4)
        >>> sequence.limits()  # all users were drawn: the mean is known
        (0.75, 0.75)
        """
        if not ((self.value >= self.least - _ROUNDING).all() and (self.value <= self.most + _ROUNDING).all()):
            raise InvalidData(
                "values per user must lie in [0, 1] for a betting confidence sequence, got "
                f"{self.value.min():g} to {self.value.max():g}. Use a metric with values in [0, 1]."
            )
        if self.n_users is not None and self.most_unknown == self.least_unknown:  # bets have no say
            mean = (self.known_sum + self.most_unknown) / self.n_users
            return mean, mean
        low = self._limit(True, float(-np.log(self.lower_share * (1 - level))))
        high = self._limit(False, float(-np.log((1 - self.lower_share) * (1 - level))))
        if self.n_users is not None:
            low = max(low, (self.known_sum + self.least_unknown) / self.n_users - _SUMMING)
            high = min(high, (self.known_sum + self.most_unknown) / self.n_users + _SUMMING)
        return (low, high) if low <= high else (high, low)

    @classmethod
    def simple(cls, value: FloatArray, half_width: float, *, n_users: int | None) -> ConfidenceSequence:
        """Return the sequence of users drawn without replacement, with bets aimed at a half-width."""
        n_drawn = np.arange(len(value))
        sums = np.concatenate([[0.0], np.cumsum(value)])
        total = len(value) if n_users is None else n_users
        return cls(
            value,
            sums[:-1],
            total - n_drawn,
            half_width / predictable_variance(value),
            n_users,
            float(sums[-1]),
            float(total - len(value)),
        )

    def _limit(self, is_lower: bool, threshold: float) -> float:
        """Return the innermost mean that is rejected, or the extreme of all means when none is."""
        outside, inside = (self.smallest, 1.0) if is_lower else (1.0, self.smallest)
        if self.log_capital(outside, is_lower) < threshold:
            return outside
        for _ in range(_HALVINGS):
            middle = (outside + inside) / 2
            if self.log_capital(middle, is_lower) >= threshold:
                outside = middle
            else:
                inside = middle
        return outside

    def log_capital(self, mean: float, is_lower: bool) -> float:
        """Return the largest logarithm that the capital of bets against a mean ever had."""
        return float(self._log_capitals(mean, is_lower).max(initial=0.0))

    def last_log_capital(self, mean: float, is_lower: bool, stop: float = np.inf) -> float:
        """Return the logarithm of the capital of bets against a mean after the last draw.

        Parameters
        ----------
        stop : after the first draw instead at which the logarithm was this or more, if there is one
        """
        capitals = self._log_capitals(mean, is_lower)
        if len(capitals) == 0:
            return 0.0
        is_there = capitals >= stop
        return float(capitals[is_there.argmax()] if is_there.any() else capitals[-1])

    def _log_capitals(self, mean: float, is_lower: bool) -> FloatArray:
        """Return the logarithm of the capital after each draw; infinite for means that are impossible."""
        weight = 1.0 if self.n_users is None else self.n_users / self.n_remaining
        if self.n_users is None:
            expected = np.full(len(self.value), mean)
        else:
            expected = (self.n_users * mean - self.sum_before) / self.n_remaining
        room, gain = expected - self.least, self.value - expected
        if not is_lower:
            room, gain = self.most - expected, -gain
        bet = self.bet if is_lower or self.bet_smaller is None else self.bet_smaller
        if ((room < -_ROUNDING) & (bet > 0)).any():  # impossible given the values known so far
            return np.full(len(self.value), np.inf)
        largest = self.largest if is_lower else self.largest_smaller
        bets = np.minimum(weight * bet, largest / np.maximum(room, _ROUNDING))
        capitals: FloatArray = np.cumsum(np.log1p(bets * gain))
        return capitals


def predictable_variance(
    value: FloatArray, seen: FloatArray | None = None, *, prior: float = _PRIOR, n_prior: float = 1.0
) -> FloatArray:
    """Return, for each value, the variance of those before it, shrunk towards a guess; ``seen`` come first.

    Parameters
    ----------
    value, seen : in the order of the draws
    prior, n_prior : the guess, and the number of values that it counts for

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
    result: FloatArray = ((n_prior * prior + spread) / (n_prior + count))[len(first) :]
    return result
