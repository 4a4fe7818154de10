"""Users whose ranks are assumed, as a plan sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from truerank.core.metric import Metric
from truerank.core.stopping import Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.planning.spread import Spread


class People(ABC):
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
    def exact(self, metric: Metric) -> Spread:
        """Return the spread of exact values."""

    @abstractmethod
    def sampled(self, metric: Metric, size: int | Stopping) -> Spread:
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
