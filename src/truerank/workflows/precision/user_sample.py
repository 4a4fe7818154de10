"""Users in random order, each with exact gains, until their mean is known closely enough.

How deep to look at all users before rows of some of them are scored to their end.
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
    """What reaching the wanted half-width is expected to take.

    Parameters
    ----------
    depth : items of every row that are looked at first; 0 for none
    n_rows : rows scored until they are decided, after that
    n_scores : scores of both
    """

    depth: int
    n_rows: int
    n_scores: float


def needed_information(half_width: float, level: float) -> float:
    """Return the sum over draws of squared weight / variance that bets need, see ``ConfidenceSequence``."""
    return float(2 * np.log(2 / (1 - level)) / half_width**2)


def needed_rows(n_open: int, variance: float, missing: float, n_users: int | None) -> int:
    r"""Return about how many of the open users must be drawn.

    .. math:: \sum_{j = R - k + 1}^{R} \frac{(N/j)^2}{\sigma^2} \approx
              \frac{N^2}{\sigma^2} \Big(\frac{1}{R - k} - \frac{1}{R}\Big) = \text{missing}

    Examples
    --------
    >>> needed_rows(1000, 0.25, 4000.0, 1000)  # as many again as are drawn: half of them
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
    """Return what each depth of a first look at all users left is expected to take.

    Users drawn so far show at which depth rows are decided, and how the values of those that are not vary.

    Parameters
    ----------
    depth : (n,) items after which the rows of users drawn so far were decided
    value : (n, n_metrics) their values
    missing : (n_metrics,) information still needed
    n_users, n_left : all users (None: a population, where only depth 0 has a meaning) and those not drawn
    depths : to be compared, beside 0
    """
    found = []
    for size in (0, *depths) if n_users is not None else (0,):
        is_open = depth > size
        n_open = round(n_left * float(is_open.mean()))
        rest = float((depth - size)[is_open].mean()) if is_open.any() else 0.0
        n_rows = max(
            needed_rows(n_open, _variance(value[is_open, column]), float(need), n_users)
            for column, need in enumerate(missing)
        )
        n_scores = n_left * float(np.minimum(depth, size).mean()) + n_rows * rest
        found.append(Forecast(size, n_rows, n_scores))
    return found


def _variance(value: FloatArray) -> float:
    """Return the guess of the next draw's variance."""
    return float(predictable_variance(np.zeros(1), value)[0])


class UserSample:
    """A random sample of users that grows, and what it says about the mean over all of them.

    The order of users is a function of (seed, user), so that a larger sample begins with the smaller one, and
    all models see the same users.

    Parameters
    ----------
    scan : where the rows of scores are
    metrics : with cut-offs up to that of the scan
    precision : the half-width that is wanted
    level : of each interval
    target : whose mean is sought
    ties, seed : as in ``evaluate``
    """

    def __init__(
        self,
        scan: PartialRows,
        metrics: Sequence[Metric],
        *,
        precision: float,
        level: float,
        target: Target = "test-users",
        ties: TiePolicy = "expected",
        seed: int = 0,
    ) -> None:
        self.scan, self.metrics, self.precision, self.level = scan, metrics, precision, level
        self.target, self.ties, self.seed = target, ties, seed
        users = scan.rows.queries.users
        keys = pair_keys(seed, "plan/users", users, np.zeros_like(users))
        self.queue: IntArray = np.argsort(keys, kind="stable")
        self.drawn: IntArray = np.zeros(0, np.int64)
        self.depth = 0
        self.known = np.zeros(len(metrics))
        self.value, self.before, self.variance, self.stake = np.zeros((4, 0, len(metrics)))
        self.aim: FloatArray = np.full(len(metrics), precision)
        self.left: IntArray = np.zeros(0, np.int64)

    @property
    def n_users(self) -> int | None:
        """The users whose mean is sought; None for a population."""
        return len(self.scan) if self.target == "test-users" else None

    @property
    def is_complete(self) -> bool:
        """Whether the value of every test user is known."""
        return len(self.queue) == 0

    def affordable(self, wanted: int, budget: int | None) -> int:
        """Return how many of the next users can be scored to their end, whatever comes."""
        wanted = min(wanted, len(self.queue))
        if budget is None:
            return wanted
        most = np.cumsum(self.scan.most_scores(self.queue[:wanted]))
        return int(np.searchsorted(most, budget - self.scan.n_scores, side="right"))

    def draw(self, n: int) -> None:
        """Add the next n users."""
        row = self.queue[:n]
        self.scan.advance(row)
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
        self.drawn = np.concatenate([self.drawn, row])
        self.known = self.known + sums[-1]
        self.queue = self.queue[n:]

    def screen(self, depth: int) -> None:
        """Look at all users left so deep; those whose gains this decides need not be drawn any more.

        The rest are still in random order, because the order has nothing to do with the scores.
        """
        self.scan.advance(self.queue, depth)
        is_open = self.scan.is_open[self.queue]
        decided = self.queue[~is_open]
        if len(decided):
            self.known = self.known + self._values(decided).sum(axis=0)
        self.queue, self.depth = self.queue[is_open], depth

    def forecasts(self) -> list[Forecast]:
        """Return what each depth of a first look is expected to cost from here."""
        missing = needed_information(self.precision, self.level) - self._gained()
        return forecast(
            self.scan.depth[self.drawn],
            self.value,
            missing,
            n_users=self.n_users,
            n_left=len(self.queue),
            depths=self.scan.depths if self.scan.cutoff is not None else (),
        )

    def aim_at(self, n_rows: int) -> None:
        """Bet from now on for the half-width that so many more rows can give, where it is wider than wanted.

        Bets may change at any time, as long as they do so before the draw.
        """
        is_open = self._is_open()
        for column in range(len(self.metrics)):
            variance = float(predictable_variance(np.zeros(1), self.value[is_open, column])[0])
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
        found = [
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
        return np.array(found)

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
        """Return the information of the draws so far, one number per metric."""
        weight = 1.0 if self.n_users is None else (self.n_users / self.left)[:, None]
        gained: FloatArray = (weight**2 / self.variance).sum(axis=0)
        return gained

    def _is_open(self) -> np.ndarray:
        """Which users drawn so far a first look would have left open."""
        return self.scan.depth[self.drawn] > self.depth if self.depth else np.ones(len(self.drawn), np.bool_)

    def _values(self, row: IntArray) -> FloatArray:
        """Return values of decided rows, in the order of the rows."""
        order = np.argsort(row, kind="stable")
        found = np.empty((len(row), len(self.metrics)))
        found[order] = values(self.metrics, self.scan.ranks(row), ties=self.ties, seed=self.seed)
        return found
