"""Derivatives of the penalised likelihood of ``smooth``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.tally import Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.grouped import group_keys
from truerank.estimators.influence_fit import Sensitivity
from truerank.estimators.influence_peak import Peak
from truerank.estimators.likelihood import Likelihood
from truerank.estimators.penalised import PENALTIES, Curve, Problem, log_prior, smooth_curve
from truerank.estimators.refit import curve_of, problem_of
from truerank.estimators.smooth import Smooth


@dataclass(frozen=True, eq=False)
class SplineSensitivity(Sensitivity):
    r"""Implicit differentiation of the coefficients at the maximum, and of the penalty where that is chosen.

    A share moves the coefficients by :math:`n H^{-1} \nabla \log q_o`, with H minus the second derivative of
    the penalised log-likelihood. The penalty lies at the top of a parabola through the marginal likelihoods
    of three fixed penalties; it moves as these three numbers do.

    Parameters
    ----------
    peak : the fit
    moved : (n_splines, n_numbers) what a gradient of the log-likelihood adds to the numbers
    neighbours, pull : the fits that settled the penalty, and by how much log10 of it follows the height of
        each; none where it was given, or lies at the end of those tried
    by_penalty : (n_numbers,) derivatives in log10 of the penalty
    place : the number of each group of outcomes in use, under what tells groups apart
    """

    peak: Peak
    moved: FloatArray
    neighbours: tuple[Peak, ...]
    pull: tuple[float, ...]
    by_penalty: FloatArray
    place: dict[tuple[int, ...], int]

    @classmethod
    def of(
        cls, estimator: Smooth, likelihood: Likelihood, tally: Tally, slope: FloatArray
    ) -> SplineSensitivity:
        """Fit once more, for the coefficients and the penalty."""
        problem = problem_of(likelihood, tally)
        curve = curve_of(estimator, likelihood, tally)
        peak = Peak.of(problem, curve)
        right = peak.centred.T @ (curve.masses[:, None] * slope)
        chosen = () if estimator.penalty is not None else _tried(problem, curve)
        neighbours = tuple(Peak.of(problem, one) for one in chosen)
        seen = np.flatnonzero(likelihood.shares[0] > 0)
        keys = group_keys(
            likelihood.n_negatives[seen], likelihood.n_candidates[seen], likelihood.n_above[seen]
        )
        place = {tuple(key): number for number, key in enumerate(np.unique(keys, axis=0).tolist())}
        return cls(
            peak,
            peak.solve(right) * problem.n_rows,
            neighbours,
            _pull(chosen),
            peak.moved_by_penalty() @ right,
            place,
        )

    def at(self, chances: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray) -> FloatArray:
        """Return the slopes, (n_outcomes, n_numbers)."""
        m, size = np.full_like(n_above, n_negatives), np.full_like(n_above, n_candidates)
        keys = group_keys(m, size, n_above).tolist()
        group = np.array([self.place.get(tuple(key), -1) for key in keys], dtype=np.int64)
        found: FloatArray = self.peak.members(chances, group).slope @ self.moved
        for peak, pull in zip(self.neighbours, self.pull, strict=True):
            found += pull * peak.height_slopes(peak.members(chances, group))[:, None] * self.by_penalty
        return found


def _tried(problem: Problem, curve: Curve) -> tuple[Curve, ...]:
    """Return the fits under the three penalties around the chosen one; none at the end of those tried."""
    best = int(np.argmin(np.abs(np.log(PENALTIES / curve.penalty))))
    if best in (0, len(PENALTIES) - 1):
        return ()
    return tuple(smooth_curve(problem, float(one), curve) for one in PENALTIES[best - 1 : best + 2])


def _pull(tried: tuple[Curve, ...]) -> tuple[float, ...]:
    """Return the derivatives of the top of the parabola through three heights, in each of them.

    The top lies at (right - left) / (2 bend), bend = left - 2 middle + right.
    """
    if not tried:
        return ()
    left, middle, right = (one.log_marginal + log_prior(one.penalty) for one in tried)
    bend = left - 2 * middle + right
    top = (right - left) / (2 * bend)
    return ((-0.5 - top) / bend, 2 * top / bend, (0.5 - top) / bend)
