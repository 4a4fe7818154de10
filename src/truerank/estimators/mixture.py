"""What the estimators of a rank distribution share: bins, a fit, and metrics from masses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from truerank.core.distribution import RankDistribution
from truerank.core.estimator import Estimates, Estimator, check_uniform
from truerank.core.metric import Metric
from truerank.core.tally import Contexts, Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.gains import bin_gains
from truerank.estimators.grid import STEP, Grid
from truerank.estimators.likelihood import Likelihood, make_likelihood


@dataclass(frozen=True, eq=False)
class Fit:
    """Masses over bins, one row per run.

    Parameters
    ----------
    masses : (n_runs, n_bins) non-negative, rows sum to 1
    diagnostics : per run, how the fit went: iterations, log-likelihood, distance to the optimum
    """

    masses: FloatArray
    diagnostics: Sequence[Mapping[str, float]] = field(default_factory=tuple)


@dataclass(frozen=True)
class MixtureEstimator(Estimator):
    """Fits a distribution of global ranks to the sampled ones; a metric is its mean gain.

    Pools of several sizes share one distribution of R/N. Where targets have other targets above them, the
    distribution of each such kind is the common one, updated once by the kind's own rows (an EM step).

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart
    """

    grid: float = STEP

    @abstractmethod
    def fit(self, likelihood: Likelihood) -> Fit:
        """Return masses for each run."""

    def fit_tallies(self, tallies: Sequence[Tally]) -> tuple[Likelihood, Fit]:
        """Fit one or several runs of the same experiment."""
        for tally in tallies:
            check_uniform(self, tally)
        likelihood = make_likelihood(tallies, step=self.grid)
        return likelihood, self.fit(likelihood)

    def estimate_runs(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimate of each metric in each run, (n_runs, n_metrics)."""
        likelihood, fit = self.fit_tallies(tallies)
        gains = GainTable(likelihood.grid)
        return np.stack(
            [
                _plug_in(
                    likelihood, fit, run, tally, [gains.of(metric, tally.contexts) for metric in metrics]
                )
                for run, tally in enumerate(tallies)
            ]
        )

    def corrected(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the mean gain given each cell, shifted so that the mean over users is the estimate."""
        likelihood, fit = self.fit_tallies([tally])
        posterior = likelihood.posterior(fit.masses[0])
        cells = likelihood.cells[0]
        contexts = np.repeat(np.arange(len(tally.contexts)), tally.contexts.n_negatives + 1)
        values = np.zeros((tally.n_cells, len(metrics)))
        gains = [bin_gains(metric, tally.contexts, likelihood.grid) for metric in metrics]
        seen = np.flatnonzero(cells >= 0)
        for column, gain in enumerate(gains):
            values[seen, column] = np.einsum("cb,cb->c", posterior[cells[seen]], gain[contexts[seen]])
        estimate = _plug_in(likelihood, fit, 0, tally, gains)
        values += (estimate - tally.cell_weights @ values / tally.n_users) * tally.n_users / tally.n_rows
        return values

    def weights(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, weights over J = 0..L irrelevant items above the target."""
        likelihood, fit = self.fit_tallies([tally])
        masses = context_masses(likelihood, fit.masses[0], 0, tally)
        shares = np.add.reduceat(tally.cell_weights, tally.offsets[:-1]) / tally.n_users
        return [
            likelihood.grid.spread(mass, int(size) + 1) * share
            for mass, size, share in zip(masses, tally.contexts.n_candidates, shares, strict=True)
        ]

    def distribution(self, tally: Tally) -> RankDistribution:
        """Return the fitted distribution over global ranks 1..N of the largest pool."""
        likelihood, fit = self.fit_tallies([tally])
        weights = likelihood.grid.spread(fit.masses[0], likelihood.grid.n_ranks)
        diagnostics = dict(fit.diagnostics[0]) if fit.diagnostics else {}
        return RankDistribution(weights / weights.sum(), method=str(self), diagnostics=diagnostics)

    def estimate(self, tally: Tally, metrics: Sequence[Metric]) -> Estimates:
        """Return the mean gains; their spread is not known from a single fit."""
        values = self.estimate_runs([tally], metrics)[0]
        return Estimates(values, np.full(len(metrics), np.nan))


class GainTable:
    """Mean gains over bins, kept for runs that share their contexts."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._held: dict[Any, FloatArray] = {}

    def of(self, metric: Metric, contexts: Contexts) -> FloatArray:
        """Return the gains of a metric in each context, (n_contexts, n_bins)."""
        columns = (contexts.n_candidates, contexts.n_relevant_above, contexts.n_relevant, contexts.n_pool)
        key = (metric, *(column.tobytes() for column in columns))
        if key not in self._held:
            self._held[key] = bin_gains(metric, contexts, self.grid)
        return self._held[key]


def context_masses(likelihood: Likelihood, masses: FloatArray, run: int, tally: Tally) -> FloatArray:
    """Return the masses of each context, (n_contexts, n_bins): one EM step per kind if there are several."""
    contexts = tally.contexts
    kinds, which = np.unique(
        np.stack([contexts.n_relevant, contexts.n_relevant_above], axis=1), axis=0, return_inverse=True
    )
    if len(kinds) == 1:
        return np.broadcast_to(masses, (len(contexts), len(masses)))
    of_cell = np.repeat(which.ravel(), contexts.n_negatives + 1)
    posterior = likelihood.posterior(masses)
    updated = np.stack(
        [
            _step(likelihood, posterior, run, tally, np.flatnonzero(of_cell == kind))
            for kind in range(len(kinds))
        ]
    )
    result: FloatArray = updated[which.ravel()]
    return result


def _step(
    likelihood: Likelihood, posterior: FloatArray, run: int, tally: Tally, cells: IntArray
) -> FloatArray:
    weight = tally.cell_weights[cells]
    seen = cells[weight > 0]
    share = tally.cell_weights[seen] / tally.cell_weights[seen].sum()
    result: FloatArray = share @ posterior[likelihood.cells[run][seen]]
    return result


def _plug_in(
    likelihood: Likelihood, fit: Fit, run: int, tally: Tally, gains: Sequence[FloatArray]
) -> FloatArray:
    """Return the estimate of each metric in one run, (n_metrics,)."""
    masses = context_masses(likelihood, fit.masses[run], run, tally)
    shares = np.add.reduceat(tally.cell_weights, tally.offsets[:-1]) / tally.n_users
    weighted = masses * shares[:, None]
    return np.array([float(np.vdot(weighted, gain)) for gain in gains])
