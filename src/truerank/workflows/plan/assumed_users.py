"""Users with assumed ranks: mean squared error components of estimates from samples that are only planned.

A plan needs the variance and the bias that an estimator would have with m negatives per target. Both follow
from the ranks of the targets, which are not known before the evaluation, so they are assumed: drawn from a
rank distribution, one target per user (``UsersFromDistribution``), or plausible given the sampled ranks of a
pilot, with as many targets per user as the pilot has (``UsersFromPilot``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from truerank.core.errors import CannotEstimate, InvalidData, TruerankError
from truerank.core.random import stream
from truerank.core.ranks import RankDistribution, Ranks, SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.base import Estimator
from truerank.estimation.expectation import corrected_values
from truerank.estimation.law import make_law
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.outcomes import complete_tally, possible_outcomes
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.estimate_interval.resampling import sample_posterior_bins
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.ranking.adaptive_cost import expected_size
from truerank.ranking.simulate import simulate_adaptive, simulate_sample, simulate_shared
from truerank.workflows.compare.bounds import has_linear_bias


@dataclass(frozen=True)
class ErrorComponents:
    """Variance components of one user's estimated value, and the bias of the mean.

    Parameters
    ----------
    items : mean over users of the variance over samples of items (within users)
    users : variance over users of the expectation over samples of items (between users)
    bias : expectation of the estimate minus exact value
    """

    items: float
    users: float
    bias: float

    def noise(self, n_users: int, *, n_test_users: int, target: Target, level: float) -> float:
        r"""Return the half-width of the normal interval, bias not counted.

        .. math:: z \sqrt{\frac{V_\text{items}}{n} + \frac{V_\text{users}}{n}
                  \Big(1 - \frac{n}{N}\Big)}

        for n of N test users; the last factor is 1 for a population.

        Examples
        --------
        >>> spread = ErrorComponents(items=0.0, users=0.09, bias=0.0)
        >>> round(spread.noise(900, n_test_users=900, target="population", level=0.95), 4)
        0.0196
        >>> spread.noise(900, n_test_users=900, target="test-users", level=0.95)  # all of them: known
        0.0
        """
        correction = 1.0 if target == "population" else max(1 - n_users / n_test_users, 0.0)
        return float(ndtri((1 + level) / 2) * np.sqrt((self.items + self.users * correction) / n_users))


class AssumedUsers(ABC):
    """Users with targets at assumed ranks, and the estimator whose error is planned for.

    Parameters
    ----------
    n_test_users : number of test users
    """

    n_test_users: int

    @property
    @abstractmethod
    def n_candidates(self) -> int:
        """Candidate negatives in the largest pool."""

    @property
    @abstractmethod
    def n_targets(self) -> float:
        """Mean number of targets per user."""

    @abstractmethod
    def value(self, metric: Metric) -> float:
        """Return the mean of the exact values."""

    @abstractmethod
    def exact(self, metric: Metric) -> ErrorComponents:
        """Return the variance of exact values over users."""

    @abstractmethod
    def sampled(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return variance and bias of estimates from ``size`` negatives per target, or adaptive samples.

        In closed form for estimators with fixed corrected values, from simulated samples for those that fit
        something to the sample.
        """

    @abstractmethod
    def mean_size(self, stopping: Stopping) -> float:
        """Return the expected number of negatives per target of an adaptive sample."""

    @abstractmethod
    def best_targets(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Return J of each user's best target, the users' weights, and the candidates in their pools."""

    def row_scores(self, metric: Metric) -> float:
        r"""Return the mean number of scores of a row that ends when K random items stand above its targets.

        With J of L items above, the K-th of them comes at position K (L + 1)/(J + 1) of a random order on
        average. Items above a user's best target are above all others, so the row ends when K items are above
        the best target.
        """
        above, weight, size = self.best_targets()
        cutoff = metric.cutoff
        if cutoff is None:
            return self.n_targets + float(weight @ size)
        position = np.where(above >= cutoff, cutoff * (size + 1) / (above + 1), size)
        return self.n_targets + float(weight @ np.minimum(position, size))


_SINGLE_RANKS = 64  # best ranks that are not binned
_BIN_WIDTH = 0.03  # relative width of the bins of the others
_REPEATS, _MOST_SIMULATED = 16, 2000  # samples, and users in each, where there is no closed form


@dataclass(frozen=True, eq=False)
class UsersFromDistribution(AssumedUsers):
    """Users with one target each, whose ranks follow a distribution.

    Parameters
    ----------
    distribution : over ranks 1..N
    estimator : estimator of the metrics from sampled ranks
    n_test_users : number of test users
    """

    distribution: RankDistribution
    estimator: Estimator
    n_test_users: int
    _cache: dict[tuple[Metric, object], ErrorComponents] = field(default_factory=dict)

    @property
    def n_candidates(self) -> int:
        """Candidate negatives of a user."""
        return self.distribution.n_pool - 1

    @property
    def n_targets(self) -> float:
        """One target per user."""
        return 1.0

    @cached_property
    def atoms(self) -> tuple[IntArray, FloatArray]:
        """A few hundred numbers of items above with their weights; large ones are binned to their mean."""
        weights = self.distribution.weights
        above = np.arange(len(weights))
        beyond = np.log(np.maximum(above, _SINGLE_RANKS) / _SINGLE_RANKS) / np.log1p(_BIN_WIDTH)
        bins = np.where(above < _SINGLE_RANKS, above, _SINGLE_RANKS + beyond)
        bins = np.unique(bins.astype(np.int64), return_inverse=True)[1]
        mass = np.bincount(bins, weights)
        centre = np.bincount(bins, weights * above)
        keep = mass > 0
        return np.rint(centre[keep] / mass[keep]).astype(np.int64), mass[keep] / mass[keep].sum()

    def exact(self, metric: Metric) -> ErrorComponents:
        """Return the variance of exact values over users."""
        weight = self.atoms[1]
        gain = self._gains(metric)
        mean = float(weight @ gain)
        return ErrorComponents(0.0, float(weight @ (gain - mean) ** 2), 0.0)

    def value(self, metric: Metric) -> float:
        """Return the mean of the exact values."""
        return float(self.atoms[1] @ self._gains(metric))

    def sampled(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return variance and bias of estimates."""
        key = (metric, size)
        if key not in self._cache:
            self._cache[key] = self._components(metric, size)
        return self._cache[key]

    def mean_size(self, stopping: Stopping) -> float:
        """Return the expected number of negatives of an adaptive sample."""
        return expected_size(self.distribution, stopping)

    def best_targets(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Return the atoms: each user has one target."""
        above, weight = self.atoms
        return above, weight, np.full(len(above), self.n_candidates)

    def _gains(self, metric: Metric) -> FloatArray:
        above, _ = self.atoms
        ones = np.ones_like(above)
        gains: FloatArray = np.broadcast_to(
            metric.gain(above + 1, 0 * ones, ones, ones * self.distribution.n_pool), above.shape
        )
        return gains

    def _components(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        law = (
            AdaptiveLaw(self.n_candidates, size, False)
            if isinstance(size, Stopping)
            else make_law(self.n_candidates, size, replacement=False)
        )
        above, weight = self.atoms
        try:
            corrected = corrected_values(self.estimator, metric, law)
        except CannotEstimate:
            raise
        except TruerankError:  # an estimator that is fitted to users has no fixed corrected values
            return self._simulated(metric, size)
        mean, variance = law.moments(corrected, above)
        centre = float(weight @ mean)
        return ErrorComponents(
            float(weight @ variance), float(weight @ (mean - centre) ** 2), centre - self.value(metric)
        )

    def _simulated(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return variance over repeated samples, and bias, of users at the quantiles of the distribution."""
        n = min(self.n_test_users, _MOST_SIMULATED)
        above, weight = self.atoms
        quantile = (np.arange(n) + 0.5) / n
        ranks = Ranks.single(
            above[np.searchsorted(np.cumsum(weight), quantile).clip(0, len(above) - 1)],
            n_pool=self.distribution.n_pool,
        )
        exact = float(metric.per_user(ranks).mean())
        runs = [
            self.estimator.estimate(tally(_simulate(ranks, size, repeat)), [metric]).value[0]
            for repeat in range(_REPEATS)
        ]
        items = float(np.var(runs, ddof=1)) * n
        return ErrorComponents(items, self.exact(metric).users, float(np.mean(runs)) - exact)


def _simulate(ranks: Ranks, size: int | Stopping, repeat: int) -> SampledRanks:
    if isinstance(size, Stopping):
        return simulate_adaptive(ranks, size, repeat=repeat)
    return simulate_sample(ranks, size, repeat=repeat)


def check_nonnegative(distribution: RankDistribution) -> None:
    """Raise unless the weights of the distribution are probabilities."""
    if distribution.weights.min() < 0:
        raise InvalidData(
            f"a plan needs a rank distribution with weights >= 0, but those of {distribution.method!r} are "
            "signed. Use the distribution of estimator 'mle'."
        )


_MOST_TARGETS = 10_000  # of a pilot: users beyond are left out at random
_POOL_WIDTH = 0.1  # relative width of the bins of pool sizes


@dataclass(frozen=True, eq=False)
class UsersFromPilot(AssumedUsers):
    r"""Users of a pilot, whose targets get ranks that are plausible given the sampled ones.

    Each target gets a rank sampled from its posterior under the fit of ``smooth``; targets of a user keep
    their order, and pools keep their sizes up to 10 %. Metrics of these ranks are the exact values. For
    linear estimators :math:`V_\text{items}` is the mean over users of :math:`(\sum_i \operatorname{sd}
    (x(j_i) \mid R_i))^2`, the upper bound that the interval ``delta`` uses too, because a table of ranks does
    not show how targets of a user share their negatives. Other estimators are applied to simulated samples in
    which targets of a user share them.

    Parameters
    ----------
    ranks : the assumed ranks
    estimator, metrics : what is planned for
    n_test_users : number of test users
    """

    ranks: Ranks
    estimator: Estimator
    metrics: tuple[Metric, ...]
    n_test_users: int
    _cache: dict[int | Stopping, dict[Metric, ErrorComponents]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, pilot: SampledRanks, estimator: Estimator, metrics: tuple[Metric, ...], n_test_users: int
    ) -> UsersFromPilot:
        """Sample plausible ranks for the users of a pilot."""
        return cls(_plausible_ranks(_limit_users(pilot)), estimator, metrics, n_test_users)

    @property
    def n_candidates(self) -> int:
        """Candidate negatives in the largest pool."""
        return int(self._sizes.max())

    @property
    def n_targets(self) -> float:
        """Mean number of targets per user."""
        return len(self.ranks) / self.ranks.n_users

    def value(self, metric: Metric) -> float:
        """Return the mean of the exact values."""
        return float(self._per_user(metric).mean())

    def exact(self, metric: Metric) -> ErrorComponents:
        """Return the variance of exact values over users."""
        return ErrorComponents(0.0, float(self._per_user(metric).var()), 0.0)

    def sampled(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return variance and bias of estimates."""
        if size not in self._cache:
            components = self._closed_form if has_linear_bias(self.estimator) else self._simulated
            self._cache[size] = components(size)
        return self._cache[size][metric]

    def mean_size(self, stopping: Stopping) -> float:
        """Return the expected number of negatives per target of an adaptive sample."""
        return expected_size(self.ranks, stopping)

    def best_targets(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Return the users' best targets."""
        starts = self.ranks.starts
        above = np.minimum.reduceat(self._above, starts)
        return above, np.full(len(starts), 1 / len(starts)), self._sizes[starts]

    @property
    def _above(self) -> IntArray:
        return self.ranks.n_above - self.ranks.n_relevant_above

    @property
    def _sizes(self) -> IntArray:
        return self.ranks.n_pool - self.ranks.n_relevant

    def _per_user(self, metric: Metric) -> FloatArray:
        per_user: FloatArray = values((metric,), self.ranks)[:, 0]
        return per_user

    def _sample(self, size: int | Stopping, repeat: int) -> SampledRanks:
        if isinstance(size, Stopping):
            return simulate_adaptive(self.ranks, size, repeat=repeat)
        return simulate_shared(self.ranks, np.minimum(size, self._sizes), repeat=repeat)

    def _closed_form(self, size: int | Stopping) -> dict[Metric, ErrorComponents]:
        """Return the components from mean and variance of each target's value under its sampling law."""
        counted = complete_tally(tally(self._sample(size, 0), width=0.0))
        x = self.estimator.corrected(counted, self.metrics)
        context = counted.context
        order = np.argsort(context, kind="stable")
        mean, deviation = np.zeros((2, len(self.ranks), len(self.metrics)))
        for outcomes in possible_outcomes(counted):
            law = outcomes.law
            n_sizes = len(getattr(law, "sizes", (0,)))
            for cells, first in zip(outcomes.cells, outcomes.contexts, strict=True):
                rows = order[slice(*np.searchsorted(context, [first, first + n_sizes], sorter=order))]
                above, index = np.unique(self._above[rows], return_inverse=True)
                for column in range(len(self.metrics)):
                    moments = law.moments(x[cells, column], above)
                    mean[rows, column], deviation[rows, column] = (
                        moments[0][index],
                        np.sqrt(moments[1])[index],
                    )
        starts = self.ranks.starts
        means, deviations = np.add.reduceat(mean, starts), np.add.reduceat(deviation, starts)
        return {
            metric: ErrorComponents(
                float((deviations[:, column] ** 2).mean()),
                float(means[:, column].var()),
                float(means[:, column].mean()) - self.value(metric),
            )
            for column, metric in enumerate(self.metrics)
        }

    def _simulated(self, size: int | Stopping) -> dict[Metric, ErrorComponents]:
        """Return variance over repeated samples, and bias."""
        samples = [tally(self._sample(size, repeat)) for repeat in range(_REPEATS)]
        runs = self.estimator.estimate_runs(samples, self.metrics)
        items = runs.var(axis=0, ddof=1) * self.ranks.n_users
        return {
            metric: ErrorComponents(
                float(items[column]),
                self.exact(metric).users,
                float(runs[:, column].mean()) - self.value(metric),
            )
            for column, metric in enumerate(self.metrics)
        }


def _limit_users(pilot: SampledRanks) -> SampledRanks:
    """Return the targets of all users, or of a random sample of users where there are too many targets."""
    order = stream(0, "plan/users").permutation(pilot.n_users)
    counts = np.diff(np.append(pilot.starts, len(pilot)))
    n_kept = max(int(np.searchsorted(np.cumsum(counts[order]), _MOST_TARGETS, side="right")), 1)
    if n_kept >= pilot.n_users:
        return pilot
    is_kept = np.zeros(pilot.n_users, dtype=np.bool_)
    is_kept[order[:n_kept]] = True
    return pilot.take(np.repeat(is_kept, counts))


def _plausible_ranks(pilot: SampledRanks) -> Ranks:
    """Return ranks sampled from the posterior of each target, in the users' order of targets."""
    counted = tally(pilot, ties="random")  # one entry per target, in their order
    generator = stream(0, "plan/ranks")
    grid, bins = sample_posterior_bins(counted, generator.random(len(pilot)))
    within = generator.random(len(pilot))
    edges = grid.edges / grid.n_ranks
    fraction = edges[bins] + within * (edges[bins + 1] - edges[bins])
    candidates = _binned_sizes(pilot.n_candidates[pilot.starts])[counted.user]
    above = np.minimum((fraction * (candidates + 1)).astype(np.int64), candidates)
    best_first = np.lexsort((pilot.item, pilot.n_relevant_above, counted.user))
    above[best_first] = above[np.lexsort((above, counted.user))]
    relevant_above = _break_ties(counted.user, pilot.n_relevant_above, best_first)
    zeros = np.zeros_like(above)
    return Ranks(
        user=pilot.user,
        item=pilot.item,
        n_above=above + relevant_above,
        n_tied=zeros,
        n_pool=candidates + pilot.n_relevant,  # without items that are neither candidate nor target
        n_relevant=pilot.n_relevant,
        n_relevant_above=relevant_above,
        n_relevant_tied=zeros,
    )


def _binned_sizes(sizes: IntArray) -> IntArray:
    """Return the pool sizes with each replaced by the mean of its bin on a logarithmic axis."""
    _, bins = np.unique(np.floor(np.log(sizes) / np.log1p(_POOL_WIDTH)), return_inverse=True)
    means: IntArray = np.rint(np.bincount(bins, sizes) / np.bincount(bins)).astype(np.int64)
    return means[bins]


def _break_ties(user: IntArray, relevant_above: IntArray, order: IntArray) -> IntArray:
    """Return the number of targets above each target, tied targets of a user taken in the given order.

    Examples
    --------
    >>> _break_ties(np.array([0, 0, 0]), np.array([1, 0, 1]), np.array([1, 0, 2])).tolist()
    [1, 0, 2]
    """
    key = np.stack([user[order], relevant_above[order]])
    is_first = np.append(True, (np.diff(key) != 0).any(axis=0))
    position = np.arange(len(order))
    n_above = np.empty_like(relevant_above)
    n_above[order] = relevant_above[order] + position - np.maximum.accumulate(np.where(is_first, position, 0))
    return n_above
