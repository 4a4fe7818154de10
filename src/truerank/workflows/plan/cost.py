"""What ranking costs on this machine, measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData, check_above
from truerank.core.random import pair_keys
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import IntArray
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks

_SIZES = (49, 499)  # negatives of the two samples that a line is laid through
_PATIENCE = 4  # a run that takes so many times the seconds is not repeated


@dataclass(frozen=True)
class RankingSeconds:
    """Seconds of exact and of sampled ranking, per user and per score.

    Parameters
    ----------
    exact_user : seconds per user when all items are ranked
    sampled_user : seconds per user of a sample, beside those of its scores
    sampled_score : seconds per sampled score
    n_users, n_items : of the data; users without targets do not count

    Examples
    --------
    >>> costs = RankingSeconds(5e-5, sampled_user=1e-5, sampled_score=2e-7, n_users=6000, n_items=3706)
    >>> costs.crossover
    200
    >>> print(costs.words(999))
    exact is cheaper: 0.30 s against 1.26 s for 999 negatives; sampling is quicker below about 200 negatives.
    """

    exact_user: float
    sampled_user: float
    sampled_score: float
    n_users: int
    n_items: int

    @property
    def exact(self) -> float:
        """Seconds of exact evaluation."""
        return self.n_users * self.exact_user

    def sampled(self, n_negatives: int) -> float:
        """Return the seconds of ranking all users against so many negatives."""
        return self.n_users * (self.sampled_user + n_negatives * self.sampled_score)

    @property
    def crossover(self) -> int:
        """Negatives from which on exact evaluation is quicker; 0 when it always is."""
        if self.sampled_score <= 0:
            return self.n_items if self.sampled_user < self.exact_user else 0
        most = round((self.exact_user - self.sampled_user) / self.sampled_score)
        return min(max(most, 0), self.n_items)

    def words(self, n_negatives: int) -> str:
        """Say which is cheaper."""
        exact, sampled = self.exact, self.sampled(n_negatives)
        which = "exact is cheaper" if exact <= sampled else "sampling is cheaper"
        first, second = (exact, sampled) if exact <= sampled else (sampled, exact)
        other = f"for {n_negatives:,} negatives" if exact <= sampled else "for all items"
        if self.crossover == 0:
            limit = "exact is quicker than any sample"
        elif self.crossover >= self.n_items:
            limit = "any sample is quicker than exact"
        else:
            limit = f"sampling is quicker below about {self.crossover:,} negatives"
        return f"{which}: {_seconds(first)} against {_seconds(second)} {other}; {limit}."


def measure_costs(
    scorer: Scorer,
    split: Split,
    *,
    seen: SeenPolicy = "remove",
    seconds: float = 0.5,
    n_threads: int | None = None,
) -> RankingSeconds:
    """Return what exact and sampled ranking cost with this model on this machine.

    Both run on a few users, then on as many as fit into ``seconds``, through the same kernels as evaluation;
    the better of two runs counts, because the first may have to load them.

    Parameters
    ----------
    scorer, split, seen, n_threads : as in ``exact_ranks``
    seconds : of each of the three jobs
    """
    check_above("seconds", seconds, 0)
    users = np.flatnonzero(split.test.user_counts())
    if len(users) == 0:
        raise InvalidData("costs need at least one user with a target, got none.")
    users = users[np.argsort(pair_keys(0, "plan/cost", users, np.zeros_like(users)))]
    known = np.zeros(split.train.n_users, np.int64)
    for part in (split.train, split.test, *(() if split.valid is None else (split.valid,))):
        known += part.user_counts()
    most = int(split.train.n_items - known.max())
    first, second = (min(size, max(most * (place + 1) // 2, 1)) for place, size in enumerate(_SIZES))

    def exact(chosen: Split) -> None:
        exact_ranks(scorer, chosen, seen=seen, n_threads=n_threads)

    def sampled(m: int) -> Callable[[Split], None]:
        spec = f"uniform(m={m})"

        def job(chosen: Split) -> None:
            sampled_ranks(scorer, chosen, spec, seen=seen, n_threads=n_threads)

        return job

    whole = _per_user(exact, split, users, seconds)
    short, long = (_per_user(sampled(m), split, users, seconds) for m in (first, second))
    score = max((long - short) / max(second - first, 1), 0.0)
    return RankingSeconds(whole, max(short - first * score, 0.0), score, len(users), split.train.n_items)


def _per_user(job: Callable[[Split], None], split: Split, users: IntArray, seconds: float) -> float:
    """Return seconds per user of a job on as many users as fit; the first of two runs may load kernels."""
    n = min(4, len(users))
    while True:
        chosen, taken = _part(split, users[:n]), np.inf
        for _ in range(2):
            started = time.perf_counter()
            job(chosen)
            taken = min(taken, max(time.perf_counter() - started, 1e-9))
            if taken > _PATIENCE * seconds:
                break
        if taken >= seconds / 2 or n == len(users):
            return taken / n
        n = min(len(users), max(2 * n, int(n * 0.7 * seconds / taken)))


def _part(split: Split, users: IntArray) -> Split:
    """Return the split with the test events of some users."""
    is_chosen = np.zeros(split.train.n_users, np.bool_)
    is_chosen[users] = True
    return Split(split.train, split.test.where(is_chosen[split.test.user]), split.valid, split.method)


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"
