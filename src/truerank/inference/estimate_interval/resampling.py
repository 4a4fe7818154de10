"""Estimates from new samples like the one at hand.

New samples: of other users like these, or of other negatives for these users.

What resampling a fitted estimate costs, told before it is done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidData, check_at_least, check_choice
from truerank.core.parallel import available_threads, ordered_map
from truerank.core.progress import SILENT, Progress, ProgressTask, tracked
from truerank.core.random import stream
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.distribution.likelihood import RankGrid, grid_of
from truerank.estimation.distribution.replicates import make_replicates
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import Tally
from truerank.inference.estimate_interval.outcomes import completed, n_possible, outcomes_of
from truerank.inference.estimate_interval.registry import TARGETS, PointEstimates, Target
from truerank.inference.resample import resample_counts


@dataclass(frozen=True, eq=False)
class Resamples(ABC):
    """Samples that are pure functions of a seed and their number.

    Parameters
    ----------
    tally : the sample they are like
    cells : (n,) where weight may come to lie
    seed : of all draws
    """

    tally: Tally
    cells: IntArray
    seed: int

    @abstractmethod
    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one new sample, (n,)."""


@dataclass(frozen=True, eq=False)
class OtherUsers(Resamples):
    """As many users, drawn from those at hand with replacement.

    Which ones depends on the seed, the number and how many users there are, not on their ranks: samples of
    several models draw the same users.

    Parameters
    ----------
    place : (n_entries,) position in ``cells`` of the cell of each entry
    is_plain : whether each user has one entry of weight 1, in order
    """

    place: IntArray
    is_plain: bool

    @classmethod
    def of(cls, tally: Tally, seed: int) -> OtherUsers:
        """Find the cells in use."""
        cells = np.flatnonzero(tally.cell_weights > 0)
        place = np.searchsorted(cells, tally.cell)
        is_plain = len(place) == tally.n_users and bool((tally.weight == 1).all())
        return cls(tally, cells, seed, place, is_plain)

    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one new sample, (n,)."""
        n_users, n_cells = self.tally.n_users, len(self.cells)
        (times,) = resample_counts(
            n_users, range(number, number + 1), seed=self.seed, stage="bootstrap/users"
        )
        weight = times if self.is_plain else self.tally.weight * times[self.tally.user]
        return np.bincount(self.place, weight, n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False)
class OtherNegatives(Resamples):
    """The same users with the same ranks and other negatives.

    Ranks are not known: each target is given one from its posterior under a fitted distribution, once, and
    its outcome is drawn anew from the law. Targets of a user are drawn with one uniform number, best outcomes
    first. That is the most they can depend on each other, so where values fall with the rank no other way to
    share negatives has a larger variance.

    Parameters
    ----------
    label : tells models apart, whose draws are independent of each other
    table, base : (n_entries,) which sums an entry reads, and where the cells of its outcomes begin
    sums, starts : cumulated probabilities of the outcomes from best to worst, for each law and bin in use
    outcome_cells : where the outcomes lie in ``cells``, in the same order, one situation after the other
    """

    label: str
    table: IntArray
    base: IntArray
    sums: FloatArray
    starts: IntArray
    outcome_cells: IntArray

    @classmethod
    def of(cls, tally: Tally, seed: int, label: str = "") -> OtherNegatives:
        """Fit ranks to a completed tally and draw one for each target."""
        grid, bins = posterior_bins(tally, stream(seed, f"bootstrap/ranks/{label}").random(len(tally.cell)))
        context = tally.context
        situation_base = np.zeros(len(tally.contexts), dtype=np.int64)
        table = np.zeros(len(context), dtype=np.int64)
        sums: list[FloatArray] = []
        lengths: list[int] = []
        cells: list[IntArray] = []
        n_cells = 0
        for outcomes in outcomes_of(tally):
            n_outcomes = outcomes.cells.shape[1]
            n_sizes = len(outcomes.law.sizes)
            rows = outcomes.contexts[:, None] + np.arange(n_sizes)
            situation_base[rows] = (n_cells + np.arange(len(rows)) * n_outcomes)[:, None]
            cells.append(outcomes.cells[:, outcomes.order].ravel())
            n_cells += outcomes.cells.size
            own = np.flatnonzero(np.isin(context, rows))
            used, which = np.unique(bins[own], return_inverse=True)
            table[own] = len(lengths) + which.ravel()
            probabilities = outcomes.probabilities(grid)[used][:, outcomes.order]
            total = np.cumsum(probabilities, axis=1)
            sums.append((total / total[:, -1:]).ravel())
            lengths += [n_outcomes] * len(used)
        possible = np.concatenate(cells)
        reached = np.union1d(possible, np.flatnonzero(tally.cell_weights > 0))
        return cls(
            tally,
            reached,
            seed,
            label,
            table,
            situation_base[context],
            np.concatenate(sums),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.searchsorted(reached, possible),
        )

    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one new sample, (n,)."""
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


