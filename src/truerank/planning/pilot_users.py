"""The users of a pilot, with as many targets as they have."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from truerank.comparison.bounding import has_linear_bias
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.stopping import Stopping
from truerank.core.stream import stream
from truerank.core.tally import tally
from truerank.core.types import FloatArray, IntArray
from truerank.metrics import values
from truerank.planning.people import People
from truerank.planning.spread import Spread
from truerank.ranks import expected_size, simulate_adaptive, simulate_shared
from truerank.uncertainty.draws import posterior_bins
from truerank.uncertainty.outcomes import completed, outcomes_of

_MOST_ROWS = 10_000  # targets that are planned with: users are left out until there are so few
_REPEATS = 16  # samples, where there is no closed form
_WIDTH = 0.1  # relative width of the sizes of pools that are put together


@dataclass(frozen=True, eq=False)
class PilotUsers(People):
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
    _found: dict[int | Stopping, dict[Metric, Spread]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, pilot: SampledRanks, estimator: Estimator, metrics: tuple[Metric, ...], n_test_users: int
    ) -> PilotUsers:
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

    def exact(self, metric: Metric) -> Spread:
        """Return the spread of exact values."""
        return Spread(0.0, float(self._exact(metric).var()), 0.0)

    def sampled(self, metric: Metric, size: int | Stopping) -> Spread:
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

    def _computed(self, size: int | Stopping) -> dict[Metric, Spread]:
        """Return mean and variance of each target's value from the law of its outcomes."""
        counted = completed(tally(self._drawn(size, 0), width=0.0))
        x = self.estimator.corrected(counted, self.metrics)
        context = np.searchsorted(counted.offsets, counted.cell, side="right") - 1
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
            metric: Spread(
                float((spreads[:, column] ** 2).mean()),
                float(means[:, column].var()),
                float(means[:, column].mean()) - self.value(metric),
            )
            for column, metric in enumerate(self.metrics)
        }

    def _simulated(self, size: int | Stopping) -> dict[Metric, Spread]:
        """Return what repeated samples give."""
        samples = [tally(self._drawn(size, repeat)) for repeat in range(_REPEATS)]
        runs = self.estimator.estimate_runs(samples, self.metrics)
        items = runs.var(axis=0, ddof=1) * self.ranks.n_users
        return {
            metric: Spread(
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
    _, which = np.unique(np.floor(np.log(sizes) / np.log1p(_WIDTH)), return_inverse=True)
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
