"""Growing random sample of users with exact values, and a confidence sequence for the mean over all users.

Users are sampled without replacement in a random order. Screening scores the most promising items of *all*
remaining users first: users whose values that decides are known and need not be sampled, and the others get
ceilings, the values they have if nothing else ranks above their targets. What is left to find out by sampling
is how far values lie below the ceilings, which is little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidParameter
from truerank.core.random import pair_keys
from truerank.core.ranks import TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.inference.anytime import LARGEST_BET, ConfidenceSequence, predictable_variance
from truerank.inference.estimate_interval.registry import Target
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.workflows.precision.partial_rows import PartialRows

_ROUNDING = 1e-9
_SEEN = 8  # sampled users from which the variance is predicted, rather than from how ceilings fell


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


def fewest_rows(n_open: int, half_width: float, level: float, n_users: int) -> int:
    """Return how many rows are needed even if no sampled user lies below its ceiling.

    The largest bet, on all of them lying there, must reach its limit against a mean that is two half-widths
    lower.

    Examples
    --------
    >>> fewest_rows(675, 0.01, 0.95, 6040)
    25
    """
    if n_open == 0:
        return 0
    drop = min(2 * half_width * n_users / n_open, 0.999)
    return min(int(np.ceil(np.log(2 / (1 - level)) / np.log1p(LARGEST_BET * drop / (1 - drop)))), n_open)


def predicted_variance(value: FloatArray) -> float:
    """Return the predicted variance of the next user's value."""
    return float(predictable_variance(np.zeros(1), value)[0])


