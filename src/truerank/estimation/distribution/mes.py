"""Maximal entropy: the rank distribution that trades closeness to the sampled ranks for entropy.

A convex problem, solved in its dual by Newton's method with the duality gap as a certificate (``minimise``).
The derivatives of the minimum in the fractions of outcomes follow from the optimality conditions by implicit
differentiation (``EntropySensitivity``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsyrk
from scipy.special import entr

from truerank.core.errors import InvalidParameter, NotConverged, check_above, check_choice
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import AdaptiveLaw, stopping_of
from truerank.estimation.distribution.base import LEAST, FittedMasses, MixtureEstimator, Sensitivity
from truerank.estimation.distribution.likelihood import Likelihood
from truerank.estimation.distribution.mle import log_likelihood
from truerank.estimation.tally import Tally

#: weight of the entropy unless another is asked for: the one of the authors' notebook
ETA = 0.01
_STEPS = 500
_ENOUGH = 1e-9  # largest duality gap of a solution that is returned
_ZERO = 1e-24  # duality gap below which all is rounding


@dataclass(frozen=True, eq=False)
class Distance(ABC):
    """A convex distance of predicted probabilities q from fractions p, outcome by outcome, and its dual."""

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
        slopes: FloatArray = dual / (2 * self.w) - self.p
        return slopes

    def curvature(self, dual: FloatArray) -> FloatArray:
        """Return 1 / 2w."""
        curvatures: FloatArray = 1 / (2 * self.w)
        return curvatures

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
        slopes: FloatArray = -self.p / dual
        return slopes

    def curvature(self, dual: FloatArray) -> FloatArray:
        """Return p / dual^2."""
        curvatures: FloatArray = self.p / dual**2
        return curvatures

    def gap(self, dual: FloatArray, q: FloatArray) -> float:
        """Return the sum of p (t - 1 - log t) with t = dual q / p, which is 1 at the optimum."""
        excess = dual * q / self.p - 1
        return float(self.p @ (excess - np.log1p(excess)))

    def longest(self, dual: FloatArray, step: FloatArray) -> float:
        """Return the longest step that keeps the dual positive."""
        shrinking = step < 0
        if not shrinking.any():
            return 1.0
        return min(1.0, 0.95 * float((dual[shrinking] / -step[shrinking]).min()))


@dataclass(frozen=True, eq=False)
class EntropyMinimum:
    """Masses, their duality gap, and the Newton steps taken."""

    masses: FloatArray
    gap: float
    iterations: int


def minimise(matrix: FloatArray, widths: FloatArray, distance: Distance, eta: float) -> EntropyMinimum:
    r"""Return the masses that minimise distance - eta * entropy.

    .. math:: \min_\pi \; d(A \pi) + \eta \sum_b \pi_b \log (\pi_b / w_b)
        \quad = \quad - \min_\lambda \; d^*(-\lambda) + \eta \log \sum_b w_b \exp((A^\top \lambda)_b / \eta)

    Newton steps with Armijo's rule from the uniform distribution. The linear system has the smaller of the
    number of outcomes and the number of bins as its size.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin) of the outcomes that occur
    widths : (n_bins,) ranks per bin; the entropy is that of ranks, with the mass of a bin spread evenly
    distance : from the fractions of outcomes
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
        except LinAlgError:  # eta is too small for floating point; the gap decides
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
            f"maximal entropy must come within 1e-9 of its optimum, got {point.gap:.1e} after {iterations} "
            f"steps. Use a larger eta than {eta:g}.",
            last=point.masses,
        )
    return EntropyMinimum(point.masses, point.gap, iterations)


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
    solution: FloatArray = solved * scale
    return solution


