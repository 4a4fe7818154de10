"""Linear program behind identification bounds: the largest mean gain over all compatible rank distributions.

It is solved by column generation on a grid of ranks; every value returned is a dual bound, valid whatever the
solver did. ``envelope`` bounds the error of the grid: curves between two grid points against their chord.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.types import FloatArray, IntArray

_START = 16  # columns per group in the first restricted program
_WHOLE = 300  # columns up to which the program is solved at once
_ROUNDS = 60
_ADDED = 4  # columns added per group and round
_GAP = 1e-6  # duality gap to stop at, relative to the range of the gains
_ROUNDING = 1e-7  # by which limits are widened, for rounding in probabilities and in the solver
#: Small dense programs are faster without presolve; some need it, and on a few the simplex method fails where
#: the interior-point method does not.
_SOLVERS: tuple[tuple[Literal["highs", "highs-ipm"], bool], ...] = (
    ("highs", False),
    ("highs", True),
    ("highs-ipm", True),
)
_FEASIBLE = 1e-9  # violation of the limits up to which masses count as feasible


@dataclass(frozen=True, eq=False)
class LinearProgram:
    r"""Masses on grid points of each group whose mean probabilities lie in a confidence region.

    .. math:: \sum_b \pi_{gb} = s_g, \quad \sum_{gb} \pi_{gb} A^-_{gbe} \le h_e, \quad
              \sum_{gb} \pi_{gb} A^+_{gbe} \ge l_e, \quad \pi \ge 0

    Probabilities are known up to the error of the grid, so each event has a lower and an upper one, and no
    compatible distribution is excluded. A column is a grid point of a group. Programs with many columns are
    solved on a few, to which those with the largest reduced gain are added until the duality gap is closed
    (column generation); all objectives start from the same feasible columns.

    Parameters
    ----------
    lower, upper : (n_groups, n_points, n_events) probabilities
    masses : (n_groups,) masses of the groups
    low, high : (n_events,) limits of the region
    """

    lower: FloatArray
    upper: FloatArray
    masses: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def n_columns(self) -> int:
        """Grid points of all groups."""
        return len(self.group)

    @cached_property
    def rows(self) -> FloatArray:
        """Coefficients of all limits, written as <=, (n_columns, 2 n_events)."""
        n_events = self.lower.shape[2]
        return np.hstack([self.lower.reshape(-1, n_events), -self.upper.reshape(-1, n_events)])

    @cached_property
    def limits(self) -> FloatArray:
        """Right-hand sides, (2 n_events,)."""
        return np.concatenate([self.high, -self.low]) + _ROUNDING

    @cached_property
    def group(self) -> IntArray:
        """The group of each column, (n_columns,)."""
        return np.repeat(np.arange(len(self.masses)), self.lower.shape[1])

    @property
    def feasible_columns(self) -> IntArray:
        """Columns on which the restricted program is feasible.

        Raises
        ------
        CannotEstimate
            When the whole program is infeasible.
        """
        n_points = self.lower.shape[1]
        if self.n_columns <= _WHOLE:
            columns: IntArray = np.arange(self.n_columns)
        else:
            points = np.unique(np.linspace(0, n_points - 1, _START).astype(np.int64))
            columns = (np.arange(len(self.masses))[:, None] * n_points + points).ravel()
        zero = np.zeros(self.n_columns)
        columns, bound = self._generate(zero, columns, slack=True)
        if bound < -_FEASIBLE:
            raise CannotEstimate(
                "no rank distribution fits these sampled ranks at this level, which is very unlikely for "
                "negatives that were drawn uniformly and independently. Check how they were drawn."
            )
        return columns

    def upper_bound(self, gain: FloatArray, columns: IntArray) -> float:
        """Return an upper bound of the mean gain, within 1e-6 of the optimum.

        It is a dual bound: by weak duality no feasible masses exceed it, whatever the multipliers. An
        inaccurate solution makes it wider, never invalid.

        Parameters
        ----------
        gain : (n_groups, n_points) gain of every column
        columns : those of the first restricted program, from ``feasible_columns``
        """
        _, bound = self._generate(gain.ravel(), columns, slack=False)
        return bound

    def _generate(self, gain: FloatArray, columns: IntArray, *, slack: bool) -> tuple[IntArray, float]:
        """Return the columns at the end of column generation, and the best dual bound."""
        gap = _FEASIBLE if slack else _GAP * max(float(np.ptp(gain)), 1e-12)
        bound = np.inf
        for _ in range(_ROUNDS):
            solved = self._solve(gain, columns, slack)
            if solved is None:
                break
            value, multipliers, levels = solved
            reduced = gain - self.rows @ multipliers
            best = np.maximum.reduceat(reduced, np.searchsorted(self.group, np.arange(len(self.masses))))
            bound = min(bound, float(multipliers @ self.limits + self.masses @ best))
            if bound - value <= gap or len(columns) == self.n_columns or (slack and bound < -_FEASIBLE):
                break
            extended = np.union1d(columns, self._entering(reduced, levels))
            if len(extended) == len(columns):
                break
            columns = extended
        if not np.isfinite(bound):
            raise CannotEstimate(
                "the linear program of the bounds could not be solved. Use another level or step."
            )
        return columns, bound

    def _entering(self, reduced: FloatArray, levels: FloatArray) -> IntArray:
        """Return the columns that enter: the highest local maxima of each group's positive reduced gain."""
        table = reduced.reshape(len(self.masses), -1) - levels[:, None]
        padded = np.pad(table, ((0, 0), (1, 1)), constant_values=-np.inf)
        is_peak = (table > padded[:, :-2]) & (table >= padded[:, 2:]) & (table > 1e-10)
        peaks = np.where(is_peak, table, 0.0)
        best = np.argsort(-peaks, axis=1, kind="stable")[:, :_ADDED]
        group, which = np.nonzero(np.take_along_axis(peaks, best, axis=1))
        columns: IntArray = group * table.shape[1] + best[group, which]
        return columns

    def _solve(
        self, gain: FloatArray, columns: IntArray, slack: bool
    ) -> tuple[float, FloatArray, FloatArray] | None:
        """Return the optimum on some columns, and the multipliers of the limits and of the group masses.

        None when all solvers failed; bounds from earlier multipliers stay valid.
        """
        from scipy.optimize import linprog

        cost, inequality = -gain[columns], self.rows[columns].T
        equality = (self.group[columns] == np.arange(len(self.masses))[:, None]).astype(np.float64)
        if slack:  # one variable by which all limits may be violated
            cost = np.append(cost, 1.0)
            inequality = np.hstack([inequality, -np.ones((len(self.limits), 1))])
            equality = np.hstack([equality, np.zeros((len(self.masses), 1))])
        for method, presolve in _SOLVERS:
            solution = linprog(
                cost,
                inequality,
                self.limits,
                equality,
                self.masses,
                method=method,
                options={"presolve": presolve},
            )
            if solution.status == 0:
                break
        else:
            return None
        multipliers: FloatArray = np.maximum(-solution.ineqlin.marginals, 0.0)
        if slack:
            multipliers /= max(float(multipliers.sum()), 1.0)  # dual feasible: they sum to at most 1
        value = -float(cost @ np.asarray(solution.x))
        return value, multipliers, -np.asarray(solution.eqlin.marginals)


