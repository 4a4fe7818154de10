"""Derivatives of the minimum that ``mes`` takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from truerank.core.tally import Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.adaptive_law import AdaptiveLaw
from truerank.estimators.design import stopping_of
from truerank.estimators.influence_fit import LEAST, Sensitivity
from truerank.estimators.likelihood import Likelihood
from truerank.estimators.mes import MaximalEntropy, default_eta, stop_chances, whole_outcomes

_STEP = 1e-4  # relative, of the size of samples, for the slope of the default eta


@dataclass(frozen=True, eq=False)
class EntropySensitivity(Sensitivity):
    r"""Implicit differentiation of the masses at the minimum of d(q, p) - eta H.

    With the second derivative M of the objective on masses that sum to 1, and :math:`\mu = M^{-1} c` for
    numbers with slopes c in the masses, a share p moves them by :math:`-\mu \cdot \partial_p \nabla_\pi d`.
    Weights, the rows that pools have in common and the share of a sample's size depend on shares as well.

    Parameters
    ----------
    estimator, tally : what was fitted, to what
    masses : (n_bins,) as fitted
    adjoint : (n_bins, n_numbers) mu
    shares, predicted : (n_groups,) p and q of the pairs (m, j) in use
    moved : (n_groups, n_numbers) what q would be with mu in place of the masses
    place : the number of each pair in use
    size : mean n = m + 1
    of_size : share of the rows of each m, and (n_numbers,) what that share moves; empty for adaptive samples
    per_item : (n_numbers,) what the mean size moves
    """

    estimator: MaximalEntropy
    tally: Tally
    masses: FloatArray
    adjoint: FloatArray
    shares: FloatArray
    predicted: FloatArray
    moved: FloatArray
    place: dict[tuple[int, int], int]
    size: float
    of_size: dict[int, tuple[float, FloatArray]]
    per_item: FloatArray

    @classmethod
    def of(
        cls,
        estimator: MaximalEntropy,
        likelihood: Likelihood,
        masses: FloatArray,
        tally: Tally,
        slope: FloatArray,
    ) -> EntropySensitivity:
        """Solve for the adjoint."""
        matrix, p = whole_outcomes(likelihood, 0, tally)
        q = np.maximum(matrix @ masses, LEAST)
        n = float(likelihood.shares[0] @ (likelihood.n_negatives + 1))
        eta = default_eta(n) if estimator.eta is None else estimator.eta
        is_squared = estimator.distance == "squared"
        scale = n if estimator.weight == "n-shares" else 1.0
        curvature = 2 * scale * p if is_squared else p / q**2
        adjoint = _solved(matrix, masses, curvature, eta, slope)
        moved = matrix @ adjoint
        seen = np.flatnonzero(likelihood.shares[0] > 0)
        m, j = likelihood.n_negatives[seen], likelihood.n_above[seen]
        pairs = np.unique(np.stack([m, j], axis=1), axis=0)
        per_item = np.zeros(slope.shape[1])
        if estimator.eta is None:
            widths = np.diff(likelihood.grid.edges)
            rise = (default_eta(n * (1 + _STEP)) - default_eta(n * (1 - _STEP))) / (2 * _STEP * n)
            per_item += rise * (np.log(np.maximum(masses, LEAST) / widths) @ adjoint)
        if is_squared and estimator.weight == "n-shares":
            per_item += 2 * (p * (q - p)) @ moved
        of_size: dict[int, tuple[float, FloatArray]] = {}
        if stopping_of(tally) is None:
            for one in np.unique(m).tolist():
                rows = pairs[:, 0] == one
                share = float(p[rows].sum())
                terms = 2 * scale * p * (2 * q - p) if is_squared else np.zeros_like(p)
                of_size[one] = share, terms[rows] @ moved[rows] / share
        place = {(int(a), int(b)): number for number, (a, b) in enumerate(pairs.tolist())}
        return cls(estimator, tally, masses, adjoint, p, q, moved, place, n, of_size, per_item)

    def at(self, chances: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray) -> FloatArray:
        """Return the slopes, (n_outcomes, n_numbers)."""
        factor, shared = self._factor(n_negatives, n_candidates, n_above)
        q = np.maximum(chances @ self.masses * factor, LEAST)
        moved = chances @ self.adjoint * factor[:, None]
        group = np.array([self.place.get((n_negatives, j), -1) for j in n_above.tolist()], dtype=np.int64)
        is_new = group < 0
        p_group = np.where(is_new, 0.0, self.shares[group])
        q_group = np.where(is_new, q, self.predicted[group])
        moved_group = np.where(is_new[:, None], moved, self.moved[group])
        if self.estimator.distance == "likelihood":
            terms = (moved_group * ((q - q_group) / q_group)[:, None] - moved) / q_group[:, None]
        else:
            scale = self.size if self.estimator.weight == "n-shares" else 1.0
            terms = (q - q_group - p_group)[:, None] * moved_group + (q_group - p_group)[:, None] * moved
            terms *= 2 * scale
        found: FloatArray = -(terms + shared + (n_negatives + 1) * self.per_item)
        return found

    def _factor(
        self, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> tuple[FloatArray, FloatArray | float]:
        """Return what makes chances of j those of (m, j), and what the share of the size m moves."""
        rule = stopping_of(self.tally)
        if rule is None:
            share, shared = self.of_size[n_negatives]
            return np.full(len(n_above), share), shared
        law = AdaptiveLaw(n_candidates, rule, self.tally.design.replacement)
        return stop_chances(law, np.full_like(n_above, n_negatives), n_above), 0.0


def _solved(
    matrix: FloatArray, masses: FloatArray, curvature: FloatArray, eta: float, slope: FloatArray
) -> FloatArray:
    """Return mu with M mu + constant = slope and sum 0, where M = A' curvature A + eta / masses."""
    root = np.sqrt(masses)
    scaled = matrix * root * np.sqrt(curvature)[:, None]
    right = root[:, None] * np.concatenate([slope, np.ones((len(slope), 1))], axis=1)
    if len(scaled) <= scaled.shape[1]:
        inner = scaled @ scaled.T
        inner[np.diag_indices_from(inner)] += eta
        solved = (right - scaled.T @ cho_solve(cho_factor(inner), scaled @ right)) / eta
    else:
        inner = scaled.T @ scaled
        inner[np.diag_indices_from(inner)] += eta
        solved = cho_solve(cho_factor(inner), right)
    solved *= root[:, None]
    sums = solved.sum(axis=0)
    found: FloatArray = solved[:, :-1] - solved[:, -1:] * (sums[:-1] / sums[-1])
    return found
