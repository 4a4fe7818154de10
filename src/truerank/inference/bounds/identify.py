"""Identification bounds: the smallest and largest value of a metric compatible with the sampled ranks.

Partial identification: sampled ranks do not determine the distribution of global ranks. The bounds are the
extremes of a metric over all rank distributions in a confidence region, each the optimum of a linear program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import (
    CannotEstimate,
    InvalidData,
    InvalidParameter,
    check_above,
    check_choice,
    check_level,
    suggests_arguments,
)
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.ranks import SampledRanks, TiePolicy, check_sampled
from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.adaptive_law import check_outcomes, stopping_of
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.tally import Tally, tally
from truerank.inference.bounds.problem import STEP, BoundProblem, Pools, Shape
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics


@dataclass(frozen=True)
class IdentificationBound:
    """Smallest and largest value of one metric that is compatible with the sampled ranks.

    Parameters
    ----------
    metric : spec string
    low, high : the bounds
    level : probability, at least, that the value lies between them
    method : how the confidence region was made; ``exact`` when all ranks are known

    Examples
    --------
    >>> print(IdentificationBound("recall@10", 0.0, 0.26, 0.95, "binomial"))
    recall@10 lies in [0.000, 0.260]
    """

    metric: str
    low: float
    high: float
    level: float
    method: str

    @property
    def half_width(self) -> float:
        """Half of the distance between the bounds."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{self.metric} lies in [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Resolution:
    """Whether the bounds of a metric are as narrow as wanted, and if not, how many negatives would do.

    Parameters
    ----------
    bound : the bounds from this sample
    half_width : wanted
    cutoff : the metric's; None for the whole list
    smallest_cutoff : the smallest cut-off that the sample does resolve; None when there is none or none was
        searched for
    n_negatives : about how many would resolve the metric; None when it is resolved or only ranking all items
        would do
    has_advice : whether the last two were searched for

    Examples
    --------
    >>> print(Resolution(IdentificationBound("recall@10", 0.0, 0.26, 0.95, "binomial"), 0.05, 10, None, 1300))
    K = 10 is below what this sample can resolve: any recall@10 from 0.00 to 0.26 fits; about 1,300 ...
    """

    bound: IdentificationBound
    half_width: float
    cutoff: int | None
    smallest_cutoff: int | None = None
    n_negatives: int | None = None
    has_advice: bool = True

    @property
    def is_resolved(self) -> bool:
        """Whether the bounds are as narrow as wanted."""
        return self.bound.half_width <= self.half_width

    def __str__(self) -> str:
        bound, digits = self.bound, max(2, math.ceil(-math.log10(self.half_width)))
        span = f"{bound.metric} from {bound.low:.{digits}f} to {bound.high:.{digits}f}"
        if self.is_resolved:
            return f"{span}: this sample resolves it to +-{self.half_width:g}."
        if self.cutoff is None:
            start = f"This sample cannot resolve {bound.metric}"
        else:
            start = f"K = {self.cutoff} is below what this sample can resolve"
        message = f"{start}: any {span} fits"
        if not self.has_advice:
            return f"{message}."
        needed = "only ranking all items"
        if self.n_negatives is not None:
            needed = f"about {self.n_negatives:,} negatives"
        message += f"; {needed} would resolve it to +-{self.half_width:g}."
        if self.smallest_cutoff is not None:
            message += f" The smallest K it resolves is about {self.smallest_cutoff}."
        return message


