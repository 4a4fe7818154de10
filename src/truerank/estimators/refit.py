"""Fits to many resamples of one sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.errors import NotConverged
from truerank.core.tally import Tally
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray
from truerank.estimators.counted import CountedMixture
from truerank.estimators.grouped import grouped
from truerank.estimators.likelihood import Likelihood
from truerank.estimators.mixture import MixtureEstimator
from truerank.estimators.mle import MaximumLikelihood
from truerank.estimators.npmle import Maximum, maximise
from truerank.estimators.penalised import Curve, Problem, smooth_curve
from truerank.estimators.smooth import Smooth
from truerank.estimators.spline import make_basis

_LITTLE = 0.05  # log-likelihood of all rows by which a fit to a resample may fall short of its maximum


def refit(
    estimator: MixtureEstimator, likelihood: Likelihood, tally: Tally, n_rows: FloatArray, start: Curve | None
) -> FloatArray:
    """Return the masses of each run, (n_runs, n_bins).

    Parameters
    ----------
    estimator : what is fitted
    likelihood : its shares are those of the runs
    tally : the sample that was resampled, which tells the design
    n_rows : (n_runs,) targets in each run
    start : from ``start_of``; the fits of ``smooth`` begin there
    """
    if start is not None and isinstance(estimator, Smooth):
        return _smooth(likelihood, n_rows, start, estimator.penalty)
    if isinstance(estimator, MaximumLikelihood) and estimator.solver == "exact":
        return _exact(likelihood, n_rows)
    if isinstance(estimator, CountedMixture):
        runs = [replace(tally, n_rows=round(float(n))) for n in n_rows]
        return estimator.fit_runs(likelihood, runs).masses
    with single_threaded_blas():
        return estimator.fit(likelihood).masses


def start_of(estimator: MixtureEstimator, likelihood: Likelihood, tally: Tally) -> Curve | None:
    """Return where fits to resamples of a tally may begin; None where they begin anew each time.

    Parameters
    ----------
    estimator : what is fitted
    likelihood : its first run is the tally
    tally : the sample
    """
    return curve_of(estimator, likelihood, tally) if isinstance(estimator, Smooth) else None


def curve_of(estimator: Smooth, likelihood: Likelihood, tally: Tally) -> Curve:
    """Return the curve that is fitted to a tally, the first run of the likelihood."""
    with single_threaded_blas():
        return smooth_curve(problem_of(likelihood, tally), estimator.penalty)


def problem_of(likelihood: Likelihood, tally: Tally) -> Problem:
    """Return what ``smooth`` maximises for a tally, the first run of the likelihood."""
    matrix, shares = grouped(likelihood, 0)
    widths = np.diff(likelihood.grid.edges).astype(np.float64)
    return Problem(matrix, shares, float(tally.n_rows), widths, make_basis(likelihood.grid))


def _exact(likelihood: Likelihood, n_rows: FloatArray) -> FloatArray:
    """Return the maxima; a run that stops short by less than noise is taken as it is."""

    def solve(run: int) -> FloatArray:
        try:
            return maximise(likelihood.matrix, likelihood.shares[run]).masses
        except NotConverged as error:
            last = error.last
            if not isinstance(last, Maximum) or last.gap * n_rows[run] > _LITTLE:
                raise
            return last.masses

    with single_threaded_blas():
        runs = range(likelihood.n_runs)
        return np.stack(list(ordered_map(solve, runs, n_threads=available_threads())))


def _smooth(likelihood: Likelihood, n_rows: FloatArray, start: Curve, penalty: float | None) -> FloatArray:
    basis = make_basis(likelihood.grid)
    widths = np.diff(likelihood.grid.edges).astype(np.float64)

    def solve(run: int) -> FloatArray:
        matrix, shares = grouped(likelihood, run)
        problem = Problem(matrix, shares, float(n_rows[run]), widths, basis)
        return smooth_curve(problem, penalty, start).masses

    with single_threaded_blas():
        runs = range(likelihood.n_runs)
        return np.stack(list(ordered_map(solve, runs, n_threads=available_threads())))