@dataclass(frozen=True)
class MaximalEntropy(MixtureEstimator):
    r"""Distribution of global ranks that trades its distance from the sampled ones for entropy.

    Ranks that the sample cannot tell apart stay equally probable. The result depends on eta as that of EM
    does on its iterations, but it is the minimum of a stated objective, and the duality gap is reported.

    .. math:: \min_\pi \sum_o w_o (q_o - p_o)^2 - \eta H(\pi), \qquad q_o = \sum_b \pi_b P(o \mid b), \quad
              H(\pi) = -\sum_R \pi_R \log \pi_R

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart.
        The entropy is that of the single ranks.
    eta : weight of the entropy; none is 0.01, for samples of any size
    weight : w is ``n-shares``, n p; ``shares``, p; or ``one``. Outcomes that do not occur weigh nothing.
    distance : ``squared`` as above, or ``likelihood``, minus the sum of p log q, which has no weights

    Notes
    -----
    Objective and defaults follow the authors' notebook. The text of [li2023]_ gives eta = 0.001 and no
    weights; which of the two made its tables stays open, and ``docs/papers.md`` has the errors of both beside
    the printed ones. Where samples differ in size, n is their mean size over targets. An outcome is then a
    pair (m, j) and q its joint probability, the fraction of samples of the size or the probability that
    sampling stopped there included; pools of several sizes are combined by R/N. Adaptive samples have more
    outcomes with smaller fractions, which weakens the distance against the entropy: take a smaller eta. On
    the scale of ``distance=likelihood`` eta is another number too.

    Diagnostics: ``eta``, ``entropy``, ``log_likelihood`` (mean per target), ``gap`` (upper bound on how far
    the objective lies above its minimum), ``iterations`` of Newton's method.

    Examples
    --------
    >>> MaximalEntropy(eta=0.01)
    MaximalEntropy(grid=0.1, eta=0.01, weight='n-shares', distance='squared')
    """

    eta: float | None = None
    weight: Literal["n-shares", "shares", "one"] = "n-shares"
    distance: Literal["squared", "likelihood"] = "squared"
    key: ClassVar[str] = "mes"
    source: ClassVar[Source] = Source("jin2021")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("weight", self.weight, ("n-shares", "shares", "one"))
        check_choice("distance", self.distance, ("squared", "likelihood"))
        if self.eta is not None:
            check_above("eta", self.eta, 0)
        if self.distance == "likelihood" and self.weight != type(self).weight:
            raise InvalidParameter(
                f"distance=likelihood has no weights, got weight={self.weight}. Leave out one of the two."
            )

    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run."""
        widths = np.diff(likelihood.grid.edges).astype(np.float64)
        sizes = likelihood.fractions @ (likelihood.n_negatives + 1)

        def solve(run: int) -> EntropyMinimum:
            matrix, fractions = joint_outcomes(likelihood, run, tallies[run])
            return minimise(matrix, widths, self._distance(fractions, sizes[run]), self.entropy_weight)

        with single_threaded_blas():
            runs = range(likelihood.n_runs)
            solved = list(ordered_map(solve, runs, n_threads=available_threads()))
        masses = np.stack([minimum.masses for minimum in solved])
        heights = log_likelihood(likelihood.matrix, likelihood.fractions, masses)
        return FittedMasses(
            masses,
            [
                {
                    "eta": self.entropy_weight,
                    "entropy": float(entr(minimum.masses / widths) @ widths),
                    "log_likelihood": float(height),
                    "gap": minimum.gap,
                    "iterations": float(minimum.iterations),
                }
                for minimum, height in zip(solved, heights, strict=True)
            ],
        )

    @property
    def entropy_weight(self) -> float:
        """Eta, the default's in place of none."""
        return ETA if self.eta is None else self.eta

    @property
    def has_influence(self) -> bool:
        """Whether the objective is differentiable: with equal weights an outcome appears all at once."""
        return self.distance == "likelihood" or self.weight != "one"

    def sensitivity(
        self, likelihood: Likelihood, fit: FittedMasses, tally: Tally, slope: FloatArray
    ) -> Sensitivity:
        """Return the derivatives of the fit in the fractions of outcomes."""
        return EntropySensitivity.of(self, likelihood, fit.masses[0], tally, slope)

    def _distance(self, p: FloatArray, n: float) -> Distance:
        if self.distance == "likelihood":
            return Divergence(p)
        w = {"n-shares": n * p, "shares": p, "one": np.ones_like(p)}[self.weight]
        return Squared(p, w)


def joint_outcomes(likelihood: Likelihood, run: int, tally: Tally) -> tuple[FloatArray, FloatArray]:
    """Return P(m, j | bin), (n, n_bins), and the fraction of targets, (n,), of each pair (m, j) of a run.

    P(j | m, bin) is the mean over pools, weighted by their targets with that j. It is multiplied by the
    fraction of targets with samples of size m; in adaptive samples, whose size is an outcome, by the
    probability that sampling stopped at m, given that j of m are above the target.
    """
    seen = np.flatnonzero(likelihood.fractions[run] > 0)
    p, m, j = likelihood.fractions[run, seen], likelihood.n_negatives[seen], likelihood.n_above[seen]
    rule = stopping_of(tally)
    if rule is None:
        probability = _fraction_of_size(m, p)
    else:
        probability = np.zeros(len(seen))
        for pool in np.unique(likelihood.n_candidates[seen]):
            rows = np.flatnonzero(likelihood.n_candidates[seen] == pool)
            law = AdaptiveLaw(int(pool), rule, tally.design.replacement)
            probability[rows] = stop_probabilities(law, m[rows], j[rows])
    order = np.lexsort((j, m))
    starts = np.flatnonzero((np.diff(m[order], prepend=-1) != 0) | (np.diff(j[order], prepend=-1) != 0))
    fractions: FloatArray = np.add.reduceat(p[order], starts)
    rows = likelihood.matrix[seen[order]] * (p * probability)[order][:, None]
    return np.add.reduceat(rows, starts, axis=0) / fractions[:, None], fractions


def _fraction_of_size(m: IntArray, p: FloatArray) -> FloatArray:
    """Return the fraction of targets that have the same m as each outcome."""
    _, which = np.unique(m, return_inverse=True)
    fraction: FloatArray = np.bincount(which, weights=p)[which].astype(np.float64)
    return fraction


