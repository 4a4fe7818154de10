"""Derivatives of the fit of ``smooth`` in the fractions of outcomes.

Implicit differentiation at the maximum of the penalised likelihood: of the coefficients, and of the marginal
likelihood, whose maximum chooses the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from truerank.core.errors import CannotEstimate
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import LEAST, Sensitivity
from truerank.estimation.distribution.likelihood import Likelihood, group_keys
from truerank.estimation.distribution.smooth import (
    PENALTIES,
    PenalisedLikelihood,
    SmoothCurve,
    log_prior,
    smooth_curve,
)


@dataclass(frozen=True, eq=False)
class GroupedOutcomes:
    r"""Outcomes within their groups, whose log-likelihood is differentiated in the fractions of outcomes.

    .. math:: \sum_g s_g \log \Big( \sum_{o \in g} p_o c_o / s_g \Big)

    The row of a group is the mean of those of its outcomes, weighted by fractions p (``grouped``). An outcome
    whose group does not occur is a group by itself.

    Parameters
    ----------
    score : (n, n_splines) d log c / db of the row of the outcome
    of_group : (n, n_splines) the same of the group
    ratio : (n,) c / q of the group
    height : (n,) log q of the group
    """

    score: FloatArray
    of_group: FloatArray
    ratio: FloatArray
    height: FloatArray

    @property
    def slope(self) -> FloatArray:
        """Derivative of the gradient of the log-likelihood in the fraction of the outcome, (n, n_splines)."""
        slopes: FloatArray = self.of_group + self.ratio[:, None] * (self.score - self.of_group)
        return slopes


@dataclass(frozen=True, eq=False)
class PenalisedMaximum:
    r"""The coefficients b that solve :math:`n \sum_g s_g \nabla \log q_g = P b` for one penalty.

    Parameters
    ----------
    problem, curve : what was maximised, and where the maximum is
    centred : (n_bins, n_splines) the splines less their mean
    predicted : (n_groups,) q
    scores : (n_groups, n_splines) the gradients of log q
    factor : of H, minus the second derivative of the penalised log-likelihood
    precision : (n_splines, n_splines) P
    """

    problem: PenalisedLikelihood
    curve: SmoothCurve
    centred: FloatArray
    predicted: FloatArray
    scores: FloatArray
    factor: tuple[FloatArray, bool]
    precision: FloatArray

    @classmethod
    def of(cls, problem: PenalisedLikelihood, curve: SmoothCurve) -> PenalisedMaximum:
        """Compute the derivatives.

        Raises
        ------
        CannotEstimate
            When the maximum is not strict.
        """
        basis, masses = problem.basis, curve.masses
        predicted = np.maximum(problem.matrix @ masses, LEAST)
        centred = basis.values - masses @ basis.values
        scores = problem.matrix @ (masses[:, None] * centred) / predicted[:, None]
        updated = masses * ((problem.fractions / predicted) @ problem.matrix)  # the masses after a step of EM
        second = (centred.T * (updated - masses)) @ centred - (scores.T * problem.fractions) @ scores
        precision = curve.penalty * basis.roughness + basis.fixed
        try:
            factor = cho_factor(precision - problem.n_rows * second)
        except LinAlgError:
            raise CannotEstimate(
                "the fit of 'smooth' to this sample is not a strict maximum, so it has no derivative. "
                "Use bootstrap."
            ) from None
        return cls(problem, curve, centred, predicted, scores, factor, precision)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return H^-1 right."""
        solution: FloatArray = cho_solve(self.factor, right)
        return solution

    def members(self, probabilities: FloatArray, group: IntArray) -> GroupedOutcomes:
        """Return outcomes in their groups; -1 is a group that does not occur.

        Parameters
        ----------
        probabilities : (n, n_bins) P(outcome | bin)
        group : (n,)
        """
        masses = self.curve.masses
        probability = np.maximum(probabilities @ masses, LEAST)
        scaled = probability / np.maximum(probabilities.max(axis=1), LEAST)
        score = probabilities @ (masses[:, None] * self.centred) / probability[:, None]
        is_new = group < 0
        q = np.where(is_new, scaled, self.predicted[group])
        of_group = np.where(is_new[:, None], score, self.scores[group])
        return GroupedOutcomes(score, of_group, scaled / q, np.log(np.maximum(q, LEAST)))

    def moved_by_penalty(self) -> FloatArray:
        """Return the derivative of b in log10 of the penalty, (n_splines,)."""
        rough = self.problem.basis.roughness @ self.curve.coefficients
        slope: FloatArray = -np.log(10.0) * self.curve.penalty * self.solve(rough)
        return slope

    def height_slopes(self, member: GroupedOutcomes) -> FloatArray:
        r"""Return the derivatives of the log marginal likelihood in the fractions of outcomes, (n,).

        The log marginal likelihood is the objective less half the log-determinant of I + P, with the
        information :math:`I = n \sum_g s_g \nabla \log q_g \nabla \log q_g^\top`. The objective is at its
        maximum, so b changes the determinant only.
        """
        turned = member.of_group @ self._inverse
        determinant = np.einsum("os,os->o", turned, member.of_group)
        determinant += 2 * member.ratio * np.einsum("os,os->o", turned, member.score - member.of_group)
        slopes: FloatArray = member.height + member.ratio - determinant / 2
        slopes += member.slope @ self._moved_determinant
        return self.problem.n_rows * slopes

    @cached_property
    def _inverse(self) -> FloatArray:
        """(I + P)^-1."""
        information = self.problem.n_rows * (self.scores.T * self.problem.fractions) @ self.scores
        inverse: FloatArray = np.linalg.inv(information + self.precision)
        return inverse

    @cached_property
    def _moved_determinant(self) -> FloatArray:
        """H^-1 times the derivative of -log det(I + P)/2 in b.

        That is -n sum_g s_g D_g y_g, with the second derivative D_g of log q_g and y_g = (I + P)^-1 times its
        gradient.
        """
        masses = self.curve.masses
        y = self.scores @ self._inverse * self.problem.fractions[:, None]
        along = self.centred @ y.T  # (n_bins, n_groups)
        posterior = self.problem.matrix * masses / self.predicted[:, None]
        slope = self.centred.T @ np.einsum("bg,gb->b", along, posterior)
        slope -= self.scores.T @ np.einsum("gs,gs->g", self.scores, y)
        slope -= self.centred.T @ (masses * along.sum(axis=1))
        return self.solve(-self.problem.n_rows * slope)


