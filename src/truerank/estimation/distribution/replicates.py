"""Fits to many resamples of one sample.

What an estimator makes of other weights in the same cells, many sets of them at once.
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
    metrics : what is measured
    likelihood : of the outcomes of the cells; its shares mean nothing
    refit : fits runs
    situations : of the contexts
    gains : mean gains by kind of target, each (n_situations, n_metrics, n_bins); None where they are formed
        anew each time because they are too many
    """

    metrics: tuple[Metric, ...]
    likelihood: Likelihood
    refit: Refit
    situations: TargetContexts
    gains: tuple[FloatArray, ...] | None

    def values(self, weights: FloatArray) -> FloatArray:
        """Return the mean gains under what is fitted."""
        outcome = self.likelihood.cells[0][self.cells]
        n_outcomes = len(self.likelihood.matrix)
        counts = weights @ _indicator(outcome, n_outcomes)
        n_rows = weights.sum(axis=1)
        runs = replace(self.likelihood, shares=counts / n_rows[:, None])
        masses = self.refit(runs, n_rows)
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
    return MixtureReplicates(tally, cells, chosen, likelihood, estimator.refit(own, tally), situations, gains)


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