def needed_size(half_width: Callable[[int], float], wanted: float, *, start: int, most: int) -> int | None:
    """Return about the smallest size with the wanted half-width, rounded up to two digits.

    None when the largest size is not enough. Sizes are doubled until one is, then the smallest is found by
    bisection on a logarithmic scale.

    Parameters
    ----------
    half_width : as a decreasing function of the size
    wanted : half-width, greater than 0
    start, most : the smallest and the largest size tried

    Examples
    --------
    >>> needed_size(lambda m: 1 / m, 0.003, start=10, most=1000)
    340
    >>> needed_size(lambda m: 1 / m, 0.003, start=10, most=300) is None
    True
    """
    check_above("half_width", wanted, 0)
    low, high = start, start
    while half_width(high) > wanted:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high > 1.04 * low + 1:
        middle = round(math.sqrt(low * high))
        low, high = (middle, high) if half_width(middle) > wanted else (low, middle)
    unit = int(10 ** max(math.floor(math.log10(high)) - 1, 0))
    return min(-(-high // unit) * unit, most)


@suggests_arguments
def identification_bounds(
    ranks: SampledRanks | Tally,
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    *,
    level: float = 0.95,
    shape: Shape | None = None,
    pools: Pools = "free",
    ties: TiePolicy = "expected",
    step: float = STEP,
    progress: Progress | bool = SILENT,
) -> tuple[IdentificationBound, ...]:
    """Return, per metric, the smallest and the largest value compatible with the sampled ranks.

    The bounded quantity is the value that exact evaluation of these users would print: their ranks are fixed
    and only the negatives are random. The bounds hold for all metrics at once with probability at least
    ``level``, whatever the ranks are; no estimator enters.

    Parameters
    ----------
    ranks : sampled ranks, or a tally of them that was made with ``width=0``
    metrics : spec strings or objects
    level : simultaneous confidence of all bounds
    shape : None, or ``decreasing`` where a rank is known to be at most as frequent as any better one, among
        targets with pools of similar size and the same numbers of relevant items in all and above
    pools : ``free`` lets the rank distribution depend on the size of the pool; ``shared`` assumes that the
        distribution of R/N does not
    ties : as in ``estimate``; samples with replacement that have ties need ``best`` or ``worst``, adaptive
        ones ``best``
    step : spacing of the grid of ranks, in standard deviations of the sampled rank
    progress : where metrics are reported; True shows bars

    Raises
    ------
    CannotEstimate
        When negatives were not drawn uniformly, the tie policy has no bounds, or no rank distribution fits.

    Examples
    --------
    >>> ranks = SampledRanks.single(np.arange(400) ** 2 // 8400, n_negatives=19, n_pool=100)
    >>> print(*identification_bounds(ranks, "recall@1,recall@20"), sep="; ")
    recall@1 lies in [0.000, 0.285]; recall@20 lies in [0.245, 0.683]
    """
    progress = as_progress(progress)
    if not isinstance(ranks, Tally):
        check_sampled(ranks, "bounds")
    parsed_metrics = make_metrics(metrics)
    check_level(level)
    check_choice("shape", shape or "decreasing", ("decreasing",))
    check_choice("pools", pools, ("free", "shared"))
    if not 0 < step <= 1:
        raise InvalidParameter(f"step must lie in (0, 1], got {step!r}. Use {STEP}.")
    counted = unbinned_tally(ranks, ties, parsed_metrics)
    check_bound_tally(counted)
    for metric in parsed_metrics:
        metric.check_cutoff(int(counted.contexts.n_pool.max()))
    is_known = fully_ranked_contexts(counted)
    fixed = np.array([known_value(counted, metric, is_known) for metric in parsed_metrics])
    if is_known.all():
        return tuple(
            IdentificationBound(str(metric), float(value), float(value), level, "exact")
            for metric, value in zip(parsed_metrics, fixed, strict=True)
        )
    problem = BoundProblem.of_tally(counted, is_known, shape)
    with tracked(progress, "bounds", len(parsed_metrics)) as task:
        limits, method = problem.sample_limits(
            parsed_metrics, counted, is_known, level=level, step=step, pools=pools, task=task
        )
    return tuple(
        IdentificationBound(str(metric), *_clip(value + limit, metric, counted), level, method)
        for metric, value, limit in zip(parsed_metrics, fixed, limits, strict=True)
    )


def unbinned_tally(
    ranks: SampledRanks | Tally, ties: TiePolicy = "expected", metrics: Sequence[Metric] = ()
) -> Tally:
    """Return the tally that bounds are computed from: the given one, or one with every pool size kept."""
    return ranks if isinstance(ranks, Tally) else tally(ranks, ties=ties, width=0.0, metrics=metrics)


def check_bound_tally(counted: Tally) -> None:
    """Raise unless the law of the sampled rank is known exactly for every row."""
    if counted.n_rows == 0:
        raise InvalidData("bounds need at least one user, got none. Check that the table has rows.")
    if counted.design.law != "uniform":
        raise CannotEstimate(
            f"bounds need negatives that were drawn uniformly, got design '{counted.design.law}'. "
            f"Sample uniformly."
        )
    if counted.width > 0:
        raise InvalidParameter(
            f"bounds need a tally with every pool size kept, got one with bins of width={counted.width:g}. "
            f"Use its attribute unbinned."
        )
    rule, is_tied = stopping_of(counted), bool((counted.weight < 1).any())
    if rule is not None and (is_tied or counted.ties == "worst"):
        raise CannotEstimate(
            "bounds of adaptive samples need ties 'best', because the stopping rule counts items above the "
            "target."
        )
    if counted.design.replacement and (is_tied or counted.ties == "random"):
        raise CannotEstimate(
            "bounds of samples with replacement need ties 'best' or 'worst', because a tied item can be "
            "drawn twice."
        )
    check_outcomes(counted)


def fully_ranked_contexts(counted: Tally) -> BoolArray:
    """Return which contexts have samples of all candidates, so that ranks are known, (n_contexts,)."""
    contexts = counted.contexts
    if counted.design.replacement or stopping_of(counted) is not None:
        return np.zeros(len(contexts), dtype=np.bool_)
    is_known: BoolArray = contexts.n_negatives == contexts.n_candidates
    return is_known


def known_value(counted: Tally, metric: Metric, is_known: BoolArray) -> float:
    """Return the contribution of targets with known ranks to the mean over users."""
    total = 0.0
    for row in np.flatnonzero(is_known).tolist():
        counts = counted.counts(row)
        above = np.flatnonzero(counts)
        total += float(counts[above] @ gain_at(metric, above, counted.contexts.take(np.array([row])))[0])
    return total / counted.n_users


def _clip(limits: FloatArray, metric: Metric, counted: Tally) -> tuple[float, float]:
    """Return the limits clipped to the values with all targets ranked first and with all ranked last."""
    rows = counted.context_weights / counted.n_users
    contexts = counted.contexts
    first = float(rows @ gain_at(metric, np.array([0]), contexts)[:, 0])
    last = float(rows @ gain_at(metric, contexts.n_candidates[:, None], contexts)[:, 0])
    low, high = np.clip(limits, min(first, last), max(first, last)).tolist()
    return low, high


_SECONDS = 6e-5  # of CPU time per bound, group of targets and grid point


def bound_seconds(ranks: SampledRanks | Tally, ties: TiePolicy = "expected") -> float:
    """Return the predicted CPU seconds for the bounds of one metric, right within a factor of about three.

    The prediction depends on the sample alone, not on the machine.

    Raises
    ------
    CannotEstimate
        When the sample has no bounds.

    Examples
    --------
    >>> bound_seconds(SampledRanks.single([0, 0, 1, 2, 4], n_negatives=19, n_pool=100)) < 0.1
    True
    """
    counted = unbinned_tally(ranks, ties)
    check_bound_tally(counted)
    is_known = fully_ranked_contexts(counted)
    if is_known.all():
        return 0.0
    problem = BoundProblem.of_tally(counted, is_known, None)
    return _SECONDS * len(problem.kind) * len(problem.grid_points((), STEP))
