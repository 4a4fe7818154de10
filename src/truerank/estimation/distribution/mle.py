"""Maximum likelihood: a distribution of global ranks by EM, or the exact non-parametric maximum.

The log-likelihood of masses over bins is concave, so the gradient bounds how far any masses are from the
maximum (``gap``). EM is run for a fixed number of steps. The exact maximum, the non-parametric
maximum-likelihood estimator of a mixing distribution, has a few atoms and is found by an interior-point
method on few bins at a time. The derivative of the masses after some steps of EM is the chain rule backwards
through the steps.

Symbols: A is P(outcome | bin), p the fractions of the outcomes, w the masses, q = Aw, g = A'(p/q) the
gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from truerank.core.errors import InvalidParameter, NotConverged, check_at_least, check_choice
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.plugin import Source
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.distribution.base import (
    LEAST,
    NEVER,
    FittedMasses,
    MixtureEstimator,
    Refit,
    Sensitivity,
    em_slope,
)
from truerank.estimation.distribution.likelihood import Likelihood
from truerank.estimation.tally import Tally

_MOST_ITERATIONS = 100_000  # some minutes of one core; solver=exact gives the maximum itself
_RUNS = 25  # runs a thread takes at once; fixed, so that sums do not depend on the number of threads
_NONE = 1e-200  # smaller masses are set to 0: products of denormal numbers are slow
_LEAST = 1e-300  # replaces probabilities that are 0 in floating point


def em(matrix: FloatArray, fractions: FloatArray, masses: FloatArray, iterations: int) -> FloatArray:
    r"""Return the masses after some steps of EM, one row per run.

    .. math:: \pi_b \leftarrow \pi_b \sum_o p_o P(o \mid b) / q_o, \qquad q_o = \sum_b \pi_b P(o \mid b)

    A step is two matrix products over all runs, O(n_runs n_outcomes n_bins). A run alone and the same run
    among others agree to about 1e-14, not to the bit: the order of sums depends on the shape of a product.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin)
    fractions : (n_runs, n_outcomes) p
    masses : (n_runs, n_bins) where to start
    iterations : how many steps; there is no other stopping rule

    Examples
    --------
    >>> em(np.eye(2), np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]]), 1).tolist()
    [[0.25, 0.75]]
    """
    start = np.array(masses, dtype=np.float64)

    def part(first: int) -> FloatArray:
        runs = slice(first, first + _RUNS)
        current, p = start[runs], fractions[runs]
        for _ in range(iterations):
            current *= gradient(matrix, p, current)
            current[current < _NONE] = 0.0
        return current

    with single_threaded_blas():
        blocks = ordered_map(part, range(0, len(start), _RUNS), n_threads=available_threads())
        return np.concatenate(list(blocks))


def gradient(matrix: FloatArray, fractions: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Return :math:`g_b = \sum_o p_o P(o \mid b) / q_o`, one row per run; its mean under the masses is 1."""
    ratio = masses @ matrix.T
    np.maximum(ratio, _LEAST, out=ratio)
    np.divide(fractions, ratio, out=ratio)
    return ratio @ matrix


