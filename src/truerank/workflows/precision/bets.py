"""Bet sizes of confidence sequences: which share of the capital is at risk on each drawn user.

A confidence sequence (``truerank.inference.anytime``) excludes a mean once bets against it have multiplied
their capital by 1 / (1 - level). Every bet that is chosen before its draw is fair, so sizes decide how many
draws an interval takes, never whether it holds. Users have ceilings here, the largest values that they can
still have, and bets are that values lie near them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray
from truerank.inference.anytime import predictable_variance

#: Draws that a guess of their cost, or of how values vary, counts for.
GUESSED = 20.0
#: Size of a report that is not 0, as a share of the largest, before any is known.
SIZE = 0.5
_AT_RISK = (0.7, 0.93)  # share of the capital that is bet, at least and at most


def at_risk(drop: float, excluded: float, size: float = 1.0) -> float:
    r"""Return the share of the capital at risk in the best bets on drops being smaller than what is excluded.

    .. math:: \frac{(e - d)(1 - e)}{e (s - e)}

    for drops that are 0 or s, with mean d where e is to be excluded and 1 is the largest that is possible;
    all of the capital where that would be more.

    Examples
    --------
    >>> round(at_risk(0.05, 0.1), 3), at_risk(0.05, 0.1, size=0.2), at_risk(0.2, 0.1)
    (0.5, 1.0, 0.0)
    """
    if drop >= excluded:
        return 0.0
    if size <= excluded:
        return 1.0
    return float(min((excluded - drop) * (1 - excluded) / (excluded * (size - excluded)), 1.0))


def growth(drop: float, excluded: float, size: float = 1.0) -> float:
    r"""Return the growth of the logarithm of the capital per draw, of best bets on drops being smaller.

    .. math:: (1 - d) \log\frac{1 - d}{1 - e} + d \log\frac{d}{e}

    for drops that are 0 or 1, with mean d where e is to be excluded; more for smaller drops of the same mean,
    0 where d is not below e.

    Examples
    --------
    >>> round(growth(0.0, 0.1), 3), round(growth(0.05, 0.1), 3), growth(0.2, 0.1)
    (0.105, 0.017, 0.0)
    >>> round(growth(0.05, 0.1, size=0.2), 3)
    0.05
    """
    if drop >= excluded:
        return 0.0
    excluded = min(excluded, 0.999)
    share = min(drop / size, 1.0)
    bet = at_risk(drop, excluded, size) / (1 - excluded)
    found = (1 - share) * np.log1p(bet * excluded)
    return float(found + (share * np.log1p(bet * (excluded - size)) if share > 0 else 0.0))


@dataclass(frozen=True, eq=False)
class Bets:
    """What bets on the next draws are chosen by, each before its draw: (n_draws, n_columns) throughout.

    Parameters
    ----------
    mean : expected fall of a column, as a share of the weight; negative where it is expected to rise
    variance : of the values
    size : (2, n_draws, n_columns) expected falls and rises, where there is one
    """

    mean: FloatArray
    variance: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, drawn: FloatArray, seen: FloatArray, guess: FloatArray, n_guess: FloatArray) -> Bets:
        """Choose them by all values before a draw, and by a guess of the mean fall.

        Parameters
        ----------
        drawn, seen : (n, n_columns) values of these draws, and of those before
        guess, n_guess : (n_columns,) the guess, and the number of draws that it counts for
        """
        spread = np.maximum(np.abs(guess) * (1 - np.abs(guess)), 1e-4)
        variance = np.stack(
            [
                predictable_variance(
                    drawn[:, c], seen[:, c], prior=float(spread[c]), n_prior=float(n_guess[c]) / 4
                )
                for c in range(drawn.shape[1])
            ],
            axis=1,
        )
        fall = 1 - np.concatenate([seen, drawn])

        def before(per_draw: FloatArray) -> FloatArray:
            sums: FloatArray = (np.cumsum(per_draw, axis=0) - per_draw)[len(seen) :]
            return sums

        n_before = np.arange(len(seen), len(fall))[:, None]
        mean = (n_guess * guess + before(fall)) / (n_guess + n_before)
        guessed = n_guess * np.maximum(np.abs(guess), 1e-4)
        size = np.stack(
            [
                (SIZE * guessed + before(one**2)) / (guessed + before(one))
                for one in (np.maximum(fall, 0.0), np.maximum(-fall, 0.0))
            ]
        )
        return cls(mean, variance, size)

    def at_risk(self, side: int, excluded: FloatArray, most: FloatArray) -> FloatArray:
        """Return the shares of the capital for bets on larger (1) or smaller (-1) values.

        Parameters
        ----------
        side : which
        excluded : (n_draws, n_columns) distance from the ceilings that is to be excluded
        most : (n_columns,) the largest fall, or rise, that can be reported
        """
        most = np.where(most > 0, most, 1.0)
        size = np.minimum(self.size[0 if side == 1 else 1] / most, 1.0)
        flat = [
            at_risk(max(side * mean, 0.0), min(e, 0.999), s)
            for mean, e, s in zip(
                (self.mean / most).ravel().tolist(),
                (excluded / most).ravel().tolist(),
                size.ravel().tolist(),
                strict=True,
            )
        ]
        found: FloatArray = np.clip(np.reshape(flat, self.mean.shape), *_AT_RISK)
        return found