def _falls_with_rank(metric: Metric, cutoff: int, n_pool: int) -> bool:
    """Whether a target never gains by a lower rank, so that items not scored yet can only take away."""
    try:
        for above in range(3):
            rank = np.arange(above + 1, cutoff + 2)
            gains = metric.gain(
                rank, np.full_like(rank, above), np.full_like(rank, 3), np.full_like(rank, n_pool)
            )
            if (np.diff(gains) > _ROUNDING).any():
                return False
    except CannotEstimate:
        return False
    return True


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
    ceiling : (len(queue), n_metrics) the largest value that each of these users can have
    known : (n_metrics,) sum of the values of all users that are known
    value, before, left, variance, stake : per sampled user and metric: what was bet on (the value, raised by
        the distance of its ceiling from 1), the sum before it that the bet is about, the length of the queue
        before it, the predicted variance, and the bet
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
        self.depth = self.n_before = 0  # sampled users before the last screening
        self.ceiling: FloatArray = np.ones((len(self.queue), len(metrics)))
        self.last_drop = np.ones(len(metrics))  # of the ceilings in the last screening, per user
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
        row, ceiling = self.queue[:n], self.ceiling[:n]
        self.rows.advance(row)
        value = self._values(row)
        if (value > ceiling + _ROUNDING).any():
            names = ", ".join(str(metric) for metric in self.metrics)
            raise InvalidParameter(
                f"a metric must not grow when further items rank above a target, got {names}. Evaluate it "
                "without a precision."
            )
        room = np.cumsum((self.ceiling - 1)[::-1], axis=0)[::-1][:n]  # of all users from here on
        sums = np.cumsum(value, axis=0)
        drawn = np.minimum(value + 1 - ceiling, 1.0)
        seen = self.value[self.n_before :]
        variance = np.stack(
            [predictable_variance(drawn[:, c], seen[:, c]) for c in range(len(self.metrics))], axis=1
        )
        self.before = np.concatenate([self.before, self.known + sums - value + room])
        self.left = np.concatenate([self.left, len(self.queue) - np.arange(len(row))])
        self.value = np.concatenate([self.value, drawn])
        self.variance = np.concatenate([self.variance, variance])
        self.stake = np.concatenate([self.stake, self.aim / variance])
        self.sampled = np.concatenate([self.sampled, row])
        self.known = self.known + sums[-1]
        self.queue, self.ceiling = self.queue[n:], self.ceiling[n:]

    def decide(self, n: int) -> None:
        """Score the next n users until they are decided, without betting on them."""
        row = self.queue[:n]
        self.rows.advance(row)
        self.known = self.known + self._values(row).sum(axis=0)
        self.queue, self.ceiling = self.queue[n:], self.ceiling[n:]

    def screen(self, depth: int) -> None:
        """Score the ``depth`` most promising items of all remaining users; decided users leave the queue.

        The others come in a random order of their own, drawn for this: the order before it decided who was
        looked at first, and scores of those may have had a say in how all were screened.
        """
        if not self.depth:
            users = self.rows.rows.queries.users[self.queue]
            keys = pair_keys(self.seed, "plan/screened", users, np.zeros_like(users))
            order = np.argsort(keys, kind="stable")
            self.queue, self.ceiling = self.queue[order], self.ceiling[order]
        self.rows.advance(self.queue, depth)
        is_open = self.rows.is_open[self.queue]
        decided = self.queue[~is_open]
        fallen = self.known + self.ceiling.sum(axis=0)
        if len(decided):
            self.known = self.known + self._values(decided).sum(axis=0)
        self.queue, self.depth, self.n_before = self.queue[is_open], depth, len(self.sampled)
        self.ceiling = self.ceilings(self.queue)
        fallen -= self.known + self.ceiling.sum(axis=0)
        self.last_drop = np.clip(fallen / max(len(self.queue), 1), 0.0, 1.0)

    def settle(self) -> None:
        """Take in what is known of users whose scoring was broken off: values, and ceilings of the others.

        Both are facts, whatever broke it off, so intervals stay valid; no bet is placed on them.
        """
        if self.n_users is None:
            return
        is_begun = self.rows.depth[self.queue] >= 0
        ceiling = self.ceilings(self.queue[is_begun])
        self.ceiling[is_begun] = np.minimum(self.ceiling[is_begun], ceiling)
        is_open = self.rows.is_open[self.queue]
        decided = self.queue[~is_open]
        if len(decided):
            self.known = self.known + self._values(decided).sum(axis=0)
        self.queue, self.ceiling = self.queue[is_open], self.ceiling[is_open]

    def missing_rows(self) -> int:
        """Return about how many further users must be sampled for the wanted half-width.

        Those sampled since the last screening show how values vary below their ceilings. Before there are
        any, the ceilings themselves do: they are taken to fall once more as they fell in the last screening.
        """
        missing = needed_information(self.precision, self.level) - self._gained()
        seen = self.value[self.n_before :]
        needed = 0
        for column, need in enumerate(missing):
            variance = predicted_variance(seen[:, column])
            if self.depth and len(seen) < _SEEN:
                drop = min(float(self.last_drop[column]), 0.5)
                variance = drop * (1 - drop)
            needed = max(needed, needed_rows(len(self.queue), variance, float(need), self.n_users))
        if self.depth and self.n_users is not None:
            fewest = fewest_rows(len(self.queue), self.precision, self.level, self.n_users)
            needed = max(needed, fewest - len(seen), 1)
        return needed

    def aim_at(self, n_rows: int) -> None:
        """Choose the next bets for the half-width that ``n_rows`` more rows can reach, if wider than wanted.

        Bets may change at any time, as long as they do not depend on the users they are placed on.
        """
        seen = self.value[self.n_before :]
        for column in range(len(self.metrics)):
            variance = predicted_variance(seen[:, column])
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
                float(self.ceiling[:, c].sum()),
            ).limits(level=self.level)
            for c in range(len(self.metrics))
        ]
        return np.array(limits)

    def means(self) -> FloatArray:
        """Return the estimate of each metric; exact for the test users when all are known."""
        seen = self.value[self.n_before :]
        if self.n_users is None:
            mean: FloatArray = self.value.mean(axis=0)
        elif self.is_complete:
            mean = self.known / self.n_users
        elif len(seen) == 0:
            mean = self.limits().mean(axis=1)
        else:
            drop = 1 - seen.mean(axis=0)
            mean = (self.known + self.ceiling.sum(axis=0) - len(self.queue) * drop) / self.n_users
        return mean

    def _gained(self) -> FloatArray:
        """Return the information of the users sampled so far, one number per metric."""
        weight = 1.0 if self.n_users is None else (self.n_users / self.left)[:, None]
        gained: FloatArray = (weight**2 / self.variance).sum(axis=0)
        return gained

    def ceilings(self, row: IntArray) -> FloatArray:
        """Return the values of rows if nothing that is not scored yet ranks above or with their targets."""
        ceilings = np.ones((len(row), len(self.metrics)))
        if len(row) == 0:
            return ceilings
        # A random order of ties is another one once more items are tied; none is better than the best.
        ties: TiePolicy = "best" if self.ties == "random" else self.ties
        found = self._values(row, ties)
        cutoff, n_pool = self.rows.cutoff or self.rows.rows.n_items, self.rows.rows.n_items
        falls = np.array([_falls_with_rank(metric, cutoff, n_pool) for metric in self.metrics])
        ceilings[:, falls] = np.minimum(found[:, falls], 1.0)
        return ceilings

    def _values(self, row: IntArray, ties: TiePolicy | None = None) -> FloatArray:
        """Return values of rows from what is scored of them, in the order of the rows."""
        order = np.argsort(row, kind="stable")
        per_user = np.empty((len(row), len(self.metrics)))
        ranks = self.rows.ranks(row)
        per_user[order] = values(self.metrics, ranks, ties=ties or self.ties, seed=self.seed)
        return per_user
