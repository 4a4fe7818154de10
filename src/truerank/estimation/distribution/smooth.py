"""Smooth: a rank distribution with a smooth logarithm, the smoothness chosen by marginal likelihood.

The log-density is a cubic spline over a transformed rank (``coordinate``) with a penalty on its second
derivative, fitted by penalised maximum likelihood (Fisher scoring). Among several penalties the one with the
largest marginal likelihood, by Laplace's approximation and with a wide prior, is taken.
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

#: Exponent of the coordinate at the top and the bottom of the list, see ``coordinate``.
POWER = 0.2
#: Pieces of the splines. Twice as many change no estimate noticeably, see docs/smooth.md.
PIECES = 30
#: Prior standard deviation of the rise of the log-density over the whole list.
TREND = 20.0
_DEGREE = 3


@dataclass(frozen=True, eq=False)
class SplineBasis:
    """Splines over the bins of a grid, and the roughness of a combination of them as a quadratic form.

    Parameters
    ----------
    values : (n_bins, n_splines) at the middle of each bin; rows sum to 1
    roughness : (n_splines, n_splines) the integral of the squared second derivative as a quadratic form
    fixed : (n_splines, n_splines) prior precision that does not depend on the penalty: of the trend, and of
        the constant, which is not identified and is therefore set to 0
    """

    values: FloatArray
    roughness: FloatArray
    fixed: FloatArray

    @property
    def n_splines(self) -> int:
        """The number of splines."""
        return int(self.values.shape[1])


def coordinate(fraction: FloatArray) -> FloatArray:
    r"""Return :math:`z = I_t(1/5, 1/5)`, the regularised incomplete beta function of t = R/N.

    A penalty on second derivatives extrapolates along a straight line, so the coordinate decides about ranks
    that the sample cannot resolve. As the exponent goes to 0, z becomes log(t / (1 - t)): straight lines are
    power laws, with a constant slope in log-rank. At 1/2 it is the arcsine, the scale on which sampled ranks
    have constant variance: straight lines become flat at the top, as with EM from the uniform distribution.
    Between the two, the slope in log-rank falls as the fifth root of the rank.

    Examples
    --------
    >>> coordinate(np.array([0.0, 0.5, 1.0])).round(12).tolist()
    [0.0, 0.5, 1.0]
    """
    z: FloatArray = betainc(POWER, POWER, fraction)
    return z


def make_basis(grid: RankGrid) -> SplineBasis:
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
    return SplineBasis(
        values,
        roughness=second.T @ second * float(PIECES) ** 3,
        fixed=np.outer(rise, rise) / TREND**2 + np.full((n, n), 1.0 / n**2),
    )


#: Penalties that are tried, smoothest first: from a straight line to rougher curves than any data support.
PENALTIES = 10.0 ** np.arange(2.0, -6.5, -1.0)
#: Prior mean and standard deviation of log10(penalty). Samples of a thousand targets of the data sets the
#: design was chosen on have -2.7 +- 0.7; the prior matters for samples of a hundred targets or fewer.
USUAL, DECADES = -2.5, 1.5
_FALL = 8.0  # fall of the log marginal likelihood after which rougher penalties are not tried
_STEPS = 60
_NEAR = 1e-3  # log-likelihood that a step may still gain while penalties are compared
_CLOSE = 1e-9  # and in the final fit


@dataclass(frozen=True, eq=False)
class PenalisedLikelihood:
    """The objective n_rows sum_o p_o log q_o - b'(penalty * roughness + fixed) b / 2.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin) up to a factor per outcome
    fractions : (n_outcomes,) p > 0
    n_rows : the number of targets
    widths : (n_bins,) ranks per bin
    basis : of the log-density
    """

    matrix: FloatArray
    fractions: FloatArray
    n_rows: float
    widths: FloatArray
    basis: SplineBasis


def penalised_likelihood(
    likelihood: Likelihood, run: int, n_rows: float, basis: SplineBasis | None = None
) -> PenalisedLikelihood:
    """Return the objective of one run with ``n_rows`` targets; the basis of its grid is made unless given."""
    matrix, fractions = grouped(likelihood, run)
    widths = np.diff(likelihood.grid.edges).astype(np.float64)
    return PenalisedLikelihood(matrix, fractions, float(n_rows), widths, basis or make_basis(likelihood.grid))


@dataclass(frozen=True, eq=False)
class SmoothCurve:
    """A fitted log-density with its penalty and figures about the fit.

    Parameters
    ----------
    coefficients : (n_splines,) b
    masses : (n_bins,) the distribution
    penalty : weight of the roughness
    objective : the penalised log-likelihood
    log_marginal : of the penalty, by Laplace's approximation, up to a constant
    freedom : effective degrees of freedom
    gain : the predicted rise of the objective by a further step
    iterations : steps so far, including those with other penalties
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
    problem: PenalisedLikelihood, penalty: float | None = None, start: SmoothCurve | None = None
) -> SmoothCurve:
    """Return the best curve under a penalty, or under that with the largest marginal likelihood.

    Penalties are tried from smooth to rough, each fit starting where the last one ended; the first, nearly a
    straight line, has one maximum. The best one is refined by a parabola through it and its neighbours. With
    a curve to start from, fitted to nearly the same fractions, only penalties around that of the curve are
    tried.
    """
    if start is not None:
        return _near(problem, start) if penalty is None else _fit(problem, start, penalty, _CLOSE)
    curve = _start(problem)
    if penalty is not None:
        for larger in PENALTIES[3 * penalty < PENALTIES]:
            curve = _fit(problem, curve, float(larger), _NEAR)
        return _fit(problem, curve, penalty, _CLOSE)
    path: list[SmoothCurve] = []
    for value in PENALTIES:
        curve = _fit(problem, curve, float(value), _NEAR)
        path.append(curve)
        if curve.log_marginal < max(fitted.log_marginal for fitted in path) - _FALL:
            break
    heights = [fitted.log_marginal + log_prior(fitted.penalty) for fitted in path]
    best = int(np.argmax(heights))
    chosen = path[best].penalty
    if 0 < best < len(path) - 1:
        left, middle, right = heights[best - 1 : best + 2]
        chosen *= 10.0 ** ((right - left) / (2 * (left - 2 * middle + right)))
    return _fit(problem, replace(path[best], iterations=curve.iterations), chosen, _CLOSE)


