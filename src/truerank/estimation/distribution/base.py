"""Base class of estimators that fit a distribution of global ranks to sampled ones.

The distribution has a mass for each bin of a rank grid, and a metric is estimated by the plug-in principle:
as the mean gain under the fitted distribution. A new estimator subclasses ``MixtureEstimator`` in its own
file: ``fit`` is what it must define; ``sensitivity`` (with ``has_influence``) gives it an influence function
and so intervals by the delta method; ``refit`` may start the fits to bootstrap resamples near their end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.parallel import single_threaded_blas
from truerank.core.ranks import RankDistribution
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimates, Estimator, check_uniform
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.distribution.likelihood import (
    STEP,
    Likelihood,
    RankGrid,
    check_step,
    make_likelihood,
)
from truerank.estimation.tally import Contexts, Tally
from truerank.metrics.base import Metric

_GAIN_CHUNK = 1 << 21  # gains in memory at once: 16 MB


def bin_gains(metric: Metric, contexts: Contexts, grid: RankGrid, *, power: int = 1) -> FloatArray:
    """Return the mean over the ranks of each bin of the gain to a power, (n_contexts, n_bins).

    Sums up to an edge are exact. Ranks beyond the metric's cut-off have one gain and are not visited.

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.estimation.tally import tally
    >>> from truerank.metrics.registry import make_metrics
    >>> contexts = tally(SampledRanks.single([0], n_negatives=2, n_pool=9)).contexts
    >>> bin_gains(make_metrics("recall@3")[0], contexts, RankGrid(np.array([0, 1, 5, 9]))).tolist()
    [[1.0, 0.5, 0.0]]
    """
    result = np.empty((len(contexts), grid.n_bins))
    sizes = contexts.n_candidates + 1
    heads = sizes if metric.cutoff is None else np.minimum(sizes, metric.cutoff)
    for head in np.unique(heads).tolist():
        rows = np.flatnonzero(heads == head)
        step = max(_GAIN_CHUNK // max(head, grid.n_bins), 1)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            result[part] = _means(metric, contexts.take(part), grid, head, power)
    return result


def _means(metric: Metric, contexts: Contexts, grid: RankGrid, head: int, power: int) -> FloatArray:
    """Return the mean powers of contexts whose gain varies over the first ``head`` ranks only."""
    sizes = (contexts.n_candidates + 1)[:, None]
    has_tail = sizes > head
    tail = np.zeros((len(sizes), 1))
    if has_tail.any():
        tail = np.where(has_tail, gain_at(metric, np.array([head]), contexts) ** power, 0.0)
    gains = gain_at(metric, np.arange(head), contexts) ** power - tail
    result = np.broadcast_to(tail, (len(sizes), grid.n_bins)).copy()
    # bins that begin within the head in the smallest pool
    n_bins = int(np.searchsorted(grid.edges[:-1] * int(sizes.min()), head * grid.n_ranks))
    sums = _sums(gains, grid.edges[: n_bins + 1] * sizes, grid.n_ranks)
    result[:, :n_bins] += np.diff(sums) / (np.diff(grid.edges[: n_bins + 1]) * (sizes / grid.n_ranks))
    return result


def _sums(gains: FloatArray, edges: IntArray, unit: int) -> FloatArray:
    """Return the sum of the first edges/unit gains of each row; the last rank in part."""
    head = gains.shape[1]
    whole = np.minimum(edges // unit, head)
    part = (edges - whole * unit) / unit
    row = np.arange(len(gains))[:, None]
    below = np.concatenate([np.zeros((len(gains), 1)), np.cumsum(gains, axis=1)], axis=1)
    at = np.where(whole < head, gains[row, np.minimum(whole, head - 1)], 0.0)
    sums: FloatArray = below[row, whole] + part * at
    return sums


_CHUNK = 1 << 22  # mean gains in memory at once: 32 MB
_MASSES = 1 << 25  # masses of kinds in memory at once: 256 MB


def plug_in(
    likelihood: Likelihood, masses: FloatArray, tallies: Sequence[Tally], metrics: Sequence[Metric]
) -> FloatArray:
    """Return the plug-in estimate, the mean over users of each metric, in each run, (n_runs, n_metrics).

    Gains depend on pool and targets, not on the sample: contexts that differ in run or sample size only have
    their gains computed once.
    """
    situations = TargetContexts.of(tallies)
    n_bins, n_kinds = likelihood.grid.n_bins, int(situations.kind[-1]) + 1
    block = max(_MASSES // (n_kinds * n_bins), 1)
    values = np.zeros((len(tallies), len(metrics)))
    for first in range(0, len(tallies), block):
        runs = range(first, min(first + block, len(tallies)))
        of_kind = np.stack(
            [
                _kind_masses(
                    likelihood, masses[run], run, tallies[run], situations.context_kind(run), n_kinds
                )
                for run in runs
            ]
        )
        step = max(_CHUNK // (max(len(runs), len(metrics)) * n_bins), 1)
        for start in range(0, len(situations.kind), step):
            part = np.arange(start, min(start + step, len(situations.kind)))
            contexts = situations.contexts.take(part)
            weight = (
                situations.fractions[runs.start : runs.stop, part, None] * of_kind[:, situations.kind[part]]
            )
            gains = np.stack([bin_gains(metric, contexts, likelihood.grid) for metric in metrics])
            with single_threaded_blas():
                values[runs.start : runs.stop] += (
                    weight.reshape(len(runs), -1) @ gains.reshape(len(metrics), -1).T
                )
    return values


def kind_masses(
    likelihood: Likelihood, masses: FloatArray, run: int, tally: Tally
) -> tuple[FloatArray, IntArray]:
    """Return the masses of each kind of target, (n_kinds, n_bins), and the kind of each context.

    A kind is a pair (targets of the user, targets above this one), of graded targets with the grade. If there
    are several, the masses of each
    are the common ones after one EM step on the rows of that kind.
    """
    kind = TargetContexts.of([tally]).context_kind(0)
    return _kind_masses(likelihood, masses, run, tally, kind, int(kind.max()) + 1), kind


@dataclass(frozen=True, eq=False)
class TargetContexts:
    """Situations: what a gain depends on besides the rank, contexts of all runs without their sample sizes.

    Parameters
    ----------
    contexts : the distinct situations, sorted by kind; their ``n_negatives`` are not used
    kind : (n_situations,) kind of target, ascending; see ``kind_masses``
    fractions : (n_runs, n_situations) targets in each situation / users
    members : per run, the situation of each context
    """

    contexts: Contexts
    kind: IntArray
    fractions: FloatArray
    members: tuple[IntArray, ...]

    @classmethod
    def of(cls, tallies: Sequence[Tally]) -> TargetContexts:
        """Return the situations of some tallies."""
        like = tallies[0].contexts
        columns = np.concatenate([tally.contexts.columns() for tally in tallies])
        columns[:, 0] = 0
        kinds = [3, 2, 5][: 2 + (columns.shape[1] > 5)]
        order = [*kinds, *(column for column in range(columns.shape[1]) if column not in kinds)]
        distinct, which = np.unique(columns[:, order], axis=0, return_inverse=True)
        members = np.split(which.ravel(), np.cumsum([len(tally.contexts) for tally in tallies])[:-1])
        is_new = (np.diff(distinct[:, : len(kinds)], axis=0) != 0).any(axis=1)
        fractions = np.stack(
            [
                np.bincount(of, tally.context_weights, len(distinct)) / tally.n_users
                for of, tally in zip(members, tallies, strict=True)
            ]
        )
        return cls(
            Contexts.of_columns(distinct[:, np.argsort(order)], like.graded, like.is_part),
            np.concatenate([[0], np.cumsum(is_new)]),
            fractions,
            tuple(members),
        )

    def context_kind(self, run: int) -> IntArray:
        """Return the kind of each context of a run."""
        return self.kind[self.members[run]]


def _kind_masses(
    likelihood: Likelihood, masses: FloatArray, run: int, tally: Tally, kind: IntArray, n_kinds: int
) -> FloatArray:
    if (kind == kind[0]).all():
        return np.broadcast_to(masses, (n_kinds, len(masses)))
    from scipy.sparse import csr_matrix

    seen = np.flatnonzero(tally.cell_weights > 0)
    rows = np.repeat(kind, tally.contexts.n_negatives + 1)[seen]
    weight = tally.cell_weights[seen]
    total = np.bincount(rows, weight, n_kinds)
    shape = (n_kinds, len(likelihood.matrix))
    fractions = csr_matrix((weight / total[rows], (rows, likelihood.cells[run][seen])), shape=shape)
    updated: FloatArray = fractions @ likelihood.posterior(masses)
    return updated


_MIXTURE_CHUNK = 1 << 22  # gains in memory at once: 32 MB


@dataclass(frozen=True, eq=False)
class FittedMasses:
    """Fitted masses over bins of ranks, one row per run.

    Parameters
    ----------
    masses : (n_runs, n_bins) non-negative, rows sum to 1
    diagnostics : per run, figures about the fit: iterations, log-likelihood, distance to the optimum
    """

    masses: FloatArray
    diagnostics: Sequence[Mapping[str, float]] = field(default_factory=tuple)


#: Fits resamples: from their likelihood and the number of targets in each, (n_runs,), to (n_runs, n_bins).
Refit = Callable[[Likelihood, FloatArray], FloatArray]


@dataclass(frozen=True)
class MixtureEstimator(Estimator):
    """Fits a distribution of global ranks to the sampled ones; a metric is the mean gain under it.

    Pools of several sizes have one distribution of R/N. Where targets have other targets above them, the
    distribution of each such kind of target is the common one after one EM step on the rows of the kind.

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart
    """

    grid: float = STEP

    def __post_init__(self) -> None:
        check_step(self.grid)

    @abstractmethod
    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run.

        Parameters
        ----------
        likelihood : of the outcomes of all runs, with the fraction of targets that have each
        tallies : what it was made of: the number of targets and the design, which fractions do not hold
        """

    @property
    def em_steps(self) -> int:
        """The CPU time of one fit, in steps of EM over the same outcomes and bins, roughly."""
        return 350

    @property
    def has_influence(self) -> bool:
        """Whether estimates are differentiable in the weights of cells; then ``sensitivity`` is defined."""
        return False

    def sensitivity(
        self, likelihood: Likelihood, fit: FittedMasses, tally: Tally, slope: FloatArray
    ) -> Sensitivity:
        """Return the derivatives of the fit in the fractions of outcomes.

        Parameters
        ----------
        likelihood, fit : one run and what was fitted to it
        tally : the sample
        slope : (n_bins, n_numbers) derivatives, in the masses, of the numbers that depend on them

        Raises
        ------
        CannotEstimate
            When the fit has no derivative.
        """
        raise CannotEstimate(f"the fit of '{self}' moves in jumps, and has no derivative. Use bootstrap.")

    def refit(self, likelihood: Likelihood, tally: Tally) -> Refit:
        """Return a function that fits resamples of a tally, many at once.

        Parameters
        ----------
        likelihood : its one run is the tally itself; a fit to it may be where the fits to resamples start
        tally : the sample that is resampled
        """

        def fit(runs: Likelihood, n_rows: FloatArray) -> FloatArray:
            return self.fit(runs, [replace(tally, n_rows=round(float(n))) for n in n_rows]).masses

        return fit

    def fit_tallies(self, tallies: Sequence[Tally]) -> tuple[Likelihood, FittedMasses]:
        """Fit one or several runs of the same experiment."""
        for tally in tallies:
            check_uniform(self, tally)
        likelihood = make_likelihood(tallies, step=self.grid)
        return likelihood, self.fit(likelihood, tallies)

    def estimate_samples(self, tallies: Sequence[Tally], metrics: Sequence[Metric]) -> FloatArray:
        """Return the estimate of each metric in each run, (n_runs, n_metrics)."""
        likelihood, fit = self.fit_tallies(tallies)
        return plug_in(likelihood, fit.masses, tallies, metrics)

    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the posterior mean gain of each cell, shifted so that the mean over users is the estimate.

        Empty cells have the shift alone.
        """
        likelihood, fit = self.fit_tallies([tally])
        posterior = likelihood.posterior(fit.masses[0])
        cells = likelihood.cells[0]
        values = np.zeros((tally.n_cells, len(metrics)))
        step = max(_MIXTURE_CHUNK // (max(len(metrics), 1) * likelihood.grid.n_bins), 1)
        for start in range(0, len(tally.contexts), step):
            some = np.arange(start, min(start + step, len(tally.contexts)))
            contexts = tally.contexts.take(some)
            gains = np.stack([bin_gains(metric, contexts, likelihood.grid) for metric in metrics])
            with single_threaded_blas():
                for number, context in enumerate(some):
                    seen = np.arange(tally.offsets[context], tally.offsets[context + 1])
                    seen = seen[cells[seen] >= 0]
                    values[seen] = posterior[cells[seen]] @ gains[:, number].T
        estimate = plug_in(likelihood, fit.masses, [tally], metrics)[0]
        values += (estimate - tally.cell_weights @ values / tally.n_users) * tally.n_users / tally.n_rows
        return values

    def weigh_sample(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, weights over J = 0..L irrelevant items above the target."""
        likelihood, fit = self.fit_tallies([tally])
        masses, kind = kind_masses(likelihood, fit.masses[0], 0, tally)
        fractions = tally.context_weights / tally.n_users
        return [
            likelihood.grid.spread(masses[of], int(size) + 1) * fraction
            for of, size, fraction in zip(kind, tally.contexts.n_candidates, fractions, strict=True)
        ]

    def distribution(self, tally: Tally) -> RankDistribution:
        """Return the fitted distribution over global ranks 1..N of the largest pool.

        Where all ranks are known nothing is fitted: it is the distribution of R/N among the targets.
        """
        if tally.is_fully_ranked:
            return RankDistribution(_known_distribution(tally, self.weights(tally)), method=str(self))
        likelihood, fit = self.fit_tallies([tally])
        weights = likelihood.grid.spread(fit.masses[0], likelihood.grid.n_ranks)
        diagnostics = dict(fit.diagnostics[0]) if fit.diagnostics else {}
        return RankDistribution(weights / weights.sum(), method=str(self), diagnostics=diagnostics)

    def estimate(self, tally: Tally, metrics: Sequence[Metric]) -> Estimates:
        """Return the estimates; standard errors are NaN, because a single fit does not give them.

        Where all ranks are known nothing is fitted, and there are standard errors.
        """
        if tally.is_fully_ranked:
            return super().estimate(tally, metrics)
        values = self.estimate_runs([tally], metrics)[0]
        return Estimates(values, np.full(len(metrics), np.nan))