def posterior_bins(tally: Tally, uniform: FloatArray) -> tuple[RankGrid, IntArray]:
    """Return bins of ranks and, for each entry, one of them from its posterior under what ``smooth`` fits.

    Parameters
    ----------
    tally : the sample
    uniform : (n_entries,) numbers in [0, 1) that choose
    """
    likelihood, fit = Smooth().fit_tallies([tally])
    sums = np.cumsum(likelihood.posterior(fit.masses[0]), axis=1)
    return likelihood.grid, _drawn_bins(sums, likelihood.cells[0][tally.cell], uniform)


def _drawn_bins(sums: FloatArray, outcome: IntArray, uniform: FloatArray) -> IntArray:
    """Return a bin for each entry from the cumulated posterior of its outcome."""
    bins = np.zeros(len(outcome), dtype=np.int64)
    order = np.argsort(outcome, kind="stable")
    found, first = np.unique(outcome[order], return_index=True)
    for one, rows in zip(found, np.split(order, first[1:]), strict=True):
        bins[rows] = np.searchsorted(sums[one], uniform[rows] * sums[one, -1], side="right")
    within: IntArray = np.minimum(bins, sums.shape[1] - 1)
    return within


_ENTRIES = 1 << 28  # probabilities held at once: 2 GB
_STEP = 2e-10  # CPU seconds per step of EM, outcome and bin
_DRAW = 3e-8  # per target: new negatives


def bootstrap_seconds(estimator: MixtureEstimator, counted: Tally, target: Target, resamples: int) -> float:
    """Return about how many CPU seconds a bootstrap takes; a factor of three is to be allowed for.

    Parameters
    ----------
    estimator : what is fitted
    counted : the tally that would be resampled, completed or not
    target, resamples : what is asked
    """
    n_outcomes, n_bins = _shape(estimator, counted, target)
    return resamples * (_STEP * estimator.em_steps * n_outcomes * n_bins + _DRAW * len(counted.cell))


def check_outcome_memory(estimator: MixtureEstimator, counted: Tally, target: Target) -> None:
    """Raise when the probabilities of all outcomes do not fit into memory.

    Raises
    ------
    CannotEstimate
        With the way out: ``delta`` does not hold them at once.
    """
    n_outcomes, n_bins = _shape(estimator, counted, target)
    if n_outcomes * n_bins > _ENTRIES:
        raise CannotEstimate(
            f"a bootstrap would hold the probabilities of {n_outcomes:,} sampled ranks in {n_bins:,} bins, "
            f"{8e-9 * n_outcomes * n_bins:.1f} GB. Use delta, or wider bins such as grid=0.5."
        )


def _shape(estimator: MixtureEstimator, counted: Tally, target: Target) -> tuple[int, int]:
    """Return the numbers of outcomes and of bins that fits to new samples have."""
    n_outcomes = n_possible(counted)
    if target == "population":
        n_outcomes = min(n_outcomes, int(np.count_nonzero(counted.cell_weights)))
    return n_outcomes, grid_of([counted], step=estimator.grid).n_bins


_WEIGHTS = 1 << 22  # weights held at once: 32 MB
_RUNS = 250  # fitted at once
_OUTCOMES = 1000  # sampled ranks of all sizes of pools, above which these are put together
_WIDTH = 0.1  # relative width of such sizes


