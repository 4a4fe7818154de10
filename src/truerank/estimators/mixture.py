"""What the estimators of a rank distribution share: bins, a fit, and metrics from masses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.distribution import RankDistribution
from truerank.core.estimator import Estimates, Estimator, check_uniform
from truerank.core.metric import Metric
from truerank.core.tally import Tally
from truerank.core.types import FloatArray
from truerank.estimators.gains import bin_gains
from truerank.estimators.grid import STEP, check_step
from truerank.estimators.likelihood import Likelihood, make_likelihood
from truerank.estimators.plug_in import kind_masses, plug_in

_CHUNK = 1 << 22  # gains held at once: 32 MB


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

    def __post_init__(self) -> None:
        check_step(self.grid)

    @abstractmethod
    def fit(self, likelihood: Likelihood) -> Fit:
        """Return masses for each run."""

    def fit_tallies(self, tallies: Sequence[Tally]) -> tuple[Likelihood, Fit]:
        """Fit one or several runs of the same experiment."""
        for tally in tallies:
            check_uniform(self, tally)
        likelihood = make_likelihood(tallies, step=self.grid)
        with single_threaded_blas():
            return likelihood, self.fit(likelihood)

    def estimate_runs(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimate of each metric in each run, (n_runs, n_metrics)."""
        likelihood, fit = self.fit_tallies(tallies)
        return plug_in(likelihood, fit.masses, tallies, metrics)

    def corrected(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the mean gain given each cell, shifted so that the mean over users is the estimate.

        Cells that nobody is in have the shift alone.
        """
        likelihood, fit = self.fit_tallies([tally])
        posterior = likelihood.posterior(fit.masses[0])
        cells = likelihood.cells[0]
        values = np.zeros((tally.n_cells, len(metrics)))
        step = max(_CHUNK // (max(len(metrics), 1) * likelihood.grid.n_bins), 1)
        for start in range(0, len(tally.contexts), step):
            some = np.arange(start, min(start + step, len(tally.contexts)))
            contexts = tally.contexts.take(some)
            gains = np.stack([bin_gains(metric, contexts, likelihood.grid) for metric in metrics])
            with single_threaded_blas():
                for place, context in enumerate(some):
                    own = np.arange(tally.offsets[context], tally.offsets[context + 1])
                    own = own[cells[own] >= 0]
                    values[own] = posterior[cells[own]] @ gains[:, place].T
        estimate = plug_in(likelihood, fit.masses, [tally], metrics)[0]
        values += (estimate - tally.cell_weights @ values / tally.n_users) * tally.n_users / tally.n_rows
        return values

    def weights(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, weights over J = 0..L irrelevant items above the target."""
        likelihood, fit = self.fit_tallies([tally])
        masses, kind = kind_masses(likelihood, fit.masses[0], 0, tally)
        shares = np.add.reduceat(tally.cell_weights, tally.offsets[:-1]) / tally.n_users
        return [
            likelihood.grid.spread(masses[of], int(size) + 1) * share
            for of, size, share in zip(kind, tally.contexts.n_candidates, shares, strict=True)
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
