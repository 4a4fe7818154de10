"""Bootstrap of estimates: resampled users, or resampled negatives of the same users, and the cost of both.

Resample b is a pure function of the seed and b. Users are resampled with replacement; negatives by drawing
new sampled ranks from the law of each target's rank, which is drawn from its posterior.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import MOST_RESAMPLES, CannotEstimate, InvalidData, check_at_least, check_choice
from truerank.core.parallel import available_threads, ordered_map
from truerank.core.progress import SILENT, Progress, ProgressTask, tracked
from truerank.core.random import stream
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.distribution.likelihood import RankGrid, grid_of
from truerank.estimation.distribution.replicates import make_replicates
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import Tally
from truerank.inference.estimate_interval.outcomes import (
    complete_tally,
    n_possible_outcomes,
    possible_outcomes,
)
from truerank.inference.estimate_interval.registry import (
    TARGETS,
    PointEstimates,
    Target,
    sampled_fraction,
)
from truerank.inference.resample import resample_counts


@dataclass(frozen=True, eq=False)
class Resamples(ABC):
    """Bootstrap resamples of a tally, as weights of its cells; pure functions of a seed and their number.

    Parameters
    ----------
    tally : the counts that are resampled
    cells : (n,) the cells that may have weight
    seed : of all resamples
    """

    tally: Tally
    cells: IntArray
    seed: int

    @abstractmethod
    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one resample, (n,)."""


@dataclass(frozen=True, eq=False)
class UserResamples(Resamples):
    """Users drawn with replacement, as many as there are.

    Which users depends on the seed, the number of the resample and the number of users, not on ranks:
    resamples of several models contain the same users.

    Parameters
    ----------
    cell_index : (n_entries,) index in ``cells`` of the cell of each entry
    is_single : whether each user has one entry of weight 1, in order
    """

    cell_index: IntArray
    is_single: bool

    @classmethod
    def of(cls, tally: Tally, seed: int) -> UserResamples:
        """Return the resamples of the users of a tally."""
        cells = np.flatnonzero(tally.cell_weights > 0)
        cell_index = np.searchsorted(cells, tally.cell)
        is_single = len(cell_index) == tally.n_users and bool((tally.weight == 1).all())
        return cls(tally, cells, seed, cell_index, is_single)

    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one resample, (n,)."""
        n_users, n_cells = self.tally.n_users, len(self.cells)
        (counts,) = resample_counts(
            n_users, range(number, number + 1), seed=self.seed, stage="bootstrap/users"
        )
        weight = counts if self.is_single else self.tally.weight * counts[self.tally.user]
        return np.bincount(self.cell_index, weight, n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False)
class NegativeResamples(Resamples):
    """New negatives for the same users with the same ranks.

    Ranks are unknown: each target gets one from its posterior under a fitted rank distribution, the same in
    all resamples, and its sampled rank is drawn from the law of that rank. Targets of one user share one
    uniform number, with outcomes ordered from best to worst. That is the strongest possible dependence, so
    for values that decrease with the rank no other dependence between them has a larger variance.

    Parameters
    ----------
    label : of the model; models are resampled independently of each other
    table, base : (n_entries,) the table of an entry, and the index where the cells of its outcomes begin
    sums, starts : cumulative probabilities of the outcomes from best to worst, one table per law and bin
    outcome_cells : indices in ``cells`` of the outcomes, in the same order, one situation after the other
    """

    label: str
    table: IntArray
    base: IntArray
    sums: FloatArray
    starts: IntArray
    outcome_cells: IntArray

    @classmethod
    def of(cls, tally: Tally, seed: int, label: str = "") -> NegativeResamples:
        """Return the resamples of a completed tally: fits a rank distribution and draws a rank per target."""
        grid, bins = sample_posterior_bins(
            tally, stream(seed, f"bootstrap/ranks/{label}").random(len(tally.cell))
        )
        context = tally.context
        situation_base = np.zeros(len(tally.contexts), dtype=np.int64)
        table = np.zeros(len(context), dtype=np.int64)
        sums: list[FloatArray] = []
        lengths: list[int] = []
        cells: list[IntArray] = []
        n_cells = 0
        for outcomes in possible_outcomes(tally):
            n_outcomes = outcomes.cells.shape[1]
            n_sizes = len(outcomes.law.sizes)
            rows = outcomes.contexts[:, None] + np.arange(n_sizes)
            situation_base[rows] = (n_cells + np.arange(len(rows)) * n_outcomes)[:, None]
            cells.append(outcomes.cells[:, outcomes.order].ravel())
            n_cells += outcomes.cells.size
            entries = np.flatnonzero(np.isin(context, rows))
            used, which = np.unique(bins[entries], return_inverse=True)
            table[entries] = len(lengths) + which.ravel()
            probabilities = outcomes.probabilities(grid)[used][:, outcomes.order]
            total = np.cumsum(probabilities, axis=1)
            sums.append((total / total[:, -1:]).ravel())
            lengths += [n_outcomes] * len(used)
        possible = np.concatenate(cells)
        reachable = np.union1d(possible, np.flatnonzero(tally.cell_weights > 0))
        return cls(
            tally,
            reachable,
            seed,
            label,
            table,
            situation_base[context],
            np.concatenate(sums),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.searchsorted(reachable, possible),
        )

    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one resample, (n,)."""
        from truerank.inference.resample_compiled import add_outcomes

        tally = self.tally
        uniform = stream(self.seed, f"bootstrap/negatives/{self.label}", number).random(tally.n_users)
        out = np.zeros(len(self.cells))
        add_outcomes(
            uniform,
            tally.user,
            tally.weight,
            self.table,
            self.base,
            self.sums,
            self.starts,
            self.outcome_cells,
            out,
        )
        return out