def resampled(
    found: PointEstimates | Sequence[PointEstimates],
    *,
    target: Target = "test-users",
    resamples: int = 1000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> FloatArray:
    r"""Return what each of many new samples would have given, (resamples, n_metrics).

    For ``population`` users are drawn with replacement and the estimator is applied to them: what differs is
    what the users and their negatives add. For ``test-users`` the users' ranks stay, as fitted, and their
    negatives are drawn anew; the values are those of the new samples less their mean, plus the estimate.
    Where n of N test users were evaluated, f = n/N, both parts are put together:

    .. math:: \hat\theta_b = \hat\theta + \sqrt{1 - f} \, (\hat\theta^{users}_b - \hat\theta)
              + \sqrt f \, (\hat\theta^{negatives}_b - \overline{\hat\theta^{negatives}})

    Parameters
    ----------
    found : estimates of one model; or of several, for the same users in the same order. Then the result is
        (n_models, resamples, n_metrics), and resample b draws the same users for all of them, so that
        differences are paired. New negatives are drawn for each model on its own: what models owe to shared
        negatives is left out, which makes differences vary more than they do.
    target : what the values are to vary about
    resamples, seed : how many, and of which draws; resample b is a function of the seed and b
    progress : where resamples are reported

    Notes
    -----
    A prior or mapping that is fitted to the sample stays as it is;
    distributions of ranks are fitted anew. Where there are very many sizes of pools, those within a tenth of
    each other are put together for that, and what this changes in the estimate itself is taken back. Memory
    does not grow with resamples times users.
    """
    check_choice("target", target, TARGETS)
    check_at_least("resamples", resamples, 2)
    named = {"": found} if isinstance(found, PointEstimates) else {str(i): one for i, one in enumerate(found)}
    if not isinstance(found, PointEstimates):
        _check_same_users(found)
    parts = sum(_n_parts(one, target) for one in named.values())
    with tracked(progress, "resampling", parts * resamples) as task:
        values = [_values(one, target, resamples, seed, label, task) for label, one in named.items()]
    return values[0] if isinstance(found, PointEstimates) else np.stack(values)


def _values(
    found: PointEstimates, target: Target, resamples: int, seed: int, label: str, task: ProgressTask
) -> FloatArray:
    used = _coarser(found)
    if isinstance(used.estimator, MixtureEstimator):
        check_outcome_memory(used.estimator, used.tally, target)
    return _resampled(used, target, resamples, seed, label, task) + (found.value - used.value)


def _coarser(found: PointEstimates) -> PointEstimates:
    """Return the estimate with pools of similar size put together where fits would take very long.

    A fit costs as many products as there are outcomes, and every size of pool has outcomes of its own.
    """
    if not isinstance(found.estimator, MixtureEstimator):
        return found
    wide = resampled_tally(found)
    if wide is found.tally:
        return found
    return replace(found, tally=wide, value=found.estimator.estimate(wide, found.metrics).value)


def resampled_tally(found: PointEstimates) -> Tally:
    """Return the tally whose outcomes new samples of a fitted estimate have, pools put together or not."""
    counted = found.tally
    is_fine = counted.width >= _WIDTH or counted.design.law != "uniform" or n_possible(counted) <= _OUTCOMES
    return counted if is_fine else counted.unbinned.binned(_WIDTH)


def _share(found: PointEstimates, target: Target) -> float:
    """Return f: how much of what an interval is for are the users at hand."""
    n_users = found.tally.n_users
    return 0.0 if target == "population" else n_users / (found.tally.design.n_test_users or n_users)


def _n_parts(found: PointEstimates, target: Target) -> int:
    """Return 2 where both other users and other negatives are drawn, else 1."""
    return 1 + (0 < _share(found, target) < 1)


def _resampled(
    found: PointEstimates, target: Target, resamples: int, seed: int, label: str, task: ProgressTask
) -> FloatArray:
    share = _share(found, target)
    values = np.tile(found.value, (resamples, 1))
    if share < 1:
        own = _apply(found, OtherUsers.of(found.tally, seed), resamples, task)
        if share == 0:
            return own
        values += np.sqrt(1 - share) * (own - found.value)
    if found.tally.design.law != "uniform":
        raise CannotEstimate(
            f"other negatives can only be drawn where they were drawn uniformly, got design "
            f"'{found.tally.design.law}'. Use delta, or target 'population'."
        )
    new = _apply(found, OtherNegatives.of(completed(found.tally), seed, label), resamples, task)
    values += np.sqrt(share) * (new - new.mean(axis=0))
    return values


def _apply(found: PointEstimates, draws: Resamples, resamples: int, task: ProgressTask) -> FloatArray:
    """Return the estimates of all new samples, a block of them at a time."""
    replicates = make_replicates(found.estimator, draws.tally, found.metrics, draws.cells)
    block = min(max(_WEIGHTS // len(draws.cells), 1), _RUNS)
    values = np.empty((resamples, len(found.metrics)))
    for first in range(0, resamples, block):
        numbers = range(first, min(first + block, resamples))
        weights = np.stack(list(ordered_map(draws.weights, numbers, n_threads=available_threads())))
        values[numbers.start : numbers.stop] = replicates.values(weights)
        task.advance(len(numbers))
    return values


def _check_same_users(found: Sequence[PointEstimates]) -> None:
    if not found:
        raise InvalidData("resamples need at least one estimate, got none.")
    first = found[0].ranks
    for one in found[1:]:
        if not np.array_equal(one.ranks.user[one.ranks.starts], first.user[first.starts]):
            raise InvalidData(
                "paired resamples need the same users in the same order for every model. Sort the rows by "
                "user, and leave out users that some model lacks."
            )
        if len(one.metrics) != len(found[0].metrics):
            raise InvalidData("paired resamples need the same metrics for every model.")
