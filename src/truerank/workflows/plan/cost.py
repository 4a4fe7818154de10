"""Seconds of exact and of sampled ranking with one model, measured on this machine.

Both are timed on some users through the same kernels as evaluation. Sampled ranking is timed at two sample
sizes; a straight line through them gives seconds per user and per score.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import InvalidData, check_above
from truerank.core.random import pair_keys
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import IntArray
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks

_SIZES = (49, 499)  # negatives of the two timed samples
_LONGEST_RUN = 4  # a run that takes so many times the wanted seconds is not repeated


@dataclass(frozen=True)
class RankingSeconds:
    """Seconds of exact and of sampled ranking, per user and per score, on the machine they were measured on.

    Parameters
    ----------
    exact_user : seconds per user when all items are ranked
    sampled_user : seconds per user of a sample, without those of its scores
    sampled_score : seconds per sampled score
    n_users, n_items : of the data; users without targets do not count

    Examples
    --------
    >>> costs = RankingSeconds(5e-5, sampled_user=1e-5, sampled_score=2e-7, n_users=6000, n_items=3706)
    >>> costs.crossover
    200
    >>> print(costs.sentence(999))
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
        """Number of negatives from which on exact evaluation is quicker; 0 when it always is."""
        if self.sampled_score <= 0:
            return self.n_items if self.sampled_user < self.exact_user else 0
        negatives = round((self.exact_user - self.sampled_user) / self.sampled_score)
        return min(max(negatives, 0), self.n_items)

    def sentence(self, n_negatives: int) -> str:
        """Return a sentence on which is cheaper, exact evaluation or a sample of this size."""
        exact, sampled = self.exact, self.sampled(n_negatives)
        which = "exact is cheaper" if exact <= sampled else "sampling is cheaper"
        cheaper, dearer = (exact, sampled) if exact <= sampled else (sampled, exact)
        other = f"for {n_negatives:,} negatives" if exact <= sampled else "for all items"
        if self.crossover == 0:
            limit = "exact is quicker than any sample"
        elif self.crossover >= self.n_items:
            limit = "any sample is quicker than exact"
        else:
            limit = f"sampling is quicker below about {self.crossover:,} negatives"
        return f"{which}: {_seconds(cheaper)} against {_seconds(dearer)} {other}; {limit}."


def measure_costs(
    scorer: Scorer,
    split: Split,
    *,
    seen: SeenPolicy = "remove",
    seconds: float = 0.5,
    n_threads: int | None = None,
) -> RankingSeconds:
    """Return the seconds of exact and of sampled ranking with this model on this machine.

    Both run on a few users, then on as many as fit into ``seconds``, through the same kernels as evaluation;
    the faster of two runs counts, because the first may have to load compiled kernels.

    Parameters
    ----------
    scorer, split, seen, n_threads : as in ``exact_ranks``
    seconds : about how long each of the three measurements may take
    """
    check_above("seconds", seconds, 0)
    users = np.flatnonzero(split.test.user_counts())
    if len(users) == 0:
        raise InvalidData(
            "measuring costs needs at least one user with a target, got none. Give a split whose test part "
            "has events."
        )
    users = users[np.argsort(pair_keys(0, "plan/cost", users, np.zeros_like(users)))]
    n_known = np.zeros(split.train.n_users, np.int64)
    for part in (split.train, split.test, *(() if split.valid is None else (split.valid,))):
        n_known += part.user_counts()
    n_candidates = int(split.train.n_items - n_known.max())
    small, large = (min(_SIZES[0], max(n_candidates // 2, 1)), min(_SIZES[1], max(n_candidates, 1)))

    def exact(chosen: Split) -> None:
        exact_ranks(scorer, chosen, seen=seen, n_threads=n_threads)

    def sampled(m: int) -> Callable[[Split], None]:
        spec = f"uniform(m={m})"

        def job(chosen: Split) -> None:
            sampled_ranks(scorer, chosen, spec, seen=seen, n_threads=n_threads)

        return job

    exact_user = _per_user(exact, split, users, seconds)
    small_user, large_user = (_per_user(sampled(m), split, users, seconds) for m in (small, large))
    score = max((large_user - small_user) / max(large - small, 1), 0.0)
    return RankingSeconds(
        exact_user, max(small_user - small * score, 0.0), score, len(users), split.train.n_items
    )


def _per_user(job: Callable[[Split], None], split: Split, users: IntArray, seconds: float) -> float:
    """Return seconds per user of a job, on as many users as fit into the seconds."""
    n = min(4, len(users))
    while True:
        chosen, taken = _part(split, users[:n]), np.inf
        for _ in range(2):
            started = time.perf_counter()
            job(chosen)
            taken = min(taken, max(time.perf_counter() - started, 1e-9))
            if taken > _LONGEST_RUN * seconds:
                break
        if taken >= seconds / 2 or n == len(users):
            return taken / n
        n = min(len(users), max(2 * n, int(n * 0.7 * seconds / taken)))


def _part(split: Split, users: IntArray) -> Split:
    """Return the split with the test events of some users."""
    is_chosen = np.zeros(split.train.n_users, np.bool_)
    is_chosen[users] = True
    return replace(split, test=split.test.where(is_chosen[split.test.user]))


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"