def sample_posterior_bins(tally: Tally, uniform: FloatArray) -> tuple[RankGrid, IntArray]:
    """Return bins of ranks, and for each entry a bin drawn from its posterior under a fit of ``smooth``.

    Parameters
    ----------
    tally : the sample
    uniform : (n_entries,) uniform numbers in [0, 1), for inversion
    """
    likelihood, fit = Smooth().fit_tallies([tally])
    sums = np.cumsum(likelihood.posterior(fit.masses[0]), axis=1)
    return likelihood.grid, _drawn_bins(sums, likelihood.cells[0][tally.cell], uniform)


def _drawn_bins(sums: FloatArray, outcome: IntArray, uniform: FloatArray) -> IntArray:
    """Return a bin for each entry by inversion of the cumulative posterior of its outcome."""
    bins = np.zeros(len(outcome), dtype=np.int64)
    order = np.argsort(outcome, kind="stable")
    distinct, first = np.unique(outcome[order], return_index=True)
    for index, rows in zip(distinct, np.split(order, first[1:]), strict=True):
        bins[rows] = np.searchsorted(sums[index], uniform[rows] * sums[index, -1], side="right")
    within: IntArray = np.minimum(bins, sums.shape[1] - 1)
    return within


_ENTRIES = 1 << 28  # most probabilities in memory: 2 GB
_STEP = 2e-10  # CPU seconds per EM step, outcome and bin
_DRAW = 3e-8  # CPU seconds to resample the negatives of one target


def bootstrap_seconds(estimator: MixtureEstimator, counted: Tally, target: Target, resamples: int) -> float:
    """Return the predicted CPU seconds of a bootstrap, right within a factor of about three.

    Parameters
    ----------
    estimator : the one that is fitted to each resample
    counted : the tally that would be resampled, completed or not
    target, resamples : of the bootstrap
    """
    n_outcomes, n_bins = _shape(estimator, counted, target)
    return resamples * (_STEP * estimator.em_steps * n_outcomes * n_bins + _DRAW * len(counted.cell))


def check_outcome_memory(estimator: MixtureEstimator, counted: Tally, target: Target) -> None:
    """Raise when a bootstrap would need more than 2 GB for the probabilities of all outcomes.

    Raises
    ------
    CannotEstimate
        With the advice to use ``delta``, which does not need them all at once.
    """
    n_outcomes, n_bins = _shape(estimator, counted, target)
    if n_outcomes * n_bins > _ENTRIES:
        raise CannotEstimate(
            f"a bootstrap would keep the probabilities of {n_outcomes:,} sampled ranks in {n_bins:,} bins, "
            f"{8e-9 * n_outcomes * n_bins:.1f} GB, in memory. Use delta, or wider bins such as grid=0.5."
        )


def _shape(estimator: MixtureEstimator, counted: Tally, target: Target) -> tuple[int, int]:
    """Return the numbers of outcomes and of bins of fits to resamples."""
    n_outcomes = n_possible_outcomes(counted)
    if target == "population":
        n_outcomes = min(n_outcomes, int(np.count_nonzero(counted.cell_weights)))
    return n_outcomes, grid_of([counted], step=estimator.grid).n_bins


_WEIGHTS = 1 << 22  # weights in memory at once: 32 MB
_RUNS = 250  # resamples fitted at once
_OUTCOMES = 1000  # sampled ranks of all pool sizes above which pool sizes are binned
_WIDTH = 0.1  # relative width of these bins


