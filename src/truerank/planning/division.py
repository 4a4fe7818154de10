"""How to divide a budget of scores between users and items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.metric import Metric
from truerank.core.uncertainty import Target
from truerank.planning.people import People

_FEWEST = 5  # negatives
_MOST = 3000
_STEPS = 16


@dataclass(frozen=True)
class Division:
    """The best use of a budget for one metric.

    Parameters
    ----------
    metric, target, budget : what was asked
    n_users, n_negatives : users, and negatives of each, with the narrowest half-width when what the estimator
        is off by (if ranks are as assumed) is added to the noise
    noise, bias : its two parts
    quiet_negatives : negatives that make the noise alone smallest
    rows : half-width of the same number of scores spent on exact gains of fewer users, which have no bias;
        rows end at the cut-off. None when the budget is smaller than a row
    """

    metric: str
    target: str
    budget: int
    n_users: int
    n_negatives: int
    noise: float
    bias: float
    quiet_negatives: int
    rows: float | None

    @property
    def half_width(self) -> float:
        """Noise and bias together."""
        return self.noise + abs(self.bias)

    def __str__(self) -> str:
        exact = ""
        if self.rows is not None:
            exact = f"; exact gains of fewer users give +-{self.rows:.4f} without bias"
        return (
            f"{self.budget:,} scores for {self.metric} ({self.target}): {self.n_users:,} users with "
            f"{self.n_negatives:,} negatives give +-{self.half_width:.4f} ({self.noise:.4f} noise, "
            f"{self.bias:+.4f} bias){exact}."
        )


def divide(
    people: People, metric: Metric, budget: int, *, level: float = 0.95, target: Target = "test-users"
) -> Division:
    """Return the best division among sizes of samples on a grid.

    Parameters
    ----------
    people : whose ranks, and which estimator
    metric, budget : scores, those of targets included
    level, target : of the interval
    """
    n_all = people.n_test_users
    own = people.n_targets  # scores besides those of negatives
    most = max(min(people.n_candidates, _MOST, int(budget - own)), 1)
    steps = np.geomspace(min(_FEWEST, most), most, _STEPS)
    everybody = np.clip(int(budget / n_all - own), 1, most)  # negatives when the budget is for all users
    grid = np.unique(np.append(steps, everybody).round().astype(np.int64))
    found = []
    for m in grid.tolist():
        n = max(min(int(budget / (m + own)), n_all), 1)
        spread = people.sampled(metric, m)
        found.append((spread.noise(n, n_test_users=n_all, target=target, level=level), spread.bias, n, m))
    noise, bias, n, m = min(found, key=lambda one: one[0] + abs(one[1]))
    n_rows = min(int(budget / people.row_scores(metric)), n_all)
    rows = None
    if n_rows >= 1:
        rows = people.exact(metric).noise(n_rows, n_test_users=n_all, target=target, level=level)
    return Division(str(metric), target, budget, n, m, noise, bias, min(found)[3], rows)
