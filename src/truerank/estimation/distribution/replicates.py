"""Bootstrap replicates: estimates from resamples of one sample, many at once.

A resample is a set of weights for the cells of the tally. Linear estimators apply their corrected values to
the weights; estimators of a rank distribution are fitted to each resample, with bins, probabilities of
outcomes and gains computed once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from truerank.core.parallel import single_threaded_blas
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimator, check_uniform
from truerank.estimation.distribution.base import MixtureEstimator, Refit, TargetContexts, bin_gains
from truerank.estimation.distribution.likelihood import Likelihood, make_likelihood
from truerank.estimation.tally import Tally
from truerank.metrics.base import Metric

_LEAST = 1e-300
_MOST_GAINS = 1 << 25  # mean gains kept between calls: 256 MB


@dataclass(frozen=True, eq=False)
class Replicates(ABC):
    """An estimator applied to resamples of a tally.

    Parameters
    ----------
    tally : the sample that is resampled
    cells : (n,) the cells that can have weight in a resample
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
    """Replicates of a linear estimator: the corrected values are those of the sample.

    Parameters
    ----------
    x : (n, n_metrics) corrected values of the cells
    """

    x: FloatArray

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the weighted sums."""
        with single_threaded_blas():
            means: FloatArray = weights @ self.x / self.tally.n_users
        return means


@dataclass(frozen=True, eq=False)
class MixtureReplicates(Replicates):
    """Replicates of an estimator that fits a rank distribution to each resample.

    Parameters
    ----------
    metrics : what is measured
    likelihood : of the outcomes of the cells; its fractions are not used
    refit : fits resamples
    situations : of the contexts
    gains : mean gains by kind of target, each (n_situations, n_metrics, n_bins); None where they are too many
        to be kept and are computed each time
    """

    metrics: tuple[Metric, ...]
    likelihood: Likelihood
    refit: Refit
    situations: TargetContexts
    gains: tuple[FloatArray, ...] | None

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the plug-in estimates under the fitted distributions."""
        outcome = self.likelihood.cells[0][self.cells]
        n_outcomes = len(self.likelihood.matrix)
        counts = weights @ _indicator(outcome, n_outcomes)
        n_rows = weights.sum(axis=1)
        runs = replace(self.likelihood, fractions=counts / n_rows[:, None])
        masses = self.refit(runs, n_rows)
        return self._plug_in(masses, weights)

    def _plug_in(self, masses: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over kinds of target of the mean gains under the masses of the kind.

        If there are several kinds, the masses of each are the common ones after one EM step on the rows of
        the kind; see ``kind_masses``. All of it is products of matrices.
        """
        matrix, outcome = self.likelihood.matrix, self.likelihood.cells[0][self.cells]
        context = np.searchsorted(self.tally.offsets, self.cells, side="right") - 1
        situation = self.situations.members[0][context]
        kind = self.situations.kind[situation]
        n_kinds = int(self.situations.kind[-1]) + 1
        values = np.zeros((len(weights), len(self.metrics)))
        with single_threaded_blas():
            ratio = None if n_kinds == 1 else 1.0 / np.maximum(masses @ matrix.T, _LEAST)
            for number in range(n_kinds):
                columns = np.flatnonzero(kind == number)
                of_columns = weights[:, columns]
                within = situation[columns] - int(np.searchsorted(self.situations.kind, number))
                gains = self._gains(number)
                fractions = of_columns @ _indicator(within, len(gains)) / self.tally.n_users
                of_kind = masses
                if ratio is not None:
                    seen, where = np.unique(outcome[columns], return_inverse=True)
                    counts = of_columns @ _indicator(where.ravel(), len(seen))
                    rows = np.maximum(of_columns.sum(axis=1, keepdims=True), _LEAST)
                    of_kind = masses * ((counts / rows * ratio[:, seen]) @ matrix[seen])
                means = of_kind @ gains.reshape(-1, gains.shape[2]).T
                values += np.einsum("rs,rsk->rk", fractions, means.reshape(len(weights), *gains.shape[:2]))
        return values

    def _gains(self, kind: int) -> FloatArray:
        if self.gains is not None:
            return self.gains[kind]
        return _kind_gains(self.situations, kind, self.metrics, self.likelihood)


def make_replicates(
    estimator: Estimator, tally: Tally, metrics: Sequence[Metric], cells: IntArray
) -> Replicates:
    """Return an estimator that can be applied to many resamples.

    Corrected values of linear estimators, and a prior or mapping fitted before them, are those of the tally.

    Parameters
    ----------
    estimator : any
    tally : the sample that is resampled
    metrics : what is measured
    cells : the cells that can have weight in a resample
    """
    if not isinstance(estimator, MixtureEstimator):
        return LinearReplicates(tally, cells, estimator.corrected(tally, metrics)[cells])
    check_uniform(estimator, tally)
    stand_in = replace(
        tally, user=np.zeros_like(cells), cell=cells, weight=np.ones(len(cells)), n_rows=len(cells)
    )
    likelihood = make_likelihood([stand_in], step=estimator.grid)
    counts = tally.cell_weights[cells] @ _indicator(likelihood.cells[0][cells], len(likelihood.matrix))
    of_sample = replace(likelihood, fractions=counts[None] / tally.n_rows)
    situations, chosen = TargetContexts.of([tally]), tuple(metrics)
    n_kinds = int(situations.kind[-1]) + 1
    gains = None
    if len(situations.kind) * len(chosen) * likelihood.grid.n_bins <= _MOST_GAINS:
        gains = tuple(_kind_gains(situations, kind, chosen, likelihood) for kind in range(n_kinds))
    return MixtureReplicates(
        tally, cells, chosen, likelihood, estimator.refit(of_sample, tally), situations, gains
    )


def _kind_gains(
    situations: TargetContexts, kind: int, metrics: tuple[Metric, ...], likelihood: Likelihood
) -> FloatArray:
    """Return the mean gains of a kind of target, (n_situations, n_metrics, n_bins)."""
    contexts = situations.contexts.take(np.flatnonzero(situations.kind == kind))
    return np.stack([bin_gains(metric, contexts, likelihood.grid) for metric in metrics], axis=1)


def _indicator(index: IntArray, size: int) -> csr_array:
    """Return the matrix that adds up columns with the same index, (len(index), size)."""
    ones = np.ones(len(index))
    return csr_array((ones, index, np.arange(len(index) + 1)), shape=(len(index), size))
