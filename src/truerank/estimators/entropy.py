"""Maximal entropy with a distance to what was seen, by Newton's method in the dual."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

from truerank.core.errors import NotConverged
from truerank.core.types import FloatArray

_STEPS = 500
_ENOUGH = 1e-9  # duality gap beyond which a solution is not returned
_ZERO = 1e-24  # duality gap that is all rounding


@dataclass(frozen=True, eq=False)
class Distance(ABC):
    """A convex distance of predicted probabilities q from shares p, outcome by outcome, and its dual."""

    p: FloatArray

    @abstractmethod
    def start(self, eta: float) -> FloatArray:
        """Return a feasible dual."""

    @abstractmethod
    def value(self, dual: FloatArray) -> float:
        """Return the conjugate of the distance at the negative dual, up to a constant."""

    @abstractmethod
    def slope(self, dual: FloatArray) -> FloatArray:
        """Return the first derivatives of ``value``."""

    @abstractmethod
    def curvature(self, dual: FloatArray) -> FloatArray:
        """Return the second derivatives of ``value``, > 0."""

    @abstractmethod
    def gap(self, dual: FloatArray, q: FloatArray) -> float:
        """Return primal minus dual objective; q is what the dual predicts."""

    def longest(self, dual: FloatArray, step: FloatArray) -> float:
        """Return how far a step may go, at most 1."""
        return 1.0


@dataclass(frozen=True, eq=False)
class Squared(Distance):
    """Weighted squares: sum of w (q - p)^2."""

    w: FloatArray

    def start(self, eta: float) -> FloatArray:
        """Return 0, the uniform distribution."""
        return np.zeros_like(self.p)

    def value(self, dual: FloatArray) -> float:
        """Return the sum of dual^2 / 4w - dual p."""
        return float((dual * dual / (4 * self.w) - dual * self.p).sum())

    def slope(self, dual: FloatArray) -> FloatArray:
        """Return dual / 2w - p."""
        found: FloatArray = dual / (2 * self.w) - self.p
        return found

    def curvature(self, dual: FloatArray) -> FloatArray:
        """Return 1 / 2w."""
        found: FloatArray = 1 / (2 * self.w)
        return found

    def gap(self, dual: FloatArray, q: FloatArray) -> float:
        """Return the sum of w (q - p + dual / 2w)^2, free of cancellation."""
        return float((self.w * (self.slope(dual) + q) ** 2).sum())


@dataclass(frozen=True, eq=False)
class Divergence(Distance):
    """The negative log-likelihood: minus the sum of p log q."""

    def start(self, eta: float) -> FloatArray:
        """Return a dual that changes the uniform distribution little."""
        return np.full_like(self.p, eta)

    def value(self, dual: FloatArray) -> float:
        """Return minus the sum of p log dual."""
        return -float(self.p @ np.log(dual))

    def slope(self, dual: FloatArray) -> FloatArray:
        """Return -p / dual."""
        found: FloatArray = -self.p / dual
        return found

    def curvature(self, dual: FloatArray) -> FloatArray:
        """Return p / dual^2."""
        found: FloatArray = self.p / dual**2
        return found

    def gap(self, dual: FloatArray, q: FloatArray) -> float:
        """Return the sum of p (t - 1 - log t) with t = dual q / p, which is 1 at the optimum."""
        excess = dual * q / self.p - 1
        return float(self.p @ (excess - np.log1p(excess)))

    def longest(self, dual: FloatArray, step: FloatArray) -> float:
        """Return what keeps the dual positive."""
        shrinking = step < 0
        if not shrinking.any():
            return 1.0
        return min(1.0, 0.95 * float((dual[shrinking] / -step[shrinking]).min()))


@dataclass(frozen=True, eq=False)
class Solution:
    """Masses, how far they may be from the optimum, and the steps it took."""

    masses: FloatArray
    gap: float
    iterations: int


def minimise(matrix: FloatArray, widths: FloatArray, distance: Distance, eta: float) -> Solution:
    r"""Return the masses that minimise distance - eta * entropy.

    .. math:: \min_\pi \; d(A \pi) + \eta \sum_b \pi_b \log (\pi_b / w_b)
        \quad = \quad - \min_\lambda \; d^*(-\lambda) + \eta \log \sum_b w_b \exp((A^\top \lambda)_b / \eta)

    Newton steps with Armijo's rule from the uniform distribution. The linear system has the smaller of the
    number of outcomes and the number of bins as its size.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin) of the outcomes that were seen
    widths : (n_bins,) ranks per bin; mass lies evenly on them, so that bins do not change the entropy
    distance : from what was seen
    eta : weight of the entropy, > 0

    Raises
    ------
    NotConverged
        When the duality gap stays above 1e-9.

    Examples
    --------
    >>> even = minimise(np.ones((1, 3)), np.ones(3), Divergence(np.ones(1)), 0.1)
    >>> even.masses.round(4).tolist()
    [0.3333, 0.3333, 0.3333]
    """
    dual = distance.start(eta)
    point = _Point.at(matrix, widths, distance, eta, dual)
    iterations = 0
    while iterations < _STEPS:
        iterations += 1
        gradient = distance.slope(dual) + point.q
        try:
            step = -_solve(matrix, point, distance.curvature(dual), eta, gradient)
        except LinAlgError:  # eta below rounding; the gap tells
            break
        slope = float(gradient @ step)
        is_last = -slope <= 1e-15 * (1 + abs(point.value))  # rounding hides any further descent
        size = distance.longest(dual, step)
        moved = _Point.at(matrix, widths, distance, eta, dual + size * step)
        while not is_last and not moved.value <= point.value + 1e-4 * size * slope and size > 1e-12:
            size /= 2
            moved = _Point.at(matrix, widths, distance, eta, dual + size * step)
        if is_last and not moved.gap < point.gap:
            break
        dual, point = dual + size * step, moved
        if point.gap <= _ZERO:
            break
    if not point.gap <= _ENOUGH:
        raise NotConverged(
            f"maximal entropy came within {point.gap:.1e} of its optimum in {iterations} steps, not "
            f"1e-9. Use a larger eta than {eta:g}.",
            last=point.masses,
        )
    return Solution(point.masses, point.gap, iterations)


@dataclass(frozen=True, eq=False)
class _Point:
    masses: FloatArray
    q: FloatArray
    value: float
    gap: float

    @classmethod
    def at(
        cls, matrix: FloatArray, widths: FloatArray, distance: Distance, eta: float, dual: FloatArray
    ) -> _Point:
        exponent = dual @ matrix / eta
        top = float(exponent.max())
        masses = widths * np.exp(exponent - top)
        total = float(masses.sum())
        masses /= total
        q: FloatArray = matrix @ masses
        value = distance.value(dual) + eta * (top + np.log(total))
        return cls(masses, q, value, distance.gap(dual, q))


def _solve(
    matrix: FloatArray, point: _Point, curvature: FloatArray, eta: float, right: FloatArray
) -> FloatArray:
    """Solve (diag(curvature) + covariance / eta) x = right, scaled so that eigenvalues are at least 1."""
    scale = 1 / np.sqrt(curvature)
    root = (matrix - point.q[:, None]) * np.sqrt(point.masses / eta) * scale[:, None]
    scaled = right * scale
    is_wide = root.shape[0] <= root.shape[1]
    inner = dsyrk(1.0, root.T, trans=is_wide)  # the upper half of root root' or of root' root
    inner[np.diag_indices_from(inner)] += 1
    factor = cho_factor(inner, overwrite_a=True)
    solved = cho_solve(factor, scaled) if is_wide else scaled - root @ cho_solve(factor, scaled @ root)
    found: FloatArray = solved * scale
    return found
