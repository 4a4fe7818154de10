"""Users with one target each in pools of one size."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from truerank.core.distribution import RankDistribution
from truerank.core.errors import CannotEstimate, InvalidData, TruerankError
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.stopping import Stopping
from truerank.core.tally import tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.adaptive_law import AdaptiveLaw
from truerank.estimators.analysis import corrected_values
from truerank.estimators.law import make_law
from truerank.planning.people import People
from truerank.planning.spread import Spread
from truerank.ranks import expected_size, simulate_adaptive, simulate_sample

_FINE = 64  # best ranks that are kept one by one
_WIDTH = 0.03  # relative width of the steps between the others
_REPEATS, _MOST_SIMULATED = 16, 2000  # samples, and users in each, where there is no closed form


@dataclass(frozen=True, eq=False)
class Population(People):
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
    _found: dict[tuple[Metric, object], Spread] = field(default_factory=dict)

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

    def exact(self, metric: Metric) -> Spread:
        """Return the spread of exact values."""
        share = self.atoms[1]
        gain = self._gains(metric)
        mean = float(share @ gain)
        return Spread(0.0, float(share @ (gain - mean) ** 2), 0.0)

    def value(self, metric: Metric) -> float:
        """Return the exact mean."""
        return float(self.atoms[1] @ self._gains(metric))

    def sampled(self, metric: Metric, size: int | Stopping) -> Spread:
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

    def _spread(self, metric: Metric, size: int | Stopping) -> Spread:
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
        return Spread(
            float(share @ variance), float(share @ (mean - centre) ** 2), centre - self.value(metric)
        )

    def _simulated(self, metric: Metric, size: int | Stopping) -> Spread:
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
        return Spread(items, self.exact(metric).users, float(np.mean(runs)) - exact)


def _simulate(ranks: Ranks, size: int | Stopping, repeat: int) -> SampledRanks:
    if isinstance(size, Stopping):
        return simulate_adaptive(ranks, size, repeat=repeat)
    return simulate_sample(ranks, size, repeat=repeat)


def check_signed(distribution: RankDistribution) -> None:
    """Raise unless weights are chances."""
    if distribution.weights.min() < 0:
        raise InvalidData(
            f"a plan needs weights >= 0, those of {distribution.method!r} are signed. Take those of 'mle'."
        )
