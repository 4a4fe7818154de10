"""How many negatives would narrow a bound: the same program on frequencies that a fit expects."""

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

#: Cut-offs among which the smallest resolved one is sought.
CUTOFFS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
_AT_ONCE = 4  # cut-offs bounded before looking whether one of them is resolved
_STEP = 0.4  # for planning wide steps are close enough
_MOST = 20_000  # negatives a plan goes up to
_NEARLY = 0.8  # of all candidates: who draws so many can as well rank them all


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
    """Return, per metric, whether this sample tells it as closely as wanted, and what would if it does not.

    The number of negatives is what the bound would need if sampled ranks came out as a fitted distribution
    (``mle``) expects; another distribution that fits as well may need more or fewer.

    Parameters
    ----------
    ranks : sampled ranks, or a tally of them that was made with ``width=0``
    metrics : spec strings or objects
    half_width : wanted
    level, shape, pools, ties, progress : as in ``identification_bounds``
    advise : whether to look for what would resolve metrics, which takes about twenty times as long as their
        bounds

    Examples
    --------
    >>> ranks = SampledRanks.single([0, 0, 1, 2, 4, 6, 9, 14] * 50, n_negatives=19, n_pool=100)
    >>> print(*resolution(ranks, "recall@10", half_width=0.15))
    K = 10 is below what this sample can resolve: any recall@10 from 0.14 to 0.60 fits; about 53 negatives ...
    """
    check_above("half_width", half_width, 0)
    chosen, counted = make_metrics(metrics), unbinned_tally(ranks, ties)

    def widths(asked: Sequence[Metric]) -> tuple[IdentificationBound, ...]:
        return identification_bounds(counted, asked, level=level, shape=shape, pools=pools, progress=progress)

    bounds = widths(chosen)
    wide = [metric for metric, one in zip(chosen, bounds, strict=True) if one.half_width > half_width]
    if not wide or not advise:
        pairs = zip(chosen, bounds, strict=True)
        return tuple(Resolution(one, half_width, metric.cutoff, is_sought=advise) for metric, one in pairs)
    first = smallest_resolved_cutoff(wide, int(counted.contexts.n_pool.max()), widths, half_width)
    method: Method = "binomial" if bounds[0].method == "binomial" else "chernoff"
    plan = SampleDesign.of(counted, level=level, method=method, shape=shape, pools=pools)
    needed: dict[Metric, int | None] = {}
    with tracked(progress, "how many negatives would do", len(wide)) as task:
        for metric in wide:
            needed[metric] = plan.size(metric, half_width)
            task.advance()
    return tuple(
        Resolution(one, half_width, metric.cutoff, first.get(metric), needed.get(metric))
        for metric, one in zip(chosen, bounds, strict=True)
    )


def smallest_resolved_cutoff(
    metrics: Sequence[Metric],
    largest: int,
    widths: Callable[[Sequence[Metric]], Sequence[IdentificationBound]],
    wanted: float,
) -> dict[Metric, int | None]:
    """Return, per metric that is not resolved, the smallest of ``CUTOFFS`` above its own that is.

    Widths need not fall with K, so the cut-offs are gone through in their order, a few at a time.

    Parameters
    ----------
    metrics : with bounds that are too wide
    largest : the largest pool; cut-offs stay within
    widths : bounds of metrics
    wanted : half-width
    """
    found: dict[Metric, int | None] = dict.fromkeys(metrics)
    for start in range(0, len(CUTOFFS), _AT_ONCE):
        asked = [
            (metric, k)
            for metric in metrics
            for k in CUTOFFS[start : start + _AT_ONCE]
            if found[metric] is None and metric.cutoff is not None and metric.cutoff < k <= largest
        ]
        bounds = widths([replace(metric, cutoff=k) for metric, k in asked]) if asked else ()
        for (metric, k), one in zip(asked, bounds, strict=True):
            if found[metric] is None and one.half_width <= wanted:
                found[metric] = k
    return found


@dataclass(frozen=True, eq=False)
class SampleDesign:
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
        counted: Tally,
        *,
        level: float,
        method: Method,
        shape: Shape | None,
        pools: Pools,
    ) -> SampleDesign:
        """Fit a distribution to a sample; a decreasing one where that is assumed."""
        counted = counted.binned(WIDTH)
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
        problem = BoundProblem.of(contexts, Design(replacement=self.replacement), None, self.shape)
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
