"""Whether the confidence region behind identification bounds contains the true rank distribution.

Bounds are the extremes over all rank distributions whose mean probabilities lie in the region. Where it
contains those of the true ranks, the bounds contain the true value, without solving a linear program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.types import FloatArray
from truerank.estimation.adaptive_law import stopping_of
from truerank.estimation.tally import tally
from truerank.inference.bounds.problem import BoundProblem
from truerank.inference.bounds.region import SampledRankEvents, observed_region


@dataclass(frozen=True, eq=False)
class TrueChances:
    """Mean probabilities of the events that a region is about.

    Parameters
    ----------
    events : what is counted
    probabilities : (n_events,) mean over users, given their true ranks
    ties : how tied items count
    """

    events: SampledRankEvents
    probabilities: FloatArray
    ties: TiePolicy

    @classmethod
    def of(cls, ranks: Ranks, sample: SampledRanks, ties: TiePolicy) -> TrueChances:
        """Return the probabilities in samples of the same design as one of them; one target per user."""
        assert len(ranks) == ranks.n_users and ties in ("best", "expected")
        counted = tally(sample, ties=ties, width=0.0)
        problem = BoundProblem.of(counted.contexts, counted.design, stopping_of(counted), None)
        n_candidates = ranks.n_pool - 1
        last = ranks.n_above + (ranks.n_tied if ties == "expected" else 0)
        total = np.zeros(len(problem.events))
        for size in np.unique(n_candidates).tolist():
            rows = np.flatnonzero(n_candidates == size)
            law = problem._law(size, int(counted.contexts.n_negatives[0]))
            begin, end = ranks.n_above[rows], last[rows]
            needed = np.unique(np.concatenate([np.arange(a, b + 1) for a, b in zip(begin, end, strict=True)]))
            sums = np.cumsum(np.pad(problem._probabilities_of(law, needed), ((1, 0), (0, 0))), axis=0)
            places = np.searchsorted(needed, np.stack([begin, end + 1]))
            total += ((sums[places[1]] - sums[places[0]]) / (end + 1 - begin)[:, None]).sum(axis=0)
        return cls(problem.events, total / len(ranks), ties)

    def lie_within(self, sample: SampledRanks, level: float) -> bool:
        """Whether the region of a sample holds them."""
        counted = tally(sample, ties=self.ties, width=0.0)
        is_used = np.ones(len(counted.contexts), dtype=np.bool_)
        region, _ = observed_region(counted, is_used, self.events, level=level)
        return bool(((region.low <= self.probabilities) & (self.probabilities <= region.high)).all())
