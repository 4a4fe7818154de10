"""Smooth: a rank distribution as rough as the data ask for.

Penalised likelihood of a smooth log-density, and the penalty that the data prefer.

Smooth log-densities over ranks: a coordinate, a basis and a measure of roughness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import cho_factor, cho_solve
from scipy.special import betainc

from truerank.core.errors import InvalidParameter
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.plugin import Source
from truerank.core.types import FloatArray
from truerank.estimation.distribution.base import FittedMasses, MixtureEstimator, Refit, Sensitivity
from truerank.estimation.distribution.likelihood import Likelihood, RankGrid, grouped
from truerank.estimation.distribution.mle import log_likelihood
from truerank.estimation.tally import Tally

#: Exponent of the coordinate at both ends of the list, see ``coordinate``.
POWER = 0.2
#: Pieces of the splines. Twice as many change nothing that can be seen, see docs/smooth.md.
PIECES = 30
#: Standard deviation, before anything is seen, of the rise of the log-density over the whole list.
TREND = 20.0
_DEGREE = 3


@dataclass(frozen=True, eq=False)
class Basis:
    """Splines over the bins of a grid, and how rough a combination of them is.

    Parameters
    ----------
    values : (n_bins, n_splines) at the middle of each bin; rows sum to 1
    roughness : (n_splines, n_splines) the integral of the squared second derivative as a quadratic form
    fixed : (n_splines, n_splines) precision that does not depend on the penalty: of the trend, and of the
        constant, which no data can tell and which is therefore set to 0
    """

    values: FloatArray
    roughness: FloatArray
    fixed: FloatArray

    @property
    def n_splines(self) -> int:
        """The number of splines."""
        return int(self.values.shape[1])


def coordinate(share: FloatArray) -> FloatArray:
    r"""Return :math:`z = I_t(1/5, 1/5)`, the regularised incomplete beta function of shares t = R/N.

    A penalty on second derivatives continues what it sees as a straight line, so the coordinate decides what
    happens at ranks that the sample cannot resolve. As the exponent goes to 0, z becomes log(t / (1 - t)):
    straight lines are power laws, whose slope in log-rank never ends. At 1/2 it is the arcsine, the scale on
    which sampled ranks have constant variance: straight lines become flat at the top, as with EM from the
    uniform distribution. Between the two, the slope in log-rank fades as the fifth root of the rank.

    Examples
    --------
    >>> coordinate(np.array([0.0, 0.5, 1.0])).round(12).tolist()
    [0.0, 0.5, 1.0]
    """
    z: FloatArray = betainc(POWER, POWER, share)
    return z


def make_basis(grid: RankGrid) -> Basis:
    """Return the splines of a grid.

    Examples
    --------
    >>> basis = make_basis(RankGrid(np.arange(11)))
    >>> line = np.linspace(0, 1, basis.n_splines)
    >>> bool(abs(line @ basis.roughness @ line) < 1e-6), basis.values.shape
    (True, (10, 33))
    """
    middle = (grid.edges[:-1] + grid.edges[1:]) / (2 * grid.n_ranks)
    knots = np.arange(-_DEGREE, PIECES + _DEGREE + 1) / PIECES
    values = BSpline.design_matrix(coordinate(middle), knots, _DEGREE).toarray()
    n = values.shape[1]
    second = np.diff(np.eye(n), n=2, axis=0)
    line = np.arange(n) - (n - 1) / 2
    rise = line / (line @ line) * PIECES  # of the straight line in the coefficients, over the whole list
    return Basis(
        values,
        roughness=second.T @ second * float(PIECES) ** 3,
        fixed=np.outer(rise, rise) / TREND**2 + np.full((n, n), 1.0 / n**2),
    )


#: Penalties that are tried, smoothest first: from a straight line to more bends than any data support.
PENALTIES = 10.0 ** np.arange(2.0, -6.5, -1.0)
#: Mean and standard deviation of log10(penalty) before anything is seen. Samples of a thousand targets of the
#: data sets the design was chosen on have -2.7 +- 0.7; it matters to samples of a hundred or fewer.
USUAL, DECADES = -2.5, 1.5
_FALL = 8.0  # log marginal likelihood below the best one at which rougher ones are no longer tried
_STEPS = 60
_NEAR = 1e-3  # of the log-likelihood that a step may still gain on the way, enough to compare penalties
_CLOSE = 1e-9  # and at the end


@dataclass(frozen=True, eq=False)
class PenalisedLikelihood:
    """What is maximised: n_rows sum_o p_o log q_o - b'(penalty * roughness + fixed) b / 2.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin) up to a factor per outcome
    shares : (n_outcomes,) p > 0
    n_rows : how many targets the shares are of
    widths : (n_bins,) ranks per bin
    basis : of the log-density
    """

    matrix: FloatArray
    shares: FloatArray
    n_rows: float
    widths: FloatArray
    basis: Basis


def penalised_likelihood(
    likelihood: Likelihood, run: int, n_rows: float, basis: Basis | None = None
) -> PenalisedLikelihood:
    """Return the objective of one run with ``n_rows`` targets; the basis of its grid is made unless given."""
    matrix, shares = grouped(likelihood, run)
    widths = np.diff(likelihood.grid.edges).astype(np.float64)
    return PenalisedLikelihood(matrix, shares, float(n_rows), widths, basis or make_basis(likelihood.grid))


@dataclass(frozen=True, eq=False)
class Curve:
    """A log-density with its penalty, and how well it does.

    Parameters
    ----------
    coefficients : (n_splines,) b
    masses : (n_bins,) the distribution
    penalty : weight of the roughness
    objective : the penalised log-likelihood
    log_marginal : of the penalty, by Laplace's approximation, up to a constant
    freedom : effective degrees of freedom
    gain : how much a further step promises to raise the objective
    iterations : steps so far, those with other penalties included
    """

    coefficients: FloatArray
    masses: FloatArray
    penalty: float
    objective: float = -np.inf
    log_marginal: float = -np.inf
    freedom: float = 0.0
    gain: float = np.inf
    iterations: int = 0


def smooth_curve(
    problem: PenalisedLikelihood, penalty: float | None = None, start: Curve | None = None
) -> Curve:
    """Return the best curve under a penalty, or under that with the largest marginal likelihood.

    With a curve to start from, that of nearly the same shares, only penalties around its own are tried.

    Penalties are gone through from smooth to rough, each fit beginning where the last one ended; the first,
    nearly a straight line, has one maximum. The best on the list is refined by a parabola through it and its
    neighbours.
    """
    if start is not None:
        return _near(problem, start) if penalty is None else _fit(problem, start, penalty, _CLOSE)
    curve = _start(problem)
    if penalty is not None:
        for larger in PENALTIES[3 * penalty < PENALTIES]:
            curve = _fit(problem, curve, float(larger), _NEAR)
        return _fit(problem, curve, penalty, _CLOSE)
    path: list[Curve] = []
    for value in PENALTIES:
        curve = _fit(problem, curve, float(value), _NEAR)
        path.append(curve)
        if curve.log_marginal < max(one.log_marginal for one in path) - _FALL:
            break
    heights = [one.log_marginal + log_prior(one.penalty) for one in path]
    best = int(np.argmax(heights))
    chosen = path[best].penalty
    if 0 < best < len(path) - 1:
        left, middle, right = heights[best - 1 : best + 2]
        chosen *= 10.0 ** ((right - left) / (2 * (left - 2 * middle + right)))
    return _fit(problem, replace(path[best], iterations=curve.iterations), chosen, _CLOSE)


def _near(problem: PenalisedLikelihood, start: Curve) -> Curve:
    """Return the best curve under the penalty of a local maximum of the marginal likelihood.

    From the decade nearest to the penalty of the start it is gone up to where both neighbours are lower.
    """
    held: dict[int, Curve] = {}

    def height(place: int) -> float:
        if not 0 <= place < len(PENALTIES):
            return -np.inf
        if place not in held:
            nearest = min(held, key=lambda other: abs(other - place), default=None)
            first = start if nearest is None else held[nearest]
            held[place] = _fit(problem, first, float(PENALTIES[place]), _NEAR)
        return held[place].log_marginal + log_prior(held[place].penalty)

    best = int(np.argmin(np.abs(np.log(PENALTIES / start.penalty))))
    while True:
        left, middle, right = (height(best + step) for step in (-1, 0, 1))
        if middle >= max(left, right):
            break
        best += 1 if right > left else -1
    chosen = float(PENALTIES[best])
    if np.isfinite(left) and np.isfinite(right):
        chosen *= 10.0 ** ((right - left) / (2 * (left - 2 * middle + right)))
    return _fit(problem, held[best], chosen, _CLOSE)


def log_prior(penalty: float) -> float:
    """Return the log-density of the penalty before anything is seen: log-normal, see ``USUAL``."""
    return -float(((np.log10(penalty) - USUAL) / DECADES) ** 2) / 2


def _start(problem: PenalisedLikelihood) -> Curve:
    return Curve(np.zeros(problem.basis.n_splines), problem.widths / problem.widths.sum(), np.inf)


def _fit(problem: PenalisedLikelihood, curve: Curve, penalty: float, enough: float) -> Curve:
    """Return the curve under another penalty: Fisher scoring, steps halved until they climb."""
    precision = penalty * problem.basis.roughness + problem.basis.fixed
    point = _evaluate(problem, curve.coefficients, precision)
    steps = 0
    while steps < _STEPS:
        steps += 1
        gradient, information = _derivatives(problem, point, precision)
        factor = cho_factor(information + precision, lower=True, check_finite=False)
        direction = cho_solve(factor, gradient, check_finite=False)
        gain = float(gradient @ direction) / 2
        if gain <= enough:
            break
        size = 1.0
        moved = _evaluate(problem, point.coefficients + direction, precision)
        while not moved.objective >= point.objective + 0.2 * size * gain and size > 1e-9:
            size /= 2
            moved = _evaluate(problem, point.coefficients + size * direction, precision)
        if not moved.objective > point.objective:
            break
        point = moved
    halves = float(np.log(np.diag(factor[0])).sum())
    rank = problem.basis.n_splines - 2
    return Curve(
        point.coefficients,
        point.masses,
        penalty,
        objective=point.objective,
        log_marginal=point.objective + rank / 2 * np.log(penalty) - halves,
        freedom=float(np.trace(cho_solve(factor, information, check_finite=False))),
        gain=gain,
        iterations=curve.iterations + steps,
    )


@dataclass(frozen=True, eq=False)
class _Point:
    coefficients: FloatArray
    masses: FloatArray
    predicted: FloatArray
    objective: float


def _evaluate(problem: PenalisedLikelihood, coefficients: FloatArray, precision: FloatArray) -> _Point:
    height = problem.basis.values @ coefficients
    masses = problem.widths * np.exp(height - height.max())
    masses /= masses.sum()
    predicted = np.maximum(problem.matrix @ masses, 1e-300)
    objective = problem.n_rows * float(problem.shares @ np.log(predicted))
    objective -= float(coefficients @ precision @ coefficients) / 2
    return _Point(coefficients, masses, predicted, objective)


def _derivatives(
    problem: PenalisedLikelihood, point: _Point, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of the objective and the information of the data about the coefficients.

    d log q_o / db is the mean of the splines given the outcome less their mean. The information is the sum
    of its squares over rows: never negative, unlike the second derivative of a mixture.
    """
    weighted = point.masses[:, None] * problem.basis.values
    scores = problem.matrix @ weighted / point.predicted[:, None] - weighted.sum(axis=0)
    share = problem.n_rows * problem.shares
    gradient = share @ scores - precision @ point.coefficients
    return gradient, (scores * share[:, None]).T @ scores


