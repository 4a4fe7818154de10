"""Unbiased estimates of how far a user's metrics lie below their upper bounds, from a few random scores.

The row of a user is the scores of all candidates; the upper bound, or ceiling, is the value if no item that
is not scored yet ranks above a target.

A user who is left open has a ceiling, and what is to be found out is how far its value lies below it. Mostly
the answer is: not at all. A random part of the row then says so for a fraction of the scores, and the rest of
the row is asked for only where the part shows something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from truerank.core.types import BoolArray, FloatArray, IntArray

#: Shares of a row that are considered for its part.
SHARES: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.125, 0.09, 0.06, 0.04)
#: Promising items of a drawn row that are scored before its part, as a share of the part.
FIRST = 0.05
_NOT_DONE = 0.15  # of the rows that hold something further, before anything is known
_ROUNDING = 1e-9


def steps_to(cutoff: int) -> tuple[int, ...]:
    """Return numbers of further items for which drops are looked at: all small ones, and the cut-off.

    Examples
    --------
    >>> steps_to(10), steps_to(40)
    ((1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 16, 20, 26, 33, 40))
    """
    steps = list(range(1, min(cutoff, 10) + 1))
    while steps[-1] < cutoff:
        steps.append(min(int(steps[-1] * 1.3), cutoff))
    return tuple(steps)


def chance_of_finding(n_left: IntArray, n_part: IntArray, n_counting: IntArray) -> FloatArray:
    """Return the probability that a random part of a row holds at least one of the items that count.

    Parameters
    ----------
    n_left : candidates that are not scored yet
    n_part : of them in the part
    n_counting : of them that count

    Examples
    --------
    >>> chance_of_finding(np.array([10, 10, 10]), np.array([2, 2, 9]), np.array([1, 0, 3])).round(6).tolist()
    [0.2, 0.0, 1.0]
    """
    rest = np.maximum(n_left - n_counting - n_part, 0)
    none = gammaln(n_left - n_counting + 1) - gammaln(rest + 1) - gammaln(n_left + 1)
    none = np.where(n_counting + n_part > n_left, -np.inf, none + gammaln(n_left - n_part + 1))
    chance: FloatArray = np.where(n_counting == 0, 0.0, -np.expm1(np.minimum(none, 0.0)))
    return chance


@dataclass(frozen=True, eq=False)
class RowParts:
    r"""How large a part of each row is asked for, and how far below its ceiling a user may then be reported.

    Parameters
    ----------
    share : (n,) of the candidates of the row that are in the part, at least; 1 for whole rows
    reach : (n, n_metrics) the largest drop that can be reported
    slope : (n,) the largest drop per further item that ranks above the targets

    Notes
    -----
    **Claim.** The reported drop has the mean of the true one, whatever the row holds.

    Let M candidates be left, in an order that was fixed before the part was drawn, and let the part be B of
    them, all sets of B alike likely. An item counts if it is ranked above, or tied with, a target that still
    gains something. A is the set of items that count up to the place in the order where the row is decided,
    or up to its end, and T their number. Where the part holds none of A, a drop of 0 is reported. Else the
    row is scored up to that place, so that the drop :math:`\delta` of its value below the ceiling and T are
    known, and :math:`\delta / P_T` is reported, with

    .. math:: P_T = 1 - \binom{M - T}{B} \Big/ \binom{M}{B}

    the probability that the part holds some of A. A, T and :math:`\delta` do not depend on the part, so the
    mean of the report is :math:`P_T\, \delta / P_T = \delta` where T > 0. Where T = 0 nothing of the row
    changes the gain of a target, so that :math:`\delta = 0`, provided that the ceiling is the value for what
    is scored so far; users for whom it is not (ties in random order, metrics that may grow) have whole rows.

    *Promising items first.* Before the part is drawn the row may be scored further in its order, by a number
    that is known beforehand. What that takes away is known, and is reported as it is; the part says how far
    the value lies below what is left, and its size may depend on what was found. Both together have the mean
    of the whole drop. Most drops are found in this way, and reports of them are not divided by a small
    chance, so that they say little against bets on small drops. The size of the part is then such that no
    report is larger than the reach that was stated (``within``); a whole row always is such a part.

    *Reach.* T further items take most away if all rank above all targets, so that :math:`\delta \le
    \delta_T` for the drop that this causes. :math:`P_T \ge 1 - (1 - B/M)^T` then gives the largest report:
    a recall that one item ends is reported with up to M/B, one that takes eight of them with little more
    than 1. Small parts are therefore cheap and bets on them small; of the shares, that one is chosen for
    which reach times expected cost is smallest, which is what the evaluation costs in the end: users are
    drawn in proportion to their reach, and the number of draws grows with the sum of it.
    """

    share: FloatArray
    reach: FloatArray
    slope: FloatArray

    @classmethod
    def of(
        cls,
        drops: FloatArray,
        steps: Sequence[int],
        is_whole: BoolArray | None = None,
        within: FloatArray | None = None,
        importance: FloatArray | None = None,
    ) -> RowParts:
        """Choose the parts.

        Parameters
        ----------
        drops : (n, n_metrics, len(steps)) how far values fall when so many further items rank above
        steps : numbers of further items, ascending; the last one takes everything
        is_whole : (n,) users whose rows must be whole
        within : (n, n_metrics) the largest drop that may be reported: the smallest parts are chosen that keep
            to it, or whole rows. None: no limit, and parts are those that cost least in the end
        importance : (n_metrics,) weights of the metrics, in [0, 1], by which drops count where parts are
            chosen; 0 for a metric that matters no more. None: 1 for all

        Examples
        --------
        >>> recall = np.zeros((2, 1, 10))
        >>> recall[0, 0, 0:], recall[1, 0, 7:] = 1, 1  # one more item is enough, and eight are
        >>> parts = RowParts.of(recall, range(1, 11))
        >>> parts.share.tolist(), parts.reach.round(2).ravel().tolist(), parts.slope.tolist()
        ([1.0, 0.04], [1.0, 3.59], [1.0, 0.125])
        """
        share = np.array(SHARES)
        fewest = np.array([1, *(step + 1 for step in steps[:-1])])  # items that a step stands for, at least
        chance = 1 - (1 - share[:, None]) ** fewest
        reach = (drops[:, :, None, :] / chance).max(axis=3)  # (n, n_metrics, n_shares)
        importance = np.ones(drops.shape[1]) if importance is None else importance
        total = (importance[:, None] * reach).max(axis=1) * _cost(share)
        if within is not None:
            is_within = (reach <= within[:, :, None] + _ROUNDING).all(axis=1)
            total = np.where(is_within | (share == 1), share, np.inf)
        if is_whole is not None:
            total[is_whole, 1:] = np.inf
        chosen = total.argmin(axis=1)
        slope = (drops[:, importance > 0] / fewest).max(axis=(1, 2), initial=0.0)
        return cls(share[chosen], np.take_along_axis(reach, chosen[:, None, None], axis=2)[:, :, 0], slope)

    def cost(self) -> FloatArray:
        """Return about which share of the row is asked for in the end."""
        return _cost(self.share)


def _cost(share: FloatArray) -> FloatArray:
    """Return about which share of a row is asked for in the end, for parts of a share."""
    more = np.where(share < 1, FIRST * share, 0.0)
    cost: FloatArray = share + more + _NOT_DONE * (1 - (1 - share) ** 2) * (1 - share)
    return cost
