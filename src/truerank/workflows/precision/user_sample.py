"""Growing random sample of users with exact values, and a confidence sequence for the mean over all users.

Users are sampled without replacement in a random order. Screening scores the most popular items of *all*
remaining users first: users whose values that decides are known and need not be sampled. A forecast from the
users sampled so far says how deep to screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.random import pair_keys
from truerank.core.ranks import TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.inference.anytime import ConfidenceSequence, predictable_variance
from truerank.inference.estimate_interval.registry import Target
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.workflows.precision.partial_rows import PartialRows


@dataclass(frozen=True)
class Forecast:
    """Expected cost of reaching the wanted half-width.

    Parameters
    ----------
    depth : most popular items of every remaining row that are scored first (screening); 0 for none
    n_rows : rows scored until they are decided, after that
    n_scores : scores of both
    """

    depth: int
    n_rows: int
    n_scores: float


def needed_information(half_width: float, level: float) -> float:
    """Return the sum over users of squared weight / variance that the bets of ``ConfidenceSequence`` need."""
    return float(2 * np.log(2 / (1 - level)) / half_width**2)


def needed_rows(n_open: int, variance: float, missing: float, n_users: int | None) -> int:
    r"""Return about how many of the R = ``n_open`` undecided users must be sampled.

    .. math:: \sum_{j = R - k + 1}^{R} \frac{(N/j)^2}{\sigma^2} \approx
              \frac{N^2}{\sigma^2} \Big(\frac{1}{R - k} - \frac{1}{R}\Big) = \text{missing}

    Examples
    --------
    >>> needed_rows(1000, 0.25, 4000.0, 1000)  # the finite-population correction halves the 1,000
    500
    >>> needed_rows(1000, 0.25, 4000.0, None)
    1000
    """
    if missing <= 0 or n_open == 0:
        return 0
    if n_users is None:
        return min(int(np.ceil(missing * variance)), n_open)
    return min(int(np.ceil(n_open - 1 / (1 / n_open + missing * variance / n_users**2))), n_open)


def forecast(
    depth: IntArray,
    value: FloatArray,
    missing: FloatArray,
    *,
    n_users: int | None,
    n_left: int,
    depths: Sequence[int],
) -> list[Forecast]:
    """Return the expected cost for each depth of screening.

    Users sampled so far show at which depth rows are decided, and how the values of undecided ones vary.

    Parameters
    ----------
    depth : (n,) items after which the rows of users sampled so far were decided
    value : (n, n_metrics) their values
    missing : (n_metrics,) information still needed
    n_users, n_left : all users (None: a population, where screening is of no use) and those not sampled yet
    depths : to be compared, beside 0
    """
    forecasts = []
    for size in (0, *depths) if n_users is not None else (0,):
        is_open = depth > size
        n_open = round(n_left * float(is_open.mean()))
        per_row = float((depth - size)[is_open].mean()) if is_open.any() else 0.0
        n_rows = max(
            needed_rows(n_open, _variance(value[is_open, column]), float(need), n_users)
            for column, need in enumerate(missing)
        )
        n_scores = n_left * float(np.minimum(depth, size).mean()) + n_rows * per_row
        forecasts.append(Forecast(size, n_rows, n_scores))
    return forecasts


def _variance(value: FloatArray) -> float:
    """Return the predicted variance of the next user's value."""
    return float(predictable_variance(np.zeros(1), value)[0])


