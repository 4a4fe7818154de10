"""The linear program behind identification bounds: the largest mean over all distributions that fit.

Few places that stand for all ranks, with what they may be wrong by.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.types import FloatArray, IntArray

_START = 16  # places per group in the first restricted program
_WHOLE = 300  # so many places in all are taken at once
_ROUNDS = 60
_ADDED = 4  # places added per group and round
_GAP = 1e-6  # of the largest gain: stop when so little is left
_ROUNDING = 1e-7  # limits are so much wider than said, for what chances and the solver are rounded by
#: Small dense programs are faster without presolve; some need it, and now and then one on which the simplex
#: method ends without a result is solved by an interior point.
_WAYS: tuple[tuple[Literal["highs", "highs-ipm"], bool], ...] = (
    ("highs", False),
    ("highs", True),
    ("highs-ipm", True),
)
_NOTHING = 1e-9  # what lies so little beyond them fits


@dataclass(frozen=True, eq=False)
class LinearProgram:
    r"""Masses over places, group by group, whose mean chances lie between limits.

    .. math:: \sum_b \pi_{gb} = s_g, \quad \sum_{gb} \pi_{gb} A^-_{gbe} \le h_e, \quad
              \sum_{gb} \pi_{gb} A^+_{gbe} \ge l_e, \quad \pi \ge 0

    Two matrices, a lower and an upper one, hold chances that are known up to an error: nothing that fits is
    left out. Programs with many places are solved on a few of them, to which those with the largest reduced
    gain are added until none is left (column generation); many objectives share the columns found.

    Parameters
    ----------
    lower, upper : (n_groups, n_places, n_events) chances
    shares : (n_groups,) masses of the groups
    low, high : (n_events,) limits
    """

    lower: FloatArray
    upper: FloatArray
    shares: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def n_places(self) -> int:
        """Places of all groups."""
        return len(self.group)

    @cached_property
    def rows(self) -> FloatArray:
        """Left sides of all limits, written as <=, (n_places, 2 n_events)."""
        n_events = self.lower.shape[2]
        return np.hstack([self.lower.reshape(-1, n_events), -self.upper.reshape(-1, n_events)])

    @cached_property
    def limits(self) -> FloatArray:
        """Right sides, (2 n_events,)."""
        return np.concatenate([self.high, -self.low]) + _ROUNDING

    @cached_property
    def group(self) -> IntArray:
        """The group of each place."""
        return np.repeat(np.arange(len(self.shares)), self.lower.shape[1])

    @property
    def feasible(self) -> IntArray:
        """Places on which some masses fit.

        Raises
        ------
        CannotEstimate
            When no masses fit.
        """
        n_nodes = self.lower.shape[1]
        if self.n_places <= _WHOLE:
            columns: IntArray = np.arange(self.n_places)
        else:
            some = np.unique(np.linspace(0, n_nodes - 1, _START).astype(np.int64))
            columns = (np.arange(len(self.shares))[:, None] * n_nodes + some).ravel()
        zero = np.zeros(self.n_places)
        columns, bound = self._generate(zero, columns, slack=True)
        if bound < -_NOTHING:
            raise CannotEstimate(
                "no rank distribution fits these sampled ranks at this level, which hardly happens when "
                "negatives are drawn uniformly and independently. Check how they were drawn."
            )
        return columns

    def largest(self, gain: FloatArray, columns: IntArray) -> float:
        """Return an upper limit of the mean gain, (n_groups, n_places), within 1e-6 of the largest one.

        It comes from multipliers: whatever they are, no masses that fit have more. What the solver leaves
        undone makes the limit wider, never narrower.

        Parameters
        ----------
        gain : of every place
        columns : places to begin with, from ``feasible``
        """
        _, bound = self._generate(gain.ravel(), columns, slack=False)
        return bound

    def _generate(self, gain: FloatArray, columns: IntArray, *, slack: bool) -> tuple[IntArray, float]:
        """Solve on some places, add the best of the others, and so on."""
        enough = _NOTHING if slack else _GAP * max(float(np.ptp(gain)), 1e-12)
        bound = np.inf
        for _ in range(_ROUNDS):
            solved = self._solve(gain, columns, slack)
            if solved is None:
                break
            value, prices, levels = solved
            reduced = gain - self.rows @ prices
            best = np.maximum.reduceat(reduced, np.searchsorted(self.group, np.arange(len(self.shares))))
            bound = min(bound, float(prices @ self.limits + self.shares @ best))
            if bound - value <= enough or len(columns) == self.n_places or (slack and bound < -_NOTHING):
                break
            more = np.union1d(columns, self._promising(reduced, levels))
            if len(more) == len(columns):
                break
            columns = more
        if not np.isfinite(bound):
            raise CannotEstimate(
                "the linear program of the bounds could not be solved. Use another level or step."
            )
        return columns, bound

    def _promising(self, reduced: FloatArray, levels: FloatArray) -> IntArray:
        """Return the highest peaks of each group's reduced gain above the group's level."""
        table = reduced.reshape(len(self.shares), -1) - levels[:, None]
        padded = np.pad(table, ((0, 0), (1, 1)), constant_values=-np.inf)
        is_peak = (table > padded[:, :-2]) & (table >= padded[:, 2:]) & (table > 1e-10)
        peaks = np.where(is_peak, table, 0.0)
        best = np.argsort(-peaks, axis=1, kind="stable")[:, :_ADDED]
        group, which = np.nonzero(np.take_along_axis(peaks, best, axis=1))
        found: IntArray = group * table.shape[1] + best[group, which]
        return found

    def _solve(
        self, gain: FloatArray, columns: IntArray, slack: bool
    ) -> tuple[float, FloatArray, FloatArray] | None:
        """Return the optimum on some places, the prices of the limits and the levels of the groups.

        None when the solver gave up; what earlier prices bound stays true.
        """
        from scipy.optimize import linprog

        cost, inequality = -gain[columns], self.rows[columns].T
        equality = (self.group[columns] == np.arange(len(self.shares))[:, None]).astype(np.float64)
        if slack:  # one number by which all limits may be missed
            cost = np.append(cost, 1.0)
            inequality = np.hstack([inequality, -np.ones((len(self.limits), 1))])
            equality = np.hstack([equality, np.zeros((len(self.shares), 1))])
        for method, presolve in _WAYS:
            found = linprog(
                cost,
                inequality,
                self.limits,
                equality,
                self.shares,
                method=method,
                options={"presolve": presolve},
            )
            if found.status == 0:
                break
        else:
            return None
        prices: FloatArray = np.maximum(-found.ineqlin.marginals, 0.0)
        if slack:
            prices /= max(float(prices.sum()), 1.0)  # the multipliers of the slack sum to at most 1
        return -float(cost @ np.asarray(found.x)), prices, -np.asarray(found.eqlin.marginals)


#: Parts of a stretch between two places at whose ends a curve is looked at.
PARTS = 8
_HELD = 1 << 18  # values looked at together: 2 MB
_SAFETY = 1.25  # what lies between two looks may be further off than at either
_OTHER = 0.05  # and on the other side of the chord: a cubic by less than 0.03 of what it is off on this one


def interior_points(places: FloatArray) -> FloatArray:
    """Return the positions where curves are looked at, (n_places - 1, PARTS + 1); ends included."""
    found: FloatArray = places[:-1, None] + np.diff(places)[:, None] * (np.arange(PARTS + 1) / PARTS)
    return found


def envelope(
    places: FloatArray,
    at: FloatArray,
    curves: FloatArray,
    kinks: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Return values at places below and above all curves, when joined by straight lines.

    A row between two places counts as a mixture of both, in proportion to its distance from them. So a mean
    over rows lies between the means, over places, of the two values returned; the error is of second order
    in the distance. Each curve is looked at in ``PARTS`` parts of each stretch and its largest distance from
    its chord is taken 1.25 times, and a twentieth of it on the other side: enough for curves that bend at
    most twice in a stretch and have no kink between two looks.

    Parameters
    ----------
    places : (n_places,) ascending
    at : (n_places - 1, k) positions in each stretch, of which the first and the last are places
    curves : (n_curves, n_places - 1, k, n_columns)
    kinks : positions (n_curves, n) where each curve may bend or jump, and values (n_curves, n, n_columns)

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> at = interior_points(x)
    >>> low, high = envelope(x, at, (at**2)[None, ..., None])
    >>> low.ravel().tolist(), high.ravel().tolist()  # a parabola is at most 1/4 below its chords
    ([-0.325, 0.675, 3.675], [0.0125, 1.0125, 4.0125])
    """
    part = ((at - places[:-1, None]) / np.diff(places)[:, None])[..., None]
    ends = np.concatenate([curves[:, :, 0], curves[:, -1:, -1]], axis=1)
    below: FloatArray = np.zeros((len(places) - 1, curves.shape[3]))
    above: FloatArray = np.zeros_like(below)
    step = max(_HELD // max(curves[0].size, 1), 1)
    for start in range(0, len(curves), step):
        some, end = curves[start : start + step], ends[start : start + step]
        off = some - (end[:, :-1, None] + part * (end[:, 1:] - end[:, :-1])[:, :, None])
        least, most = off.min(axis=2), off.max(axis=2)
        other = _OTHER * np.maximum(-least, most)
        np.minimum(below, (_SAFETY * least - other).min(axis=0), out=below)
        np.maximum(above, (_SAFETY * most + other).max(axis=0), out=above)
    below, above = -_widest(-below), _widest(above)
    if kinks is not None:
        position, values = kinks
        bins = np.clip(np.searchsorted(places, position, side="right") - 1, 0, len(places) - 2)
        share = ((position - places[bins]) / (places[bins + 1] - places[bins]))[..., None]
        curve = np.arange(len(curves))[:, None]
        off = values - (ends[curve, bins] + share * (ends[curve, bins + 1] - ends[curve, bins]))
        np.minimum.at(below, bins, off)
        np.maximum.at(above, bins, off)
    none = np.zeros((1, below.shape[1]))
    low = ends.min(axis=0) + np.minimum(np.vstack([none, below]), np.vstack([below, none]))
    high = ends.max(axis=0) + np.maximum(np.vstack([none, above]), np.vstack([above, none]))
    return low, high


def _widest(off: FloatArray) -> FloatArray:
    """Return the largest of each stretch and its two neighbours.

    Curves between those looked at may bend in a stretch where these do not.
    """
    padded = np.pad(off, ((1, 1), (0, 0)))
    return np.maximum(np.maximum(padded[:-2], padded[2:]), off)