def resample_estimates(
    estimates: PointEstimates | Sequence[PointEstimates],
    *,
    target: Target = "test-users",
    resamples: int = 1000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> FloatArray:
    r"""Return bootstrap replicates of estimates, (resamples, n_metrics).

    For ``population`` users are resampled with replacement, which covers the variance from users and from
    their negatives. For ``test-users`` the users keep their ranks, drawn once from the posterior, and their
    negatives are resampled; the replicates are centred at the estimate. Where n of N test users were
    evaluated, f = n/N, both are combined:

    .. math:: \hat\theta_b = \hat\theta + \sqrt{1 - f} \, (\hat\theta^{users}_b - \hat\theta)
              + \sqrt f \, (\hat\theta^{negatives}_b - \overline{\hat\theta^{negatives}})

    Parameters
    ----------
    estimates : point estimates of one model; or of several, for the same users in the same order. Then the
        result is (n_models, resamples, n_metrics), and resample b has the same users for all models, so that
        differences are paired. Negatives are resampled independently for each model: the correlation from
        shared negatives is left out, which overstates the variance of differences.
    target : what the replicates vary about
    resamples, seed : number of replicates, and their seed; replicate b is a function of the seed and b
    progress : where resamples are reported

    Notes
    -----
    A prior or mapping that is fitted to the sample is held fixed; rank distributions are fitted to every
    resample. Where there are very many pool sizes, they are binned for that with a relative width of a tenth,
    and the replicates are shifted by what this changes in the estimate. Memory does not grow with resamples
    times users.
    """
    check_choice("target", target, TARGETS)
    check_at_least("resamples", resamples, 2, MOST_RESAMPLES)
    if isinstance(estimates, PointEstimates):
        named = {"": estimates}
    else:
        _check_same_users(estimates)
        named = {str(index): model for index, model in enumerate(estimates)}
    n_parts = sum(1 + (0 < _fraction(model, target) < 1) for model in named.values())
    with tracked(progress, "resampling", n_parts * resamples) as task:
        values = [_values(model, target, resamples, seed, label, task) for label, model in named.items()]
    return values[0] if isinstance(estimates, PointEstimates) else np.stack(values)


def _values(
    estimates: PointEstimates, target: Target, resamples: int, seed: int, label: str, task: ProgressTask
) -> FloatArray:
    used = _coarser(estimates)
    if isinstance(used.estimator, MixtureEstimator):
        check_outcome_memory(used.estimator, used.tally, target)
    return _replicates(used, target, resamples, seed, label, task) + (estimates.value - used.value)


def _coarser(estimates: PointEstimates) -> PointEstimates:
    """Return the estimates from a tally with binned pool sizes where fits would take very long.

    The cost of a fit is proportional to the number of outcomes, and every pool size has its own.
    """
    if not isinstance(estimates.estimator, MixtureEstimator):
        return estimates
    wide = resampling_tally(estimates)
    if wide is estimates.tally:
        return estimates
    value = estimates.estimator.estimate(wide, estimates.metrics).value
    return replace(estimates, tally=wide, value=value)


def resampling_tally(estimates: PointEstimates) -> Tally:
    """Return the tally that a bootstrap of a fitted estimate resamples, with binned pool sizes or not."""
    counted = estimates.tally
    if counted.width >= _WIDTH or counted.design.law != "uniform":
        return counted
    return counted if n_possible_outcomes(counted) <= _OUTCOMES else counted.unbinned.binned(_WIDTH)


def _fraction(estimates: PointEstimates, target: Target) -> float:
    tally = estimates.tally
    return sampled_fraction(target, tally.n_users, tally.design.n_test_users)


def _replicates(
    estimates: PointEstimates, target: Target, resamples: int, seed: int, label: str, task: ProgressTask
) -> FloatArray:
    fraction, tally = _fraction(estimates, target), estimates.tally
    values = np.tile(estimates.value, (resamples, 1))
    if fraction < 1:
        by_users = _apply(estimates, UserResamples.of(tally, seed), resamples, task)
        if fraction == 0:
            return by_users
        values += np.sqrt(1 - fraction) * (by_users - estimates.value)
    if tally.design.law != "uniform":
        raise CannotEstimate(
            f"a bootstrap for the target 'test-users' needs negatives that were drawn uniformly, got design "
            f"'{tally.design.law}'. Use delta, or target 'population'."
        )
    negatives = NegativeResamples.of(complete_tally(tally), seed, label)
    by_negatives = _apply(estimates, negatives, resamples, task)
    values += np.sqrt(fraction) * (by_negatives - by_negatives.mean(axis=0))
    return values


def _apply(estimates: PointEstimates, draws: Resamples, resamples: int, task: ProgressTask) -> FloatArray:
    """Return the estimates of all resamples, computed block by block."""
    replicates = make_replicates(estimates.estimator, draws.tally, estimates.metrics, draws.cells)
    block = min(max(_WEIGHTS // len(draws.cells), 1), _RUNS)
    values = np.empty((resamples, len(estimates.metrics)))
    for first in range(0, resamples, block):
        numbers = range(first, min(first + block, resamples))
        weights = np.stack(list(ordered_map(draws.weights, numbers, n_threads=available_threads())))
        values[numbers.start : numbers.stop] = replicates.values(weights)
        task.advance(len(numbers))
    return values


def _check_same_users(models: Sequence[PointEstimates]) -> None:
    if not models:
        raise InvalidData("resamples need at least one estimate, got none.")
    first = models[0].ranks
    for model in models[1:]:
        if not np.array_equal(model.ranks.user[model.ranks.starts], first.user[first.starts]):
            raise InvalidData(
                "paired resamples need the same users in the same order for every model. Sort the rows by "
                "user, and leave out users that some model lacks."
            )
        if len(model.metrics) != len(models[0].metrics):
            raise InvalidData(
                f"paired resamples need the same metrics for every model, got {len(models[0].metrics)} and "
                f"{len(model.metrics)}. Estimate the same metrics."
            )