@dataclass(frozen=True, eq=False)
class SplineSensitivity(Sensitivity):
    r"""Implicit differentiation of the coefficients at the maximum, and of the penalty where that is chosen.

    The derivative of the coefficients in a fraction is :math:`n H^{-1} \nabla \log q_o`, with H minus the
    second derivative of the penalised log-likelihood. The penalty is the vertex of a parabola through the
    marginal likelihoods of three fixed penalties, so its derivative follows from those of the three.

    Parameters
    ----------
    peak : the fit
    moved : (n_splines, n_numbers) derivatives of the numbers in the gradient of the log-likelihood
    neighbours, pull : the fits that chose the penalty, and the derivatives of its log10 in the marginal
        likelihood of each; none where it was given, or is the first or last of those tried
    by_penalty : (n_numbers,) derivatives in log10 of the penalty
    number : of each group of outcomes that occurs, by its key
    """

    peak: PenalisedMaximum
    moved: FloatArray
    neighbours: tuple[PenalisedMaximum, ...]
    pull: tuple[float, ...]
    by_penalty: FloatArray
    number: dict[tuple[int, ...], int]

    @classmethod
    def of(
        cls,
        problem: PenalisedLikelihood,
        curve: SmoothCurve,
        likelihood: Likelihood,
        slope: FloatArray,
        *,
        is_chosen: bool,
    ) -> SplineSensitivity:
        """Differentiate at the maximum.

        Parameters
        ----------
        problem, curve : what was maximised, and the maximum
        likelihood : its one run was fitted
        slope : (n_bins, n_numbers) of the numbers in the masses
        is_chosen : whether the penalty was chosen by the marginal likelihood rather than given
        """
        peak = PenalisedMaximum.of(problem, curve)
        right = peak.centred.T @ (curve.masses[:, None] * slope)
        chosen = _tried(problem, curve) if is_chosen else ()
        neighbours = tuple(PenalisedMaximum.of(problem, fitted) for fitted in chosen)
        seen = np.flatnonzero(likelihood.fractions[0] > 0)
        keys = group_keys(
            likelihood.n_negatives[seen], likelihood.n_candidates[seen], likelihood.n_above[seen]
        )
        numbers = {tuple(key): number for number, key in enumerate(np.unique(keys, axis=0).tolist())}
        return cls(
            peak,
            peak.solve(right) * problem.n_rows,
            neighbours,
            _pull(chosen),
            peak.moved_by_penalty() @ right,
            numbers,
        )

    def at(
        self, probabilities: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> FloatArray:
        """Return the derivatives, (n_outcomes, n_numbers)."""
        m, size = np.full_like(n_above, n_negatives), np.full_like(n_above, n_candidates)
        keys = group_keys(m, size, n_above).tolist()
        group = np.array([self.number.get(tuple(key), -1) for key in keys], dtype=np.int64)
        slopes: FloatArray = self.peak.members(probabilities, group).slope @ self.moved
        for peak, pull in zip(self.neighbours, self.pull, strict=True):
            slopes += pull * peak.height_slopes(peak.members(probabilities, group))[:, None] * self.by_penalty
        return slopes


def _tried(problem: PenalisedLikelihood, curve: SmoothCurve) -> tuple[SmoothCurve, ...]:
    """Return the fits under the three penalties around the chosen one; none if that is the first or last."""
    best = int(np.argmin(np.abs(np.log(PENALTIES / curve.penalty))))
    if best in (0, len(PENALTIES) - 1):
        return ()
    return tuple(smooth_curve(problem, float(value), curve) for value in PENALTIES[best - 1 : best + 2])


def _pull(tried: tuple[SmoothCurve, ...]) -> tuple[float, ...]:
    """Return the derivatives of the vertex of the parabola through three heights, in each of them.

    The vertex lies at (right - left) / (2 bend), bend = left - 2 middle + right.
    """
    if not tried:
        return ()
    left, middle, right = (curve.log_marginal + log_prior(curve.penalty) for curve in tried)
    bend = left - 2 * middle + right
    top = (right - left) / (2 * bend)
    return ((-0.5 - top) / bend, 2 * top / bend, (0.5 - top) / bend)
