"""Fits to many resamples of one sample.

What an estimator makes of other weights in the same cells, many sets of them at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from truerank.core.errors import NotConverged
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimator, check_uniform
from truerank.estimation.distribution.base import CountedMixture, MixtureEstimator, TargetContexts, bin_gains
from truerank.estimation.distribution.likelihood import Likelihood, grouped, make_likelihood
from truerank.estimation.distribution.mle import Maximum, MaximumLikelihood, maximise
from truerank.estimation.distribution.smooth import (
    Curve,
    PenalisedLikelihood,
    Smooth,
    make_basis,
    smooth_curve,
)
from truerank.estimation.tally import Tally
from truerank.metrics.base import Metric

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


def problem_of(likelihood: Likelihood, tally: Tally) -> PenalisedLikelihood:
    """Return what ``smooth`` maximises for a tally, the first run of the likelihood."""
    matrix, shares = grouped(likelihood, 0)
    widths = np.diff(likelihood.grid.edges).astype(np.float64)
    return PenalisedLikelihood(matrix, shares, float(tally.n_rows), widths, make_basis(likelihood.grid))


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
        problem = PenalisedLikelihood(matrix, shares, float(n_rows[run]), widths, basis)
        return smooth_curve(problem, penalty, start).masses

    with single_threaded_blas():
        runs = range(likelihood.n_runs)
        return np.stack(list(ordered_map(solve, runs, n_threads=available_threads())))


_LEAST = 1e-300
_HELD = 1 << 25  # mean gains kept between calls: 256 MB


@dataclass(frozen=True, eq=False)
class Replicates(ABC):
    """An estimator whose cells are settled and whose weights are not.

    Parameters
    ----------
    tally : the sample that is resampled
    cells : (n,) the cells that weights are given for
    """

    tally: Tally
    cells: IntArray

    @abstractmethod
    def values(self, weights: FloatArray) -> FloatArray:
        """Return the estimates, (n_runs, n_metrics), from weights of cells, (n_runs, n).

        Each run has as many users as the tally.
        """


@dataclass(frozen=True, eq=False)
class LinearReplicates(Replicates):
    """Corrected values that stay as they are.

    Parameters
    ----------
    x : (n, n_metrics) corrected values of the cells
    """

    x: FloatArray

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sums."""
        with single_threaded_blas():
            found: FloatArray = weights @ self.x / self.tally.n_users
        return found


@dataclass(frozen=True, eq=False)
class MixtureReplicates(Replicates):
    """A rank distribution that is fitted to each run.

    Parameters
    ----------
    estimator, metrics : what is fitted, and measured
    likelihood : of the outcomes of the cells; its shares mean nothing
    start : where fits begin
    situations : of the contexts
    gains : mean gains by kind of target, each (n_situations, n_metrics, n_bins); None where they are formed
        anew each time because they are too many
    """

    estimator: MixtureEstimator
    metrics: tuple[Metric, ...]
    likelihood: Likelihood
    start: Curve | None
    situations: TargetContexts
    gains: tuple[FloatArray, ...] | None

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the mean gains under what is fitted."""
        outcome = self.likelihood.cells[0][self.cells]
        n_outcomes = len(self.likelihood.matrix)
        counts = weights @ _indicator(outcome, n_outcomes)
        n_rows = weights.sum(axis=1)
        runs = replace(self.likelihood, shares=counts / n_rows[:, None])
        masses = refit(self.estimator, runs, self.tally, n_rows, self.start)
        return self._plug_in(masses, weights)

    def _plug_in(self, masses: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over kinds of the gains under the kind's masses.

        If there are several kinds, each has the common masses after one EM step on its own rows; see
        ``kind_masses``. All of it is products of matrices.
        """
        matrix, outcome = self.likelihood.matrix, self.likelihood.cells[0][self.cells]
        context = np.searchsorted(self.tally.offsets, self.cells, side="right") - 1
        situation = self.situations.members[0][context]
        kind = self.situations.kind[situation]
        n_kinds = int(self.situations.kind[-1]) + 1
        values = np.zeros((len(weights), len(self.metrics)))
        with single_threaded_blas():
            ratio = None if n_kinds == 1 else 1.0 / np.maximum(masses @ matrix.T, _LEAST)
            for one in range(n_kinds):
                columns = np.flatnonzero(kind == one)
                own = weights[:, columns]
                place = situation[columns] - int(np.searchsorted(self.situations.kind, one))
                gains = self._gains(one)
                shares = own @ _indicator(place, len(gains)) / self.tally.n_users
                of_kind = masses
                if ratio is not None:
                    seen, where = np.unique(outcome[columns], return_inverse=True)
                    counts = own @ _indicator(where.ravel(), len(seen))
                    rows = np.maximum(own.sum(axis=1, keepdims=True), _LEAST)
                    of_kind = masses * ((counts / rows * ratio[:, seen]) @ matrix[seen])
                means = of_kind @ gains.reshape(-1, gains.shape[2]).T
                values += np.einsum("rs,rsk->rk", shares, means.reshape(len(weights), *gains.shape[:2]))
        return values

    def _gains(self, kind: int) -> FloatArray:
        if self.gains is not None:
            return self.gains[kind]
        return _kind_gains(self.situations, kind, self.metrics, self.likelihood)


def make_replicates(
    estimator: Estimator, tally: Tally, metrics: Sequence[Metric], cells: IntArray
) -> Replicates:
    """Return an estimator that can be applied to many sets of weights.

    Corrected values, and what is fitted before them such as a prior, are those of the tally.

    Parameters
    ----------
    estimator : any
    tally : the sample that is resampled
    metrics : what is measured
    cells : where weights may be
    """
    if not isinstance(estimator, MixtureEstimator):
        return LinearReplicates(tally, cells, estimator.corrected(tally, metrics)[cells])
    check_uniform(estimator, tally)
    stand_in = replace(
        tally, user=np.zeros_like(cells), cell=cells, weight=np.ones(len(cells)), n_rows=len(cells)
    )
    likelihood = make_likelihood([stand_in], step=estimator.grid)
    counts = tally.cell_weights[cells] @ _indicator(likelihood.cells[0][cells], len(likelihood.matrix))
    own = replace(likelihood, shares=counts[None] / tally.n_rows)
    situations, chosen = TargetContexts.of([tally]), tuple(metrics)
    n_kinds = int(situations.kind[-1]) + 1
    gains = None
    if len(situations.kind) * len(chosen) * likelihood.grid.n_bins <= _HELD:
        gains = tuple(_kind_gains(situations, kind, chosen, likelihood) for kind in range(n_kinds))
    start = start_of(estimator, own, tally)
    return MixtureReplicates(tally, cells, estimator, chosen, likelihood, start, situations, gains)


def _kind_gains(
    situations: TargetContexts, kind: int, metrics: tuple[Metric, ...], likelihood: Likelihood
) -> FloatArray:
    """Return the mean gains of a kind of target, (n_situations, n_metrics, n_bins)."""
    contexts = situations.contexts.take(np.flatnonzero(situations.kind == kind))
    return np.stack([bin_gains(metric, contexts, likelihood.grid) for metric in metrics], axis=1)


def _indicator(place: IntArray, size: int) -> csr_array:
    """Return the matrix that adds columns up by where they belong, (len(place), size)."""
    ones = np.ones(len(place))
    return csr_array((ones, place, np.arange(len(place) + 1)), shape=(len(place), size))