def _known_distribution(tally: Tally, weights: Sequence[FloatArray]) -> FloatArray:
    """Return weights over J = 0..L of each context as one distribution over the ranks of the largest pool."""
    n_ranks = int(tally.contexts.n_candidates.max()) + 1
    total = np.zeros(n_ranks)
    for part in weights:
        sums = np.concatenate([[0.0], np.cumsum(part)])
        total += np.diff(np.interp(np.arange(n_ranks + 1) / n_ranks, np.arange(len(sums)) / len(part), sums))
    total /= total.sum()
    return total


NEVER = 1e-40  #: probabilities below this fraction of the largest are left out
LEAST = 1e-300  #: replaces probabilities that are 0 in floating point


class Sensitivity(ABC):
    """Derivatives, in the fraction of targets with an outcome, of numbers that depend on fitted masses."""

    @abstractmethod
    def at(
        self, probabilities: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> FloatArray:
        """Return the derivatives for outcomes, observed or not, (n_outcomes, n_numbers).

        Fractions are varied one by one, so that they need not sum to 1; a constant that is added to the
        derivatives of all outcomes has no effect.

        Parameters
        ----------
        probabilities : (n_outcomes, n_bins) P(outcome | bin)
        n_negatives, n_candidates : m and L of the outcomes
        n_above : (n_outcomes,) their j, ascending
        """


def mean_under(probabilities: FloatArray, masses: FloatArray, values: FloatArray) -> FloatArray:
    """Return the mean of values over bins given each outcome, (n_outcomes, n_numbers).

    Parameters
    ----------
    probabilities : (n_outcomes, n_bins)
    masses : (n_bins,)
    values : (n_bins, n_numbers)

    Examples
    --------
    >>> mean_under(np.array([[1.0, 0.5]]), np.array([0.5, 0.5]), np.array([[0.0], [3.0]])).tolist()
    [[1.0]]
    """
    means: FloatArray = probabilities @ (masses[:, None] * values)
    means /= np.maximum(probabilities @ masses, LEAST)[:, None]
    return means


def em_slope(matrix: FloatArray, fractions: FloatArray, masses: FloatArray, after: FloatArray) -> FloatArray:
    """Return the derivatives in the masses before a step of EM, given those in the masses after it.

    Parameters
    ----------
    matrix, fractions, masses : of the step, as in ``em``
    after : (n_bins, n_numbers)

    Examples
    --------
    >>> em_slope(np.eye(2), np.array([0.25, 0.75]), np.array([0.5, 0.5]), np.array([[1.0], [0.0]])).tolist()
    [[0.0], [0.0]]
    """
    predicted = np.maximum(matrix @ masses, LEAST)
    ratio = fractions / predicted
    inner = matrix @ (masses[:, None] * after) * (ratio / predicted)[:, None]
    before: FloatArray = (ratio @ matrix)[:, None] * after - matrix.T @ inner
    return before