class UserSample:
    """Growing random sample of users, with estimates and intervals of the mean over all of them.

    The order of users is a function of (seed, user), so that a larger sample begins with the smaller one, and
    all models are evaluated on the same users.

    Parameters
    ----------
    rows : partially scored rows of all users
    metrics : with cut-offs up to that of the rows
    precision : wanted half-width
    level : of each interval
    target : whose mean is estimated: that of the test users or of the population
    ties, seed : as in ``evaluate``

    Attributes
    ----------
    queue : rows of users that are neither sampled nor decided by screening, in random order
    sampled : rows of sampled users, in their order
    depth : items per row that screening scored; 0 before
    known : (n_metrics,) sum of the values of all users that are known
    value, before, left, variance, stake : per sampled user and metric: the value, the known sum and the
        length of the queue before it, the predicted variance, and the bet
    aim : (n_metrics,) half-width that bets are chosen for
    """

    def __init__(
        self,
        rows: PartialRows,
        metrics: Sequence[Metric],
        *,
        precision: float,
        level: float,
        target: Target = "test-users",
        ties: TiePolicy = "expected",
        seed: int = 0,
    ) -> None:
        self.rows, self.metrics, self.precision, self.level = rows, metrics, precision, level
        self.target, self.ties, self.seed = target, ties, seed
        users = rows.rows.queries.users
        keys = pair_keys(seed, "plan/users", users, np.zeros_like(users))
        self.queue: IntArray = np.argsort(keys, kind="stable")
        self.sampled: IntArray = np.zeros(0, np.int64)
        self.depth = 0
        self.known = np.zeros(len(metrics))
        self.value, self.before, self.variance, self.stake = np.zeros((4, 0, len(metrics)))
        self.aim: FloatArray = np.full(len(metrics), precision)
        self.left: IntArray = np.zeros(0, np.int64)

    @property
    def n_users(self) -> int | None:
        """Number of users whose mean is estimated; None for a population."""
        return len(self.rows) if self.target == "test-users" else None

    @property
    def is_complete(self) -> bool:
        """Whether the value of every test user is known."""
        return len(self.queue) == 0

    def affordable(self, wanted: int, budget: int | None) -> int:
        """Return how many of the next users the budget allows even if every row must be scored to its end."""
        wanted = min(wanted, len(self.queue))
        if budget is None:
            return wanted
        most = np.cumsum(self.rows.most_scores(self.queue[:wanted]))
        return int(np.searchsorted(most, budget - self.rows.n_scores, side="right"))

    def add_users(self, n: int) -> None:
        """Sample the next n users and score their rows until they are decided."""
        row = self.queue[:n]
        self.rows.advance(row)
        value = self._values(row)
        sums = np.cumsum(value, axis=0)
        seen = self.value[self._is_open()]
        variance = np.stack(
            [predictable_variance(value[:, c], seen[:, c]) for c in range(len(self.metrics))], axis=1
        )
        self.before = np.concatenate([self.before, self.known + sums - value])
        self.left = np.concatenate([self.left, len(self.queue) - np.arange(len(row))])
        self.value = np.concatenate([self.value, value])
        self.variance = np.concatenate([self.variance, variance])
        self.stake = np.concatenate([self.stake, self.aim / variance])
        self.sampled = np.concatenate([self.sampled, row])
        self.known = self.known + sums[-1]
        self.queue = self.queue[n:]

    def screen(self, depth: int) -> None:
        """Score the ``depth`` most popular items of all remaining users; decided users leave the queue.

        The others are still in random order, because the order does not depend on the scores.
        """
        self.rows.advance(self.queue, depth)
        is_open = self.rows.is_open[self.queue]
        decided = self.queue[~is_open]
        if len(decided):
            self.known = self.known + self._values(decided).sum(axis=0)
        self.queue, self.depth = self.queue[is_open], depth

    def forecasts(self) -> list[Forecast]:
        """Return the expected cost from here for each depth of screening."""
        missing = needed_information(self.precision, self.level) - self._gained()
        return forecast(
            self.rows.depth[self.sampled],
            self.value,
            missing,
            n_users=self.n_users,
            n_left=len(self.queue),
            depths=self.rows.depths if self.rows.cutoff is not None else (),
        )

    def aim_at(self, n_rows: int) -> None:
        """Choose the next bets for the half-width that ``n_rows`` more rows can reach, if wider than wanted.

        Bets may change at any time, as long as they do not depend on the users they are placed on.
        """
        is_open = self._is_open()
        for column in range(len(self.metrics)):
            variance = _variance(self.value[is_open, column])
            if self.n_users is None:
                more = n_rows / variance
            else:
                n_left = max(len(self.queue) - n_rows, 1)
                more = self.n_users**2 / variance * (1 / n_left - 1 / max(len(self.queue), 1))
            gained = float(self._gained()[column]) + more
            reachable = np.sqrt(needed_information(1.0, self.level) / max(gained, 1e-9))
            self.aim[column] = max(self.precision, min(reachable, 0.5))

    def limits(self) -> FloatArray:
        """Return the interval of each metric, (n_metrics, 2)."""
        limits = [
            ConfidenceSequence(
                self.value[:, c],
                self.before[:, c],
                self.left,
                self.stake[:, c],
                self.n_users,
                float(self.known[c]),
                len(self.queue),
            ).limits(level=self.level)
            for c in range(len(self.metrics))
        ]
        return np.array(limits)

    def means(self) -> FloatArray:
        """Return the estimate of each metric; exact for the test users when all are known."""
        is_open = self._is_open()
        if self.n_users is None:
            mean: FloatArray = self.value.mean(axis=0)
        elif self.is_complete:
            mean = self.known / self.n_users
        elif not is_open.any():
            mean = self.limits().mean(axis=1)
        else:
            sample = self.value[is_open]
            n_open = len(self.queue) + len(sample)
            mean = (self.known - sample.sum(axis=0) + n_open * sample.mean(axis=0)) / self.n_users
        return mean

    def _gained(self) -> FloatArray:
        """Return the information of the users sampled so far, one number per metric."""
        weight = 1.0 if self.n_users is None else (self.n_users / self.left)[:, None]
        gained: FloatArray = (weight**2 / self.variance).sum(axis=0)
        return gained

    def _is_open(self) -> np.ndarray:
        """Which users sampled so far screening would have left undecided."""
        return (
            self.rows.depth[self.sampled] > self.depth if self.depth else np.ones(len(self.sampled), np.bool_)
        )

    def _values(self, row: IntArray) -> FloatArray:
        """Return values of decided rows, in the order of the rows."""
        order = np.argsort(row, kind="stable")
        per_user = np.empty((len(row), len(self.metrics)))
        per_user[order] = values(self.metrics, self.rows.ranks(row), ties=self.ties, seed=self.seed)
        return per_user