def stop_probabilities(law: AdaptiveLaw, m: IntArray, j: IntArray) -> FloatArray:
    """Return the probability that sampling stops at m, given that j of m stand above the target."""
    result = np.zeros(len(m))
    for reached, size in zip(law.rounds, law.sizes, strict=True):
        rows = np.flatnonzero(m == size)
        index = np.clip(j[rows] - reached.first, 0, max(len(reached.factor) - 1, 0))
        result[rows] = reached.factor[index] if len(reached.factor) else 0.0
    return result


@dataclass(frozen=True, eq=False)
class EntropySensitivity(Sensitivity):
    r"""Implicit differentiation of the masses at the minimum of d(q, p) - eta H.

    With the second derivative M of the objective on masses that sum to 1, and :math:`\mu = M^{-1} c` for
    numbers with derivatives c in the masses, their derivatives in a fraction p are
    :math:`-\mu \cdot \partial_p \nabla_\pi d`. The weights of the distance, the mean over pools and the
    fraction of samples of a size depend on p as well.

    Parameters
    ----------
    estimator, tally : what was fitted, to what
    masses : (n_bins,) as fitted
    adjoint : (n_bins, n_numbers) mu
    fractions, predicted : (n_groups,) p and q of the pairs (m, j) in use
    moved : (n_groups, n_numbers) q with mu in place of the masses
    number : of each pair in use
    size : mean n = m + 1
    of_size : fraction of samples of each m, and (n_numbers,) derivatives in it; empty for adaptive samples
    per_item : (n_numbers,) derivatives in the mean size
    """

    estimator: MaximalEntropy
    tally: Tally
    masses: FloatArray
    adjoint: FloatArray
    fractions: FloatArray
    predicted: FloatArray
    moved: FloatArray
    number: dict[tuple[int, int], int]
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
        """Solve for mu."""
        matrix, p = joint_outcomes(likelihood, 0, tally)
        q = np.maximum(matrix @ masses, LEAST)
        n = float(likelihood.fractions[0] @ (likelihood.n_negatives + 1))
        is_squared = estimator.distance == "squared"
        scale = n if estimator.weight == "n-shares" else 1.0
        curvature = 2 * scale * p if is_squared else p / q**2
        adjoint = _solved(matrix, masses, curvature, estimator.entropy_weight, slope)
        moved = matrix @ adjoint
        seen = np.flatnonzero(likelihood.fractions[0] > 0)
        m, j = likelihood.n_negatives[seen], likelihood.n_above[seen]
        pairs = np.unique(np.stack([m, j], axis=1), axis=0)
        per_item = np.zeros(slope.shape[1])
        if is_squared and estimator.weight == "n-shares":
            per_item += 2 * (p * (q - p)) @ moved
        of_size: dict[int, tuple[float, FloatArray]] = {}
        if stopping_of(tally) is None:
            for sample_size in np.unique(m).tolist():
                rows = pairs[:, 0] == sample_size
                fraction = float(p[rows].sum())
                terms = 2 * scale * p * (2 * q - p) if is_squared else np.zeros_like(p)
                of_size[sample_size] = fraction, terms[rows] @ moved[rows] / fraction
        numbers = {(int(a), int(b)): number for number, (a, b) in enumerate(pairs.tolist())}
        return cls(estimator, tally, masses, adjoint, p, q, moved, numbers, n, of_size, per_item)

    def at(
        self, probabilities: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> FloatArray:
        """Return the derivatives, (n_outcomes, n_numbers)."""
        factor, shared = self._factor(n_negatives, n_candidates, n_above)
        q = np.maximum(probabilities @ self.masses * factor, LEAST)
        moved = probabilities @ self.adjoint * factor[:, None]
        group = np.array([self.number.get((n_negatives, j), -1) for j in n_above.tolist()], dtype=np.int64)
        is_new = group < 0
        p_group = np.where(is_new, 0.0, self.fractions[group])
        q_group = np.where(is_new, q, self.predicted[group])
        moved_group = np.where(is_new[:, None], moved, self.moved[group])
        if self.estimator.distance == "likelihood":
            terms = (moved_group * ((q - q_group) / q_group)[:, None] - moved) / q_group[:, None]
        else:
            scale = self.size if self.estimator.weight == "n-shares" else 1.0
            terms = (q - q_group - p_group)[:, None] * moved_group + (q_group - p_group)[:, None] * moved
            terms *= 2 * scale
        slopes: FloatArray = -(terms + shared + (n_negatives + 1) * self.per_item)
        return slopes

    def _factor(
        self, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> tuple[FloatArray, FloatArray | float]:
        """Return the ratio of P(m, j | bin) to P(j | m, bin), and derivatives in the fraction of size m."""
        rule = stopping_of(self.tally)
        if rule is None:
            fraction, shared = self.of_size[n_negatives]
            return np.full(len(n_above), fraction), shared
        law = AdaptiveLaw(n_candidates, rule, self.tally.design.replacement)
        return stop_probabilities(law, np.full_like(n_above, n_negatives), n_above), 0.0


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
    adjoint: FloatArray = solved[:, :-1] - solved[:, -1:] * (sums[:-1] / sums[-1])
    return adjoint
