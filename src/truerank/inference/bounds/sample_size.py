"""How many negatives would narrow identification bounds to a wanted half-width.

The linear program of the bounds is solved with the frequencies that a fitted rank distribution predicts for a
larger sample, and the sample size is found by doubling and bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import check_above
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.ranks import Design, SampledRanks, TiePolicy
from truerank.core.types import FloatArray
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.estimation.law import make_law
from truerank.estimation.tally import WIDTH, Contexts, Tally
from truerank.inference.bounds.identify import (
    IdentificationBound,
    Resolution,
    identification_bounds,
    needed_size,
    unbinned_tally,
)
from truerank.inference.bounds.problem import BoundProblem, Pools, Shape
from truerank.inference.bounds.region import Method, make_region
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics

#: Cut-offs among which the smallest resolved one is searched for.
CUTOFFS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
_AT_ONCE = 4  # cut-offs bounded together
_STEP = 0.4  # spacing of the grid; a plan needs no finer one
_MOST = 20_000  # negatives that a plan considers
_NEARLY = 0.8  # fraction of the candidates from which on ranking all of them is advised


def resolution(
    ranks: SampledRanks | Tally,
    metrics: str | Metric | Sequence[str | Metric] = "recall@10",
    *,
    half_width: float = 0.05,
    level: float = 0.95,
    shape: Shape | None = None,
    pools: Pools = "free",
    ties: TiePolicy = "expected",
    advise: bool = True,
    progress: Progress = SILENT,
) -> tuple[Resolution, ...]:
    """Return, per metric, whether its bounds are as narrow as wanted, and how many negatives would do.

    The number of negatives is the one needed if sampled ranks come out as a fitted distribution (``mle``)
    predicts; other distributions that fit as well may need more or fewer.

    Parameters
    ----------
    ranks : sampled ranks, or a tally of them that was made with ``width=0``
    metrics : spec strings or objects
    half_width : wanted
    level, shape, pools, ties, progress : as in ``identification_bounds``
    advise : whether to search for the number of negatives and the smallest cut-off that resolve a metric,
        which takes about twenty times as long as the bounds

    Examples
    --------
    >>> ranks = SampledRanks.single(np.arange(400) ** 2 // 8400, n_negatives=19, n_pool=100)
    >>> print(*resolution(ranks, "recall@10", half_width=0.15))
    K = 10 is below what this sample can resolve: any recall@10 from 0.13 to 0.56 fits; about 51 negatives ...
    """
    check_above("half_width", half_width, 0)
    parsed_metrics = make_metrics(metrics)
    counted = unbinned_tally(ranks, ties, parsed_metrics)

    def bound(metrics: Sequence[Metric]) -> tuple[IdentificationBound, ...]:
        return identification_bounds(
            counted, metrics, level=level, shape=shape, pools=pools, progress=progress
        )

    bounds = bound(parsed_metrics)
    pairs = list(zip(parsed_metrics, bounds, strict=True))
    wide = [metric for metric, found in pairs if found.half_width > half_width]
    if not wide or not advise:
        return tuple(
            Resolution(found, half_width, metric.cutoff, has_advice=advise) for metric, found in pairs
        )
    same = [metric for metric in wide if counted.contexts.weight_of(metric) is None]  # weights depend on K
    smallest = smallest_resolved_cutoff(same, int(counted.contexts.n_pool.max()), bound, half_width)
    method: Method = "binomial" if bounds[0].method == "binomial" else "chernoff"
    plan = SampleDesign.of(counted, level=level, method=method, shape=shape, pools=pools)
    needed: dict[Metric, int | None] = {}
    with tracked(progress, "how many negatives would do", len(wide)) as task:
        for metric in wide:
            needed[metric] = plan.size(metric, half_width)
            task.advance()
    return tuple(
        Resolution(found, half_width, metric.cutoff, smallest.get(metric), needed.get(metric))
        for metric, found in pairs
    )


def smallest_resolved_cutoff(
    metrics: Sequence[Metric],
    largest: int,
    bound: Callable[[Sequence[Metric]], Sequence[IdentificationBound]],
    wanted: float,
) -> dict[Metric, int | None]:
    """Return, per unresolved metric, the smallest of ``CUTOFFS`` above its own at which it is resolved.

    Widths need not decrease with K, so the cut-offs are tried in ascending order, a few at a time.

    Parameters
    ----------
    metrics : with bounds that are too wide
    largest : the largest pool, which cut-offs do not exceed
    bound : computes the bounds of metrics
    wanted : half-width
    """
    smallest: dict[Metric, int | None] = dict.fromkeys(metrics)
    for start in range(0, len(CUTOFFS), _AT_ONCE):
        tried = [
            (metric, k)
            for metric in metrics
            for k in CUTOFFS[start : start + _AT_ONCE]
            if smallest[metric] is None and metric.cutoff is not None and metric.cutoff < k <= largest
        ]
        # metrics that differ only in their cut-offs meet at larger ones, which are bounded once
        asked = list(dict.fromkeys(replace(metric, cutoff=k) for metric, k in tried))
        bounds = dict(zip(asked, bound(asked), strict=True)) if asked else {}
        for metric, k in tried:
            found = bounds[replace(metric, cutoff=k)]
            if smallest[metric] is None and found.half_width <= wanted:
                smallest[metric] = k
    return smallest


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """A larger sample of negatives for the same users, with sampled ranks as a fitted distribution predicts.

    Parameters
    ----------
    contexts : situations of targets, all in a pool of the median size
    target_weights : (n_contexts,) weight of the targets, 1/(relevant items of their user), per user
    rank_weights : (N,) fitted distribution over the ranks of the largest pool
    start : negatives of the present sample
    n_users, replacement : of the sample
    level, method, shape, pools : of the bounds
    """

    contexts: Contexts
    target_weights: FloatArray
    rank_weights: FloatArray
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
        counted: Tally,
        *,
        level: float,
        method: Method,
        shape: Shape | None,
        pools: Pools,
    ) -> SampleDesign:
        """Fit a rank distribution to a tally; a decreasing one where that is assumed."""
        counted = counted.binned(WIDTH)
        weights = MaximumLikelihood().distribution(counted).weights
        if shape is not None:
            from scipy.optimize import isotonic_regression

            weights = isotonic_regression(weights, increasing=False).x
        target_weights = counted.context_weights / counted.contexts.n_relevant
        contexts = _typical(counted.contexts, target_weights)
        return cls(
            contexts=contexts,
            target_weights=target_weights / counted.n_users,
            rank_weights=weights,
            start=int(contexts.n_negatives.min()),
            n_users=counted.n_users,
            replacement=counted.design.replacement,
            level=level,
            method=method,
            shape=shape,
            pools=pools,
        )

    def size(self, metric: Metric, half_width: float) -> int | None:
        """Return about how many negatives give the half-width; None when it takes nearly all candidates."""
        most = min(int(_NEARLY * self.contexts.n_candidates.max()), _MOST)
        if most <= self.start:
            return None
        return needed_size(lambda m: self.half_width(metric, m), half_width, start=self.start + 1, most=most)

    def half_width(self, metric: Metric, n_negatives: int) -> float:
        """Return the half-width of the bounds that a sample of m negatives is predicted to give."""
        contexts = replace(self.contexts, n_negatives=np.full(len(self.contexts), n_negatives))
        problem = BoundProblem.of(contexts, Design(replacement=self.replacement), None, self.shape)
        is_in = problem.events.indicators(np.full(n_negatives + 1, n_negatives), np.arange(n_negatives + 1))
        size = int(contexts.n_candidates[0])
        law = make_law(size, n_negatives, replacement=self.replacement)
        expected = law.add(self._masses(size)[None])[0] @ is_in
        region = make_region(expected, self.n_users, level=self.level, method=self.method)
        masses: FloatArray = np.bincount(problem.group, self.target_weights) * 1.0
        low, high = problem.limits([metric], region, masses, step=_STEP, pools=self.pools)[0]
        return float((high - low) / 2)

    def _masses(self, n_candidates: int) -> FloatArray:
        """Return the distribution over J = 0..L, rescaled from the largest pool."""
        sums = np.concatenate([[0.0], np.cumsum(self.rank_weights)])
        fraction = np.arange(len(sums)) / (len(sums) - 1)
        masses: FloatArray = np.diff(
            np.interp(np.arange(n_candidates + 2) / (n_candidates + 1), fraction, sums)
        )
        return masses


def _typical(contexts: Contexts, target_weights: FloatArray) -> Contexts:
    """Return the contexts with their pools replaced by one of the median size."""
    order = np.argsort(contexts.n_candidates, kind="stable")
    sums = np.cumsum(target_weights[order])
    median = contexts.n_candidates[order[np.searchsorted(sums, sums[-1] / 2)]]
    size = np.full_like(contexts.n_candidates, median)
    return replace(contexts, n_candidates=size, n_pool=contexts.n_pool - contexts.n_candidates + size)