#: Parts into which each interval of the grid is divided where curves are evaluated.
PARTS = 8
_BLOCK = 1 << 18  # values in memory at once: 2 MB
_SAFETY = 1.25  # factor for deviations from the chord between two evaluated points
_OTHER = 0.05  # of that, allowed on the other side of the chord; a cubic needs less than 0.03


def interior_points(grid: FloatArray) -> FloatArray:
    """Return the points of each grid interval where curves are evaluated, (n_points - 1, PARTS + 1)."""
    points: FloatArray = grid[:-1, None] + np.diff(grid)[:, None] * (np.arange(PARTS + 1) / PARTS)
    return points


def envelope(
    grid: FloatArray,
    at: FloatArray,
    curves: FloatArray,
    kinks: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    r"""Return values at grid points whose piecewise linear interpolations lie below and above all curves.

    A row between two grid points is represented as a mixture of both, in proportion to its distance from
    them. So a mean over rows lies between the means, over grid points, of the two values returned; the error
    is of second order in the grid spacing. Each curve is evaluated at ``PARTS`` + 1 points per interval, and
    its largest deviation from the chord is enlarged by the factor 1.25, and by a twentieth of itself on the
    other side: enough for curves with at most two inflections per interval and no kink between two points.

    Parameters
    ----------
    grid : (n_points,) ascending
    at : (n_points - 1, k) points in each interval, of which the first and the last are grid points
    curves : (n_curves, n_points - 1, k, n_columns) values at these points
    kinks : positions (n_curves, n) where each curve may bend or jump, and values (n_curves, n, n_columns)

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> at = interior_points(x)
    >>> low, high = envelope(x, at, (at**2)[None, ..., None])
    >>> low.ravel().tolist(), high.ravel().tolist()  # a parabola is at most 1/4 below its chords
    ([-0.325, 0.675, 3.675], [0.0125, 1.0125, 4.0125])
    """
    part = ((at - grid[:-1, None]) / np.diff(grid)[:, None])[..., None]
    nodes = np.concatenate([curves[:, :, 0], curves[:, -1:, -1]], axis=1)  # values at the grid points
    below: FloatArray = np.zeros((len(grid) - 1, curves.shape[3]))
    above: FloatArray = np.zeros_like(below)
    step = max(_BLOCK // max(curves[0].size, 1), 1)
    for start in range(0, len(curves), step):
        block, node = curves[start : start + step], nodes[start : start + step]
        deviation = block - (node[:, :-1, None] + part * (node[:, 1:] - node[:, :-1])[:, :, None])
        least, most = deviation.min(axis=2), deviation.max(axis=2)
        other = _OTHER * np.maximum(-least, most)
        np.minimum(below, (_SAFETY * least - other).min(axis=0), out=below)
        np.maximum(above, (_SAFETY * most + other).max(axis=0), out=above)
    below, above = -_widest(-below), _widest(above)
    if kinks is not None:
        position, values = kinks
        bins = np.clip(np.searchsorted(grid, position, side="right") - 1, 0, len(grid) - 2)
        fraction = ((position - grid[bins]) / (grid[bins + 1] - grid[bins]))[..., None]
        curve = np.arange(len(curves))[:, None]
        left, right = nodes[curve, bins], nodes[curve, bins + 1]
        deviation = values - (left + fraction * (right - left))
        np.minimum.at(below, bins, deviation)
        np.maximum.at(above, bins, deviation)
    none = np.zeros((1, below.shape[1]))
    low = nodes.min(axis=0) + np.minimum(np.vstack([none, below]), np.vstack([below, none]))
    high = nodes.max(axis=0) + np.maximum(np.vstack([none, above]), np.vstack([above, none]))
    return low, high


def _widest(deviation: FloatArray) -> FloatArray:
    """Return the largest deviation of each interval and its two neighbours.

    A curve between two of those evaluated may bend in an interval where these do not.
    """
    padded = np.pad(deviation, ((1, 1), (0, 0)))
    return np.maximum(np.maximum(padded[:-2], padded[2:]), deviation)
