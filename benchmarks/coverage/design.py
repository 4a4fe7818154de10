"""How ranks are sampled in the experiment."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.coverage.population import take_users
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.ranking.simulate import simulate_adaptive, simulate_sample


@dataclass(frozen=True)
class Drawing:
    """One way to sample; ``draw`` makes repetition ``repeat`` of it.

    Parameters
    ----------
    n_negatives : per target; None for adaptive samples
    share : of the test users
    sampler : of adaptive samples
    ties : bounds of adaptive samples need ``best``
    """

    n_negatives: int | None = None
    share: float = 1.0
    sampler: str = ""
    ties: TiePolicy = "expected"

    def draw(self, ranks: Ranks, repeat: int) -> SampledRanks:
        """Return sampled ranks of this design."""
        n_users, taken = ranks.n_users, ranks
        if self.share < 1:
            order = stream(repeat, "coverage/users").permutation(n_users)
            taken = take_users(ranks, np.sort(order[: round(self.share * n_users)]))
        if self.n_negatives is None:
            found = simulate_adaptive(taken, self.sampler, seed=1, repeat=repeat)
        else:
            found = simulate_sample(taken, self.n_negatives, seed=1, repeat=repeat)
        if self.share < 1:
            found = replace(found, design=replace(found.design, n_test_users=n_users))
        return found


DESIGNS = {
    "n=100": Drawing(99),
    "n=100, a quarter of the users": Drawing(99, share=0.25),
    "n=500": Drawing(499),
    "adaptive 100-1600": Drawing(sampler="adaptive(start=100, max=1600)", ties="best"),
}