def _near(problem: PenalisedLikelihood, start: SmoothCurve) -> SmoothCurve:
    """Return the best curve under the penalty of a local maximum of the marginal likelihood.

    The search starts at the penalty nearest to that of the start and moves to higher neighbours.
    """
    fitted: dict[int, SmoothCurve] = {}

    def height(index: int) -> float:
        if not 0 <= index < len(PENALTIES):
            return -np.inf
        if index not in fitted:
            nearest = min(fitted, key=lambda other: abs(other - index), default=None)
            first = start if nearest is None else fitted[nearest]
            fitted[index] = _fit(problem, first, float(PENALTIES[index]), _NEAR)
        return fitted[index].log_marginal + log_prior(fitted[index].penalty)

    best = int(np.argmin(np.abs(np.log(PENALTIES / start.penalty))))
    while True:
        left, middle, right = (height(best + step) for step in (-1, 0, 1))
        if middle >= max(left, right):
            break
        best += 1 if right > left else -1
    chosen = float(PENALTIES[best])
    if np.isfinite(left) and np.isfinite(right):
        chosen *= 10.0 ** ((right - left) / (2 * (left - 2 * middle + right)))
    return _fit(problem, fitted[best], chosen, _CLOSE)


def log_prior(penalty: float) -> float:
    """Return the log-density of the prior of the penalty: log-normal, see ``USUAL``."""
    return -float(((np.log10(penalty) - USUAL) / DECADES) ** 2) / 2


def _start(problem: PenalisedLikelihood) -> SmoothCurve:
    return SmoothCurve(np.zeros(problem.basis.n_splines), problem.widths / problem.widths.sum(), np.inf)


def _fit(problem: PenalisedLikelihood, curve: SmoothCurve, penalty: float, enough: float) -> SmoothCurve:
    """Return the curve under another penalty: Fisher scoring, steps halved until the objective rises."""
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
    return SmoothCurve(
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
    objective = problem.n_rows * float(problem.fractions @ np.log(predicted))
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
    fraction = problem.n_rows * problem.fractions
    gradient = fraction @ scores - precision @ point.coefficients
    return gradient, (scores * fraction[:, None]).T @ scores


@dataclass(frozen=True)
class Smooth(MixtureEstimator):
    r"""Distribution of global ranks with a smooth logarithm; the sampled ranks decide how smooth.

    The estimator to start with when a whole distribution, or a metric with a small cut-off, is wanted from a
    fixed or adaptive sample. Ranks that the sample cannot resolve are extrapolated from those it can; where
    ranks have gaps or jumps at the top it is too smooth. Tens of milliseconds.

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
    Fisher information, times a wide prior of the penalty. It decides how much the curve bends where samples
    resolve ranks; below rank N/n the curve is decided by the coordinate alone. docs/smooth.md has the
    experiments behind both choices.

    Diagnostics: ``penalty``, ``degrees_of_freedom``, ``log_likelihood`` (mean per target), ``log_marginal``
    (comparable between penalties on one sample), ``gap`` (the predicted gain in log-likelihood by a further
    step), ``iterations``.

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
                f"penalty must lie between 1e-8 and 1e4, got {self.penalty!r}. Use 0.001 to 0.01 for usual "
                f"curves, 100 for nearly straight lines."
            )

    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run; a run has the same alone and among others."""
        curves = self._curves(likelihood, [tally.n_rows for tally in tallies])
        masses = np.stack([curve.masses for curve in curves])
        heights = log_likelihood(likelihood.matrix, likelihood.fractions, masses)
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
        self, likelihood: Likelihood, n_rows: Sequence[int] | FloatArray, start: SmoothCurve | None = None
    ) -> list[SmoothCurve]:
        """Return the curve of each run, given how many targets it has and where to start."""
        basis = make_basis(likelihood.grid)

        def solve(run: int) -> SmoothCurve:
            problem = penalised_likelihood(likelihood, run, n_rows[run], basis)
            return smooth_curve(problem, self.penalty, start)

        with single_threaded_blas():
            return list(ordered_map(solve, range(likelihood.n_runs), n_threads=available_threads()))