@dataclass(frozen=True)
class Smooth(MixtureEstimator):
    r"""Distribution of global ranks with a smooth logarithm; how smooth is told by the sampled ranks.

    The estimator to start with when a whole distribution, or a metric with a small cut-off, is wanted from a
    fixed or adaptive sample. It says nothing about ranks that the sample cannot resolve but that they
    continue what is seen; where ranks have gaps or jumps at the top it is too smooth. Tens of milliseconds.

    .. math:: \max_f \; \sum_u \log \sum_R \pi_R P(r_u \mid R) - \frac{\tau}{2} \int f''(z)^2 \, dz,
              \qquad \log \pi_R = f(z(R/N)) - c

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart
    penalty : tau; none takes the value with the largest marginal likelihood

    Notes
    -----
    f is a cubic spline with penalised second differences over the coordinate z of this module, in the manner
    of the g-modelling of [efron2016]_. The marginal likelihood is Laplace's approximation with the
    Fisher information, times a wide prior of the penalty. It settles how much the curve bends where the
    sample sees it; how the curve goes on below rank N/n is settled by the coordinate alone. docs/smooth.md
    says how both were judged.

    Diagnostics: ``penalty``, ``degrees_of_freedom``, ``log_likelihood`` (mean per target), ``log_marginal``
    (comparable between penalties on one sample), ``gap`` (what a further step promises in log-likelihood),
    ``iterations``.

    Examples
    --------
    >>> Smooth()
    Smooth(grid=0.1, penalty=None)
    """

    penalty: float | None = None
    key: ClassVar[str] = "smooth"
    source: ClassVar[Source] = Source("efron2016")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty is not None and not 1e-8 <= self.penalty <= 1e4:
            raise InvalidParameter(
                f"penalty must lie between 1e-8 and 1e4, got {self.penalty!r}. Straight lines have 100, "
                f"usual curves 0.001 to 0.01."
            )

    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run; a run has the same alone and among others."""
        curves = self._curves(likelihood, [tally.n_rows for tally in tallies])
        masses = np.stack([curve.masses for curve in curves])
        heights = log_likelihood(likelihood.matrix, likelihood.shares, masses)
        return FittedMasses(
            masses,
            [
                {
                    "penalty": curve.penalty,
                    "degrees_of_freedom": curve.freedom,
                    "log_likelihood": float(height),
                    "log_marginal": curve.log_marginal,
                    "gap": curve.gain,
                    "iterations": float(curve.iterations),
                }
                for curve, height in zip(curves, heights, strict=True)
            ],
        )

    @property
    def has_influence(self) -> bool:
        """The coefficients solve smooth equations, and so does the penalty."""
        return True

    def sensitivity(
        self, likelihood: Likelihood, fit: FittedMasses, tally: Tally, slope: FloatArray
    ) -> Sensitivity:
        """Return the derivatives of the fit in the fractions of outcomes."""
        from truerank.estimation.distribution.influence_smooth import SplineSensitivity

        (curve,) = self._curves(likelihood, [tally.n_rows])
        problem = penalised_likelihood(likelihood, 0, tally.n_rows)
        return SplineSensitivity.of(problem, curve, likelihood, slope, is_chosen=self.penalty is None)

    def refit(self, likelihood: Likelihood, tally: Tally) -> Refit:
        """Return a function that fits resamples, each from the curve that is fitted to the sample."""
        (start,) = self._curves(likelihood, [tally.n_rows])

        def fit(runs: Likelihood, n_rows: FloatArray) -> FloatArray:
            return np.stack([curve.masses for curve in self._curves(runs, n_rows, start)])

        return fit

    def _curves(
        self, likelihood: Likelihood, n_rows: Sequence[int] | FloatArray, start: Curve | None = None
    ) -> list[Curve]:
        """Return the curve of each run, given how many targets it has and where to start."""
        basis = make_basis(likelihood.grid)

        def solve(run: int) -> Curve:
            problem = penalised_likelihood(likelihood, run, n_rows[run], basis)
            return smooth_curve(problem, self.penalty, start)

        with single_threaded_blas():
            return list(ordered_map(solve, range(likelihood.n_runs), n_threads=available_threads()))