def log_likelihood(matrix: FloatArray, fractions: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Return the mean log-likelihood :math:`\sum_o p_o \log q_o` of each run."""
    predicted = np.maximum(masses @ matrix.T, _LEAST)
    means: FloatArray = np.einsum("ro,ro->r", fractions, np.log(predicted))
    return means


def gap(matrix: FloatArray, fractions: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Return by how much, at most, other masses could raise the mean log-likelihood of each run.

    The likelihood is concave, so it rises by no more than :math:`\max_b g_b - 1`; 0 at the optimum.

    Examples
    --------
    >>> gap(np.eye(2), np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])).tolist()
    [0.5]
    """
    bound: FloatArray = np.maximum(gradient(matrix, fractions, masses).max(axis=1) - 1.0, 0.0)
    return bound


@dataclass(frozen=True)
class MaximumLikelihood(MixtureEstimator):
    r"""Distribution of global ranks by EM from the uniform one, or the exact non-parametric maximum.

    The number of EM steps is part of the estimator: stopping early regularises. The maximum itself has a few
    atoms and is a poor estimate of the first ranks; a hundred steps from the uniform distribution are far
    from it and closer to the truth. EM does not converge by default, and the distance to the maximum is among
    the diagnostics. A step costs O(n_outcomes n_bins), whatever the numbers of users and ranks.

    .. math:: \max_\pi \sum_o p_o \log \sum_b \pi_b P(o \mid b)

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart
    iterations : steps of EM; the papers take 100 for samples of fixed size and 50 for adaptive ones
    solver : ``em``, or ``exact`` for the maximum, which takes no ``iterations``

    Notes
    -----
    Samples of any sizes are treated alike, adaptive ones too: the stopping rule multiplies the likelihood by
    a factor that does not depend on the rank. Diagnostics: ``iterations``, ``log_likelihood`` (mean per
    target) and ``gap``, an upper bound on how much larger the maximum of the log-likelihood is.

    Examples
    --------
    >>> MaximumLikelihood(iterations=50)
    MaximumLikelihood(grid=0.1, iterations=50, solver='em')
    """

    iterations: int = 100
    solver: Literal["em", "exact"] = "em"
    key: ClassVar[str] = "mle"
    source: ClassVar[Source] = Source("jin2021")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("solver", self.solver, ("em", "exact"))
        if isinstance(self.iterations, bool) or self.iterations < 1:
            raise InvalidParameter(f"iterations must be an integer >= 1, got {self.iterations!r}. Use 100.")
        check_at_least("iterations", self.iterations, 1, _MOST_ITERATIONS)
        if self.solver == "exact" and self.iterations != type(self).iterations:
            raise InvalidParameter(
                f"solver=exact runs to the maximum and takes no iterations, got {self.iterations}. "
                f"Leave out one of the two."
            )

    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run."""
        matrix, fractions = likelihood.matrix, likelihood.fractions
        with single_threaded_blas():
            if self.solver == "exact":
                masses, steps = maximise_runs(matrix, fractions)
            else:
                start = np.broadcast_to(likelihood.grid.even, (len(fractions), likelihood.grid.n_bins))
                masses = em(matrix, fractions, start, self.iterations)
                steps = [self.iterations] * len(fractions)
            figures = zip(
                steps, log_likelihood(matrix, fractions, masses), gap(matrix, fractions, masses), strict=True
            )
        return FittedMasses(
            masses,
            [
                {"iterations": float(count), "log_likelihood": float(value), "gap": float(bound)}
                for count, value, bound in figures
            ],
        )

    @property
    def em_steps(self) -> int:
        """The CPU time of one fit, in steps of EM, roughly."""
        return self.iterations if self.solver == "em" else 700

    @property
    def has_influence(self) -> bool:
        """Whether the masses move smoothly: the atoms of the exact maximum jump from bin to bin."""
        return self.solver == "em"

    def sensitivity(
        self, likelihood: Likelihood, fit: FittedMasses, tally: Tally, slope: FloatArray
    ) -> Sensitivity:
        """Return the derivatives of the fit in the fractions of outcomes."""
        return EmSensitivity.of(likelihood, self.iterations, slope)

    def refit(self, likelihood: Likelihood, tally: Tally) -> Refit:
        """Return a function that fits resamples; an exact maximum may fall short by less than noise."""
        return super().refit(likelihood, tally) if self.solver == "em" else _refit_exactly


def maximise_runs(matrix: FloatArray, fractions: FloatArray) -> tuple[FloatArray, list[int]]:
    """Return the masses of the largest likelihood of each run, and the Newton steps."""
    maxima = list(ordered_map(lambda p: maximise(matrix, p), list(fractions), n_threads=available_threads()))
    return np.stack([run.masses for run in maxima]), [run.iterations for run in maxima]


def _refit_exactly(runs: Likelihood, n_rows: FloatArray) -> FloatArray:
    """Return the maxima; a run that stops short by less than ``_LITTLE`` is taken as it is."""

    def solve(run: int) -> FloatArray:
        try:
            return maximise(runs.matrix, runs.fractions[run]).masses
        except NotConverged as error:
            last = error.last
            if not isinstance(last, LikelihoodMaximum) or last.gap * n_rows[run] > _LITTLE:
                raise
            return last.masses

    with single_threaded_blas():
        return np.stack(list(ordered_map(solve, range(runs.n_runs), n_threads=available_threads())))


TOLERANCE = 1e-9  #: largest gap of a maximum that is returned
_LITTLE = 0.05  # log-likelihood of all rows by which a fit to a resample may fall short of its maximum
_GOAL = 1e-11  # gap at which a sub-problem is solved
_ROUNDS = 60
_STEPS = 80
_FIRST = 64  # bins to start from
_STALLED = 6  # steps without progress after which a sub-problem is not improved further


@dataclass(frozen=True, eq=False)
class LikelihoodMaximum:
    """Masses of the largest likelihood.

    Parameters
    ----------
    masses : (n_bins,) non-negative, they sum to 1
    gap : upper bound on how much larger the maximum of the mean log-likelihood is
    iterations : Newton steps
    """

    masses: FloatArray
    gap: float
    iterations: int


def maximise(matrix: FloatArray, fractions: FloatArray) -> LikelihoodMaximum:
    r"""Return the masses that maximise :math:`\sum_o p_o \log \sum_b w_b P(o \mid b)`.

    Few bins have mass at the maximum. The problem restricted to some bins is solved by Newton steps of an
    interior-point method; then bins where the gradient exceeds 1, at and around each of its peaks, join those
    with mass, until there is none. A step costs O(n_outcomes k^2) for k bins, mostly fewer than a hundred.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin)
    fractions : (n_outcomes,) p

    Raises
    ------
    NotConverged
        When the gap stays above 1e-9; ``last`` holds the best ``LikelihoodMaximum``.

    Notes
    -----
    The gap is that of the general mixture theorem: no masses have a mean log-likelihood larger than that of w
    by more than the largest gradient - 1. In the problem that is solved the sum of w is free and is
    subtracted from the objective instead; at the optimum it is 1.

    Examples
    --------
    >>> maximise(np.array([[0.9, 0.5], [0.1, 0.5]]), np.array([0.8, 0.2])).masses.round(6).tolist()
    [0.75, 0.25]
    """
    seen = fractions > 0
    A, p = matrix[seen], fractions[seen] / fractions[seen].sum()
    n_bins = A.shape[1]
    is_used = _first_bins(A)
    best, steps = LikelihoodMaximum(np.zeros(n_bins), np.inf, 0), 0
    for _ in range(_ROUNDS):
        bins = np.flatnonzero(is_used)
        solution, taken = _interior(np.ascontiguousarray(A[:, bins]), p)
        steps += taken
        masses = np.zeros(n_bins)
        masses[bins] = solution
        slope = A.T @ (p / (A @ masses))
        gap = max(float(slope.max()) - 1.0, 0.0)
        if gap < best.gap:
            best = LikelihoodMaximum(masses, gap, steps)
        joining = _peaks(slope, 1.0 + 10 * _GOAL) & ~is_used
        if gap <= 10 * _GOAL or not joining.any():
            break
        is_used = joining | (masses > 1e-9)
        is_used[1:] |= masses[:-1] > 1e-6
        is_used[:-1] |= masses[1:] > 1e-6
    best = LikelihoodMaximum(best.masses, best.gap, steps)
    if best.gap > TOLERANCE:
        raise NotConverged(
            f"the likelihood could only be brought to within {best.gap:.1e} of its maximum, not {TOLERANCE}. "
            f"Use solver=em.",
            best,
        )
    return best


def _first_bins(A: FloatArray) -> BoolArray:
    """Return bins at equal steps, and the most probable bin of each outcome that is rare in all of these."""
    n_bins = A.shape[1]
    chosen = np.unique(np.linspace(0, n_bins - 1, min(n_bins, _FIRST)).astype(np.int64))
    is_used = np.zeros(n_bins, dtype=np.bool_)
    is_used[chosen] = True
    best: IntArray = np.argmax(A, axis=1)
    is_used[best[A[:, chosen].max(axis=1) < 1e-3 * A[np.arange(len(A)), best]]] = True
    return is_used


def _peaks(slope: FloatArray, level: float) -> BoolArray:
    """Return the bins above a level that no neighbour exceeds, and their neighbours."""
    padded = np.concatenate([[-np.inf], slope, [-np.inf]])
    is_peak = (slope > level) & (slope >= padded[:-2]) & (slope >= padded[2:])
    near = is_peak.copy()
    near[1:] |= is_peak[:-1]
    near[:-1] |= is_peak[1:]
    return near


def _interior(A: FloatArray, p: FloatArray) -> tuple[FloatArray, int]:
    """Return the optimal masses over the columns of A and the steps taken.

    Predictor and corrector are quick, but about one in a thousand problems with tiny fractions and unlike
    columns gets stuck near a bound; it is solved again by cautious steps.
    """
    masses, gap, taken = _follow(A, p, is_cautious=False)
    if gap > TOLERANCE:
        again, smaller, more = _follow(A, p, is_cautious=True)
        masses, taken = again if smaller < gap else masses, taken + more
    return masses / masses.sum(), taken


def _follow(A: FloatArray, p: FloatArray, *, is_cautious: bool) -> tuple[FloatArray, float, int]:
    """Return masses, not yet with the sum 1, their gap, and the steps taken.

    With multipliers z >= 0 of the bounds w >= 0 the conditions are g + z = 1 and w z = 0. Eliminating z
    leaves (H + z/w) dw = g - 1 + c/w, with H the Hessian; in units of sqrt(w/z) its eigenvalues are at least
    1. Cautious steps are equally long for w and z and aim at a fifth of the present w z, without corrector.
    """
    size, root = A.shape[1], np.sqrt(p)
    w, z = np.full(size, 1.0 / size), np.ones(size)
    best, least, stalled, taken = w, np.inf, 0, 0
    while taken < _STEPS:
        scaled = A * (root / (A @ w))[:, None]
        g = scaled.T @ root
        gap = g.max() * w.sum() - 1.0
        stalled = 0 if gap < 0.5 * least else stalled + 1
        if gap < least:
            best, least = w, gap
        if least <= _GOAL or stalled > _STALLED:
            break
        unit = np.sqrt(w / z)
        scaled *= unit
        newton = scaled.T @ scaled
        newton[np.diag_indices(size)] += 1.0
        try:
            factor = cho_factor(newton, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # singular in floating point
            break
        taken += 1
        mean = w @ z / size
        centre: FloatArray | float = 0.2 * mean
        if not is_cautious:
            dw = unit * cho_solve(factor, unit * (g - 1.0), check_finite=False)
            dz = -z - z / w * dw
            after = (w + min(_reach(w, dw), 1.0) * dw) @ (z + min(_reach(z, dz), 1.0) * dz) / size
            centre = (after / mean) ** 3 * mean - dw * dz
        dw = unit * cho_solve(factor, unit * (g - 1.0 + centre / w), check_finite=False)
        dz = centre / w - z - z / w * dw
        if is_cautious:
            step = min(0.9 * _reach(w, dw), 0.9 * _reach(z, dz), 1.0)
            w, z = w + step * dw, z + step * dz
        else:
            w = w + min(0.995 * _reach(w, dw), 1.0) * dw
            z = z + min(0.995 * _reach(z, dz), 1.0) * dz
    return best, float(least), taken


def _reach(value: FloatArray, step: FloatArray) -> float:
    """Return the largest multiple of a step that keeps all values >= 0."""
    falling = step < 0
    return float((value[falling] / -step[falling]).min()) if falling.any() else np.inf


_ROWS = 64  # neighbouring outcomes taken together, which are probable in about the same bins


@dataclass(frozen=True, eq=False)
class EmSensitivity(Sensitivity):
    r"""Derivatives of the masses after some steps of EM: the chain rule backwards through all steps.

    With masses :math:`\pi_t`, slopes :math:`\lambda_t` in them and :math:`q_o = \sum_b \pi_{tb} P(o \mid b)`,

    .. math:: \frac{d}{d p_o} = \sum_t \frac{\sum_b \lambda_{t+1,b} \, \pi_{tb} \, P(o \mid b)}{q_o}

    A step backwards costs as much as one of EM for each number. Memory: steps times bins times numbers.

    Parameters
    ----------
    parts : (n_bins, n_steps, 1 + n_numbers) the masses before each step, and their products with the slopes
        in those after it
    """

    parts: FloatArray

    @classmethod
    def of(cls, likelihood: Likelihood, iterations: int, slope: FloatArray) -> EmSensitivity:
        """Run EM again, keep the masses of all steps, and differentiate backwards."""
        matrix, fractions = likelihood.matrix, likelihood.fractions[:1]
        masses = likelihood.grid.even[None]
        parts = np.empty((len(slope), iterations, 1 + slope.shape[1]))
        for step in range(iterations):
            parts[:, step, 0] = masses[0]
            masses = em(matrix, fractions, masses, 1)
        for step in reversed(range(iterations)):
            before = np.ascontiguousarray(parts[:, step, 0])
            parts[:, step, 1:] = before[:, None] * slope
            slope = em_slope(matrix, fractions[0], before, slope)
        return cls(parts)

    def at(
        self, probabilities: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> FloatArray:
        """Return the derivatives, (n_outcomes, n_numbers)."""
        n_steps, n_columns = self.parts.shape[1:]
        slopes = np.zeros((len(probabilities), n_columns - 1))
        for start in range(0, len(probabilities), _ROWS):
            rows = probabilities[start : start + _ROWS]
            bins = np.flatnonzero((rows > NEVER * rows.max(axis=1, keepdims=True)).any(axis=0))
            if len(bins) == 0:  # cannot occur
                continue
            window = slice(int(bins[0]), int(bins[-1]) + 1)
            within = self.parts[window].reshape(-1, n_steps * n_columns)
            sums = (rows[:, window] @ within).reshape(len(rows), n_steps, n_columns)
            predicted = np.maximum(sums[:, :, 0], LEAST)
            slopes[start : start + _ROWS] = np.einsum("otk,ot->ok", sums[:, :, 1:], 1.0 / predicted)
        return slopes
