"""Derivatives of the penalised likelihood of ``smooth``.

A maximum of the penalised likelihood: how it, and its height, answer to the shares of outcomes.
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
    Curve,
    PenalisedLikelihood,
    log_prior,
    smooth_curve,
)


@dataclass(frozen=True, eq=False)
class Member:
    r"""Outcomes within their groups: shares p move :math:`\sum_g s_g \log(\sum_{o \in g} p_o c_o / s_g)`.

    A group has one row, the mean of those of its outcomes weighted by shares (``grouped``). An outcome whose
    group is empty is a group of its own.

    Parameters
    ----------
    score : (n, n_splines) d log c / db of the outcome's own row
    of_group : (n, n_splines) the same of the group
    share : (n,) c / q of the group
    height : (n,) log q of the group
    """

    score: FloatArray
    of_group: FloatArray
    share: FloatArray
    height: FloatArray

    @property
    def slope(self) -> FloatArray:
        """What a share adds to the gradient of the log-likelihood, (n, n_splines)."""
        found: FloatArray = self.of_group + self.share[:, None] * (self.score - self.of_group)
        return found


@dataclass(frozen=True, eq=False)
class Peak:
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
    curve: Curve
    centred: FloatArray
    predicted: FloatArray
    scores: FloatArray
    factor: tuple[FloatArray, bool]
    precision: FloatArray

    @classmethod
    def of(cls, problem: PenalisedLikelihood, curve: Curve) -> Peak:
        """Find the derivatives.

        Raises
        ------
        CannotEstimate
            Where the likelihood is flat.
        """
        basis, masses = problem.basis, curve.masses
        predicted = np.maximum(problem.matrix @ masses, LEAST)
        centred = basis.values - masses @ basis.values
        scores = problem.matrix @ (masses[:, None] * centred) / predicted[:, None]
        again = masses * ((problem.shares / predicted) @ problem.matrix)  # the masses after a step of EM
        second = (centred.T * (again - masses)) @ centred - (scores.T * problem.shares) @ scores
        precision = curve.penalty * basis.roughness + basis.fixed
        try:
            factor = cho_factor(precision - problem.n_rows * second)
        except LinAlgError:
            raise CannotEstimate(
                "the fit of 'smooth' to this sample is no strict maximum, so it has no derivative. "
                "Use bootstrap."
            ) from None
        return cls(problem, curve, centred, predicted, scores, factor, precision)

    def solve(self, right: FloatArray) -> FloatArray:
        """Return H^-1 right."""
        found: FloatArray = cho_solve(self.factor, right)
        return found

    def members(self, chances: FloatArray, group: IntArray) -> Member:
        """Return outcomes in their groups; -1 stands for a group that is empty.

        Parameters
        ----------
        chances : (n, n_bins) P(outcome | bin)
        group : (n,)
        """
        masses = self.curve.masses
        chance = np.maximum(chances @ masses, LEAST)
        own = chance / np.maximum(chances.max(axis=1), LEAST)
        score = chances @ (masses[:, None] * self.centred) / chance[:, None]
        is_new = group < 0
        q = np.where(is_new, own, self.predicted[group])
        of_group = np.where(is_new[:, None], score, self.scores[group])
        return Member(score, of_group, own / q, np.log(np.maximum(q, LEAST)))

    def moved_by_penalty(self) -> FloatArray:
        """Return the derivative of b in log10 of the penalty, (n_splines,)."""
        rough = self.problem.basis.roughness @ self.curve.coefficients
        found: FloatArray = -np.log(10.0) * self.curve.penalty * self.solve(rough)
        return found

    def height_slopes(self, member: Member) -> FloatArray:
        r"""Return the derivatives of the log marginal likelihood in the shares of outcomes, (n,).

        It is the objective less half the log-determinant of I + P, with the information
        :math:`I = n \sum_g s_g \nabla \log q_g \nabla \log q_g^\top`. The objective is at its maximum, so b
        moves the determinant only.
        """
        turned = member.of_group @ self._inverse
        determinant = np.einsum("os,os->o", turned, member.of_group)
        determinant += 2 * member.share * np.einsum("os,os->o", turned, member.score - member.of_group)
        found: FloatArray = member.height + member.share - determinant / 2
        found += member.slope @ self._moved_determinant
        return self.problem.n_rows * found

    @cached_property
    def _inverse(self) -> FloatArray:
        """(I + P)^-1."""
        information = self.problem.n_rows * (self.scores.T * self.problem.shares) @ self.scores
        found: FloatArray = np.linalg.inv(information + self.precision)
        return found

    @cached_property
    def _moved_determinant(self) -> FloatArray:
        """H^-1 times the derivative of -log det(I + P)/2 in b.

        That is -n sum_g s_g D_g y_g, with the second derivative D_g of log q_g and y_g = (I + P)^-1 times its
        gradient.
        """
        masses = self.curve.masses
        y = self.scores @ self._inverse * self.problem.shares[:, None]
        along = self.centred @ y.T  # (n_bins, n_groups)
        posterior = self.problem.matrix * masses / self.predicted[:, None]
        found = self.centred.T @ np.einsum("bg,gb->b", along, posterior)
        found -= self.scores.T @ np.einsum("gs,gs->g", self.scores, y)
        found -= self.centred.T @ (masses * along.sum(axis=1))
        return self.solve(-self.problem.n_rows * found)


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
        cls,
        problem: PenalisedLikelihood,
        curve: Curve,
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
        peak = Peak.of(problem, curve)
        right = peak.centred.T @ (curve.masses[:, None] * slope)
        chosen = _tried(problem, curve) if is_chosen else ()
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


def _tried(problem: PenalisedLikelihood, curve: Curve) -> tuple[Curve, ...]:
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
