"""Users whose ranks are assumed, as a plan sees them.

Users with one target each in pools of one size.

The users of a pilot, with as many targets as they have.

What an estimate varies by and is off by.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
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
from truerank.inference.estimate_interval.outcomes import completed, outcomes_of
from truerank.inference.estimate_interval.registry import Target
from truerank.inference.estimate_interval.resampling import posterior_bins
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.ranking.adaptive_cost import expected_size
from truerank.ranking.simulate import simulate_adaptive, simulate_sample, simulate_shared
from truerank.workflows.compare.bounds import has_linear_bias


@dataclass(frozen=True)
class ErrorComponents:
    """Variance of one user's value, in parts, and how far its mean is off.

    Parameters
    ----------
    items : the mean over users of the variance over samples of items
    users : the variance over users of the mean over samples
    bias : mean minus exact value
    """

    items: float
    users: float
    bias: float

    def noise(self, n_users: int, *, n_test_users: int, target: Target, level: float) -> float:
        r"""Return the half-width that the noise alone gives, by the normal law.

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
        left = 1.0 if target == "population" else max(1 - n_users / n_test_users, 0.0)
        return float(ndtri((1 + level) / 2) * np.sqrt((self.items + self.users * left) / n_users))


class AssumedUsers(ABC):
    """Users with targets at assumed ranks, and the estimator that is to be planned for.

    Parameters
    ----------
    n_test_users : test users there are
    """

    n_test_users: int

    @property
    @abstractmethod
    def n_candidates(self) -> int:
        """Items that can be drawn in the largest pool."""

    @property
    @abstractmethod
    def n_targets(self) -> float:
        """Targets of a user on average."""

    @abstractmethod
    def value(self, metric: Metric) -> float:
        """Return the exact mean."""

    @abstractmethod
    def exact(self, metric: Metric) -> ErrorComponents:
        """Return the spread of exact values."""

    @abstractmethod
    def sampled(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return the spread of estimates from so many negatives, or from adaptive samples.

        In closed form for estimators whose values are fixed beforehand, from simulated samples for those that
        fit something to the sample.
        """

    @abstractmethod
    def mean_size(self, stopping: Stopping) -> float:
        """Return how many negatives an adaptive sample is expected to take per target."""

    @abstractmethod
    def first(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Return J of each user's first target, the users' shares, and the candidates of their pools."""

    def row_scores(self, metric: Metric) -> float:
        r"""Return the mean number of scores of a row that ends when K random items stand above its targets.

        With J of L items above, the K-th of them comes at place K (L + 1)/(J + 1) on average. What stands
        above a user's first target stands above the others, so it is the first that a row waits for.
        """
        above, share, size = self.first()
        cutoff = metric.cutoff
        if cutoff is None:
            return self.n_targets + float(share @ size)
        place = np.where(above >= cutoff, cutoff * (size + 1) / (above + 1), size)
        return self.n_targets + float(share @ np.minimum(place, size))


_FINE = 64  # best ranks that are kept one by one
_WIDTH = 0.03  # relative width of the steps between the others
_REPEATS, _MOST_SIMULATED = 16, 2000  # samples, and users in each, where there is no closed form


@dataclass(frozen=True, eq=False)
class UsersFromDistribution(AssumedUsers):
    """Users with one target each, whose ranks follow a distribution.

    Parameters
    ----------
    distribution : over ranks 1..N
    estimator : what makes estimates of sampled ranks
    n_test_users : test users there are
    """

    distribution: RankDistribution
    estimator: Estimator
    n_test_users: int
    _found: dict[tuple[Metric, object], ErrorComponents] = field(default_factory=dict)

    @property
    def n_candidates(self) -> int:
        """Items that can be drawn."""
        return self.distribution.n_pool - 1

    @property
    def n_targets(self) -> float:
        """Targets of a user."""
        return 1.0

    @cached_property
    def atoms(self) -> tuple[IntArray, FloatArray]:
        """A few hundred numbers of items above, and the weight of each; the mean of each step is kept."""
        weights = self.distribution.weights
        above = np.arange(len(weights))
        step = np.where(
            above < _FINE, above, _FINE + np.log(np.maximum(above, _FINE) / _FINE) / np.log1p(_WIDTH)
        )
        step = np.unique(step.astype(np.int64), return_inverse=True)[1]
        mass = np.bincount(step, weights)
        centre = np.bincount(step, weights * above)
        keep = mass > 0
        return np.rint(centre[keep] / mass[keep]).astype(np.int64), mass[keep] / mass[keep].sum()

    def exact(self, metric: Metric) -> ErrorComponents:
        """Return the spread of exact values."""
        share = self.atoms[1]
        gain = self._gains(metric)
        mean = float(share @ gain)
        return ErrorComponents(0.0, float(share @ (gain - mean) ** 2), 0.0)

    def value(self, metric: Metric) -> float:
        """Return the exact mean."""
        return float(self.atoms[1] @ self._gains(metric))

    def sampled(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return the spread of estimates."""
        key = (metric, size)
        if key not in self._found:
            self._found[key] = self._spread(metric, size)
        return self._found[key]

    def mean_size(self, stopping: Stopping) -> float:
        """Return how many negatives an adaptive sample is expected to take."""
        return expected_size(self.distribution, stopping)

    def first(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Return the atoms."""
        above, share = self.atoms
        return above, share, np.full(len(above), self.n_candidates)

    def _gains(self, metric: Metric) -> FloatArray:
        above, _ = self.atoms
        one = np.ones_like(above)
        gains: FloatArray = np.broadcast_to(
            metric.gain(above + 1, 0 * one, one, one * self.distribution.n_pool), above.shape
        )
        return gains

    def _spread(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        law = (
            AdaptiveLaw(self.n_candidates, size, False)
            if isinstance(size, Stopping)
            else make_law(self.n_candidates, size, replacement=False)
        )
        above, share = self.atoms
        try:
            corrected = corrected_values(self.estimator, metric, law)
        except CannotEstimate:
            raise
        except TruerankError:  # values that are fitted to users cannot be had without users
            return self._simulated(metric, size)
        mean, variance = law.moments(corrected, above)
        centre = float(share @ mean)
        return ErrorComponents(
            float(share @ variance), float(share @ (mean - centre) ** 2), centre - self.value(metric)
        )

    def _simulated(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        n = min(self.n_test_users, _MOST_SIMULATED)
        above, share = self.atoms
        at = (np.arange(n) + 0.5) / n
        ranks = Ranks.single(
            above[np.searchsorted(np.cumsum(share), at).clip(0, len(above) - 1)],
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
    """Raise unless weights are chances."""
    if distribution.weights.min() < 0:
        raise InvalidData(
            f"a plan needs weights >= 0, those of {distribution.method!r} are signed. Take those of 'mle'."
        )


_MOST_ROWS = 10_000  # targets that are planned with: users are left out until there are so few
_PILOT_REPEATS = 16  # samples, where there is no closed form
_POOL_WIDTH = 0.1  # relative width of the sizes of pools that are put together


@dataclass(frozen=True, eq=False)
class UsersFromPilot(AssumedUsers):
    r"""Users whose targets are given ranks that the pilot makes plausible.

    Each target has a rank from its posterior under the fit of ``smooth``, those of a user in their own order
    and, up to a tenth, in pools of their sizes. Metrics of these ranks are the exact values. For linear
    estimators :math:`V_\text{items}` is the mean over users of :math:`(\sum_i \operatorname{sd}
    (x(j_i) \mid R_i))^2`, which is what ``delta`` will say of the sample: targets of a user may share their
    negatives in ways that a table does not tell. Others are applied to simulated samples in which they do.

    Parameters
    ----------
    ranks : the ranks that are assumed
    estimator, metrics : what is planned for
    n_test_users : test users there are
    """

    ranks: Ranks
    estimator: Estimator
    metrics: tuple[Metric, ...]
    n_test_users: int
    _found: dict[int | Stopping, dict[Metric, ErrorComponents]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, pilot: SampledRanks, estimator: Estimator, metrics: tuple[Metric, ...], n_test_users: int
    ) -> UsersFromPilot:
        """Draw the ranks."""
        return cls(_plausible(_fewer(pilot)), estimator, metrics, n_test_users)

    @property
    def n_candidates(self) -> int:
        """Items that can be drawn in the largest pool."""
        return int(self._sizes.max())

    @property
    def n_targets(self) -> float:
        """Targets of a user on average."""
        return len(self.ranks) / self.ranks.n_users

    def value(self, metric: Metric) -> float:
        """Return the exact mean."""
        return float(self._exact(metric).mean())

    def exact(self, metric: Metric) -> ErrorComponents:
        """Return the spread of exact values."""
        return ErrorComponents(0.0, float(self._exact(metric).var()), 0.0)

    def sampled(self, metric: Metric, size: int | Stopping) -> ErrorComponents:
        """Return the spread of estimates."""
        if size not in self._found:
            spread = self._computed if has_linear_bias(self.estimator) else self._simulated
            self._found[size] = spread(size)
        return self._found[size][metric]

    def mean_size(self, stopping: Stopping) -> float:
        """Return how many negatives an adaptive sample is expected to take per target."""
        return expected_size(self.ranks, stopping)

    def first(self) -> tuple[IntArray, FloatArray, IntArray]:
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

    def _exact(self, metric: Metric) -> FloatArray:
        found: FloatArray = values((metric,), self.ranks)[:, 0]
        return found

    def _drawn(self, size: int | Stopping, repeat: int) -> SampledRanks:
        if isinstance(size, Stopping):
            return simulate_adaptive(self.ranks, size, repeat=repeat)
        return simulate_shared(self.ranks, np.minimum(size, self._sizes), repeat=repeat)

    def _computed(self, size: int | Stopping) -> dict[Metric, ErrorComponents]:
        """Return mean and variance of each target's value from the law of its outcomes."""
        counted = completed(tally(self._drawn(size, 0), width=0.0))
        x = self.estimator.corrected(counted, self.metrics)
        context = counted.context
        order = np.argsort(context, kind="stable")
        mean, spread = np.zeros((2, len(self.ranks), len(self.metrics)))
        for outcomes in outcomes_of(counted):
            law = outcomes.law
            n_sizes = len(getattr(law, "sizes", (0,)))
            for cells, first in zip(outcomes.cells, outcomes.contexts, strict=True):
                rows = order[slice(*np.searchsorted(context, [first, first + n_sizes], sorter=order))]
                above, back = np.unique(self._above[rows], return_inverse=True)
                for column in range(len(self.metrics)):
                    moments = law.moments(x[cells, column], above)
                    mean[rows, column], spread[rows, column] = moments[0][back], np.sqrt(moments[1])[back]
        starts = self.ranks.starts
        means, spreads = np.add.reduceat(mean, starts), np.add.reduceat(spread, starts)
        return {
            metric: ErrorComponents(
                float((spreads[:, column] ** 2).mean()),
                float(means[:, column].var()),
                float(means[:, column].mean()) - self.value(metric),
            )
            for column, metric in enumerate(self.metrics)
        }

    def _simulated(self, size: int | Stopping) -> dict[Metric, ErrorComponents]:
        """Return what repeated samples give."""
        samples = [tally(self._drawn(size, repeat)) for repeat in range(_PILOT_REPEATS)]
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


def _fewer(pilot: SampledRanks) -> SampledRanks:
    """Return the targets of some users, drawn at random where there are very many."""
    order = stream(0, "plan/users").permutation(pilot.n_users)
    counts = np.diff(np.append(pilot.starts, len(pilot)))
    n_kept = max(int(np.searchsorted(np.cumsum(counts[order]), _MOST_ROWS, side="right")), 1)
    if n_kept >= pilot.n_users:
        return pilot
    is_kept = np.zeros(pilot.n_users, dtype=np.bool_)
    is_kept[order[:n_kept]] = True
    rows = np.repeat(is_kept, counts)
    columns = [column.name for column in fields(pilot) if column.name != "design"]
    return replace(pilot, **{name: getattr(pilot, name)[rows] for name in columns})


def _plausible(pilot: SampledRanks) -> Ranks:
    """Return ranks that the sampled ones may have come from."""
    counted = tally(pilot, ties="random")  # one entry per target, in their order
    draw = stream(0, "plan/ranks")
    grid, bins = posterior_bins(counted, draw.random(len(pilot)))
    within = draw.random(len(pilot))
    edges = grid.edges / grid.n_ranks
    share = edges[bins] + within * (edges[bins + 1] - edges[bins])
    candidates = _put_together(pilot.n_candidates[pilot.starts])[counted.user]
    above = np.minimum((share * (candidates + 1)).astype(np.int64), candidates)
    best_first = np.lexsort((pilot.item, pilot.n_relevant_above, counted.user))
    above[best_first] = above[np.lexsort((above, counted.user))]
    relevant_above = _one_after_the_other(counted.user, pilot.n_relevant_above, best_first)
    zeros = np.zeros_like(above)
    return Ranks(
        user=pilot.user,
        item=pilot.item,
        n_above=above + relevant_above,
        n_tied=zeros,
        n_pool=candidates + pilot.n_relevant,  # without items that nothing is drawn from
        n_relevant=pilot.n_relevant,
        n_relevant_above=relevant_above,
        n_relevant_tied=zeros,
    )


def _put_together(sizes: IntArray) -> IntArray:
    """Return the mean of all sizes that lie close together, in place of each."""
    _, which = np.unique(np.floor(np.log(sizes) / np.log1p(_POOL_WIDTH)), return_inverse=True)
    means: IntArray = np.rint(np.bincount(which, sizes) / np.bincount(which)).astype(np.int64)
    return means[which]


def _one_after_the_other(user: IntArray, relevant_above: IntArray, order: IntArray) -> IntArray:
    """Return the targets above each, those of a user that tie put in order.

    Examples
    --------
    >>> one = np.array([0, 0, 0])
    >>> _one_after_the_other(one, np.array([1, 0, 1]), np.array([1, 0, 2])).tolist()
    [1, 0, 2]
    """
    key = np.stack([user[order], relevant_above[order]])
    is_first = np.append(True, (np.diff(key) != 0).any(axis=0))
    places = np.arange(len(order))
    found = np.empty_like(relevant_above)
    found[order] = relevant_above[order] + places - np.maximum.accumulate(np.where(is_first, places, 0))
    return found
