"""How many negatives would narrow a bound: the same program on frequencies that a fit expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.bounds.interval import identified
from truerank.bounds.problem import Pools, Problem, Shape
from truerank.core.check import check_above
from truerank.core.metric import Metric
from truerank.core.ranks import Design, SampledRanks, TiePolicy
from truerank.core.tally import Contexts, tally
from truerank.core.types import FloatArray
from truerank.estimators.law import make_law
from truerank.estimators.mle import MaximumLikelihood
from truerank.inference.identification import Resolution, needed_size
from truerank.inference.region import Method, make_region
from truerank.metrics import make_metrics

#: Cut-offs among which the smallest resolved one is sought.
CUTOFFS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
_STEP = 0.4  # for planning wide steps are close enough
_MOST = 20_000  # negatives a plan goes up to
_NEARLY = 0.8  # of all candidates: who draws so many can as well rank them all


def resolution(
    ranks: SampledRanks,
    metrics: str | Metric | Sequence[str | Metric] = "recall@10",
    *,
    half_width: float = 0.05,
    level: float = 0.95,
    shape: Shape | None = None,
    pools: Pools = "free",
    ties: TiePolicy = "expected",
) -> tuple[Resolution, ...]:
    """Return, per metric, whether this sample tells it as closely as wanted, and what would if it does not.

    The number of negatives is what the bound would need if sampled ranks came out as a fitted distribution
    (``mle``) expects; another distribution that fits as well may need more or fewer.

    Parameters
    ----------
    ranks : sampled ranks
    metrics : spec strings or objects
    half_width : wanted
    level, shape, pools, ties : as in ``identified``

    Examples
    --------
    >>> ranks = SampledRanks.single([0, 0, 1, 2, 4, 6, 9, 14] * 50, n_negatives=19, n_pool=100)
    >>> print(*resolution(ranks, "recall@10", half_width=0.15))
    K = 10 is below what this sample can resolve: any recall@10 from 0.14 to 0.60 fits; about 53 negatives ...
    """
    check_above("half_width", half_width, 0)
    chosen = make_metrics(metrics)
    largest = int(ranks.n_pool.max(initial=0))
    wider = {
        metric: [replace(metric, cutoff=k) for k in CUTOFFS if metric.cutoff < k <= largest]
        if metric.cutoff is not None
        else []
        for metric in chosen
    }
    every = list(dict.fromkeys([*chosen, *(other for own in wider.values() for other in own)]))
    found = identified(ranks, every, level=level, shape=shape, pools=pools, ties=ties)
    bounds = dict(zip(every, found, strict=True))
    if all(bounds[metric].half_width <= half_width for metric in chosen):
        return tuple(Resolution(bounds[metric], half_width, metric.cutoff) for metric in chosen)
    method: Method = "binomial" if found[0].method == "binomial" else "chernoff"
    plan = Plan.of(ranks, ties, level=level, method=method, shape=shape, pools=pools)
    result = []
    for metric in chosen:
        first = size = None
        if bounds[metric].half_width > half_width:
            narrow = (other.cutoff for other in wider[metric] if bounds[other].half_width <= half_width)
            first = next(narrow, None)
            size = plan.size(metric, half_width)
        result.append(Resolution(bounds[metric], half_width, metric.cutoff, first, size))
    return tuple(result)


@dataclass(frozen=True, eq=False)
class Plan:
    """A sample that might be drawn from the users of this one.

    Parameters
    ----------
    contexts : situations of targets, all in a pool of the median size
    shares : (n_contexts,) targets / (targets of their user) / users
    weights : (N,) a plausible distribution over the ranks of the largest pool
    start : negatives drawn so far
    n_users, replacement : of the sample
    level, method, shape, pools : of the bound
    """

    contexts: Contexts
    shares: FloatArray
    weights: FloatArray
    start: int
    n_users: int
    replacement: bool
    level: float
    method: Method
    shape: Shape | None
    pools: Pools

    @classmethod
    def of(
        cls,
        ranks: SampledRanks,
        ties: TiePolicy,
        *,
        level: float,
        method: Method,
        shape: Shape | None,
        pools: Pools,
    ) -> Plan:
        """Fit a distribution to a sample; a decreasing one where that is assumed."""
        counted = tally(ranks, ties=ties)
        weights = MaximumLikelihood().distribution(counted).weights
        if shape is not None:
            from scipy.optimize import isotonic_regression

            weights = isotonic_regression(weights, increasing=False).x
        shares = np.add.reduceat(counted.cell_weights, counted.offsets[:-1]) / counted.contexts.n_relevant
        contexts = _typical(counted.contexts, shares)
        start = int(contexts.n_negatives.min())
        n_users, replacement = counted.n_users, counted.design.replacement
        return cls(
            contexts, shares / n_users, weights, start, n_users, replacement, level, method, shape, pools
        )

    def size(self, metric: Metric, half_width: float) -> int | None:
        """Return about how many negatives give the wanted half-width; None for nearly all there are."""
        most = min(int(_NEARLY * self.contexts.n_candidates.max()), _MOST)
        if most <= self.start:
            return None
        return needed_size(lambda m: self.half_width(metric, m), half_width, start=self.start + 1, most=most)

    def half_width(self, metric: Metric, n_negatives: int) -> float:
        """Return half the width of the bound that samples of m negatives are expected to give."""
        contexts = replace(self.contexts, n_negatives=np.full(len(self.contexts), n_negatives))
        problem = Problem.of(contexts, Design(replacement=self.replacement), None, self.shape)
        happen = problem.events.happen(np.full(n_negatives + 1, n_negatives), np.arange(n_negatives + 1))
        size = int(contexts.n_candidates[0])
        law = make_law(size, n_negatives, replacement=self.replacement)
        expected = law.add(self._masses(size)[None])[0] @ happen
        region = make_region(expected, self.n_users, level=self.level, method=self.method)
        of_group: FloatArray = np.bincount(problem.group, self.shares) * 1.0
        low, high = problem.ends([metric], region, of_group, step=_STEP, pools=self.pools)[0]
        return float((high - low) / 2)

    def _masses(self, n_candidates: int) -> FloatArray:
        """Return the distribution over J = 0..L, stretched from the largest pool."""
        sums = np.concatenate([[0.0], np.cumsum(self.weights)])
        places = np.arange(len(sums)) / (len(sums) - 1)
        masses: FloatArray = np.diff(
            np.interp(np.arange(n_candidates + 2) / (n_candidates + 1), places, sums)
        )
        return masses


def _typical(contexts: Contexts, shares: FloatArray) -> Contexts:
    """Return the contexts with their pools replaced by one of the median size."""
    order = np.argsort(contexts.n_candidates, kind="stable")
    sums = np.cumsum(shares[order])
    median = contexts.n_candidates[order[np.searchsorted(sums, sums[-1] / 2)]]
    size = np.full_like(contexts.n_candidates, median)
    return replace(contexts, n_candidates=size, n_pool=contexts.n_pool - contexts.n_candidates + size)
