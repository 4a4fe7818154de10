"""Base class of intervals for estimates: validates the request; zero width when every candidate was ranked.

Also here is what the methods share: the attainable range of a metric, to which all limits are clipped, and
the identification bounds that replace an interval where the sample has no spread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter, check_choice, check_level
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SampledRanks
from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.adaptive_law import stopping_of
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.corrections.naive import Naive
from truerank.estimation.tally import Tally
from truerank.inference.bounds.identify import fully_ranked_contexts, identification_bounds
from truerank.inference.bounds.problem import Pools, Shape
from truerank.inference.bounds.region import chernoff_limits, group_contexts
from truerank.inference.estimate_interval.registry import (
    TARGETS,
    PointEstimates,
    Target,
    Uncertainty,
    sampled_fraction,
)
from truerank.inference.user_interval import Band
from truerank.metrics.base import Metric


def attainable_range(tally: Tally, metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest mean over these users that each metric can have.

    The extremes are the values with all targets ranked last and with all of them ranked first. Samples that
    are not uniform do not identify the rank in the whole pool; there it is the range of the sampled metric.
    """
    extremes = _extreme_user_values(tally, metrics).mean(axis=1)
    return extremes.min(axis=0), extremes.max(axis=0)


def attainable_user_range(tally: Tally, metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and the largest value that any single one of these users can have."""
    extremes = _extreme_user_values(tally, metrics)
    return extremes.min(axis=(0, 1)), extremes.max(axis=(0, 1))


def _extreme_user_values(tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
    """Return each user's values with all targets first and with all of them last, (2, n_users, n_metrics)."""
    contexts, last = tally.contexts, tally.contexts.n_candidates
    if tally.design.law != "uniform":
        last = contexts.n_negatives
        contexts = replace(contexts, n_pool=contexts.n_negatives + contexts.n_relevant)
    extremes = []
    for n_above in (np.zeros_like(last), last):
        gains = np.stack([gain_at(metric, n_above[:, None], contexts)[:, 0] for metric in metrics], axis=1)
        extremes.append(tally.per_user(np.repeat(gains, contexts.n_negatives + 1, axis=0)))
    return np.stack(extremes)


def is_exact(tally: Tally, ranks: SampledRanks) -> bool:
    """Whether all global ranks are known; ties in random order are not: a sample has its own order."""
    return tally.is_fully_ranked and not (tally.ties == "random" and bool((ranks.n_tied > 0).any()))


def is_degenerate(tally: Tally) -> bool:
    """Whether all targets have the same fraction of their sample above them: no variance can be estimated."""
    fraction = (tally.cell - tally.offsets[tally.context]) / tally.contexts.n_negatives[tally.context]
    return bool(np.ptp(fraction) == 0)


#: Method name of intervals that are identification bounds.
BOUNDS = "identification bounds"


def check_request(estimates: PointEstimates, target: str, level: float) -> None:
    """Raise unless target and level are valid and the sample has users."""
    check_choice("target", target, TARGETS)
    check_level(level)
    if estimates.tally.n_users == 0:
        raise InvalidData(
            "an interval needs at least one user, got none. Check that the table of sampled ranks has rows."
        )


def has_all_users(estimates: PointEstimates, target: Target) -> bool:
    """Whether the target is the mean over exactly the sampled users, so that users add no variance."""
    return sampled_fraction(target, estimates.tally.n_users, estimates.tally.design.n_test_users) == 1


def exact_band(estimates: PointEstimates, target: Target) -> Band | None:
    """Return intervals of zero width where all candidates of all test users were ranked, else None."""
    if not has_all_users(estimates, target) or not is_exact(estimates.tally, estimates.ranks):
        return None
    return Band(estimates.value, estimates.value, ("exact",) * len(estimates.value))


def without_sampling(estimates: PointEstimates) -> PointEstimates:
    """Return estimates from known ranks as the means over users that they are, whatever the estimator.

    Nothing was fitted and no negatives were left to chance, so an interval has to cover the users alone.
    """
    whole = estimates.tally.unbinned  # samples of all candidates are never binned
    design = replace(whole.design, law="uniform", stopping=None)
    return replace(estimates, estimator=Naive(), tally=replace(whole, design=design))


def target_range(estimates: PointEstimates, target: Target) -> tuple[FloatArray, FloatArray]:
    """Return the attainable range of each metric; for other users than these, that of a single user."""
    attainable = attainable_range if has_all_users(estimates, target) else attainable_user_range
    return attainable(estimates.tally, estimates.metrics)


def clip_to_range(
    estimates: PointEstimates, target: Target, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the limits clipped to the attainable range of each metric."""
    least, most = target_range(estimates, target)
    return np.clip(low, least, most), np.clip(high, least, most)


#: In the name of a method whose interval does not hold the estimate; the reason follows.
EXCLUDES = ", without the estimate"
_ROUNDING = 1e-9


def explain_exclusions(estimates: PointEstimates, band: Band, target: Target) -> Band:
    """Return the intervals; where one does not hold its estimate, the method's name says why.

    That is information, not an error: bounds may exclude an estimate with a large bias, such as ``naive``,
    and limits are clipped to values that the metric can have, which linear estimates may leave. Limits that
    miss the estimate by rounding alone are moved to it.
    """
    value = estimates.value
    misses = np.maximum(band.low - value, value - band.high)
    low = np.where(misses <= _ROUNDING, np.fmin(band.low, value), band.low)
    high = np.where(misses <= _ROUNDING, np.fmax(band.high, value), band.high)
    if not (misses > _ROUNDING).any():
        return Band(low, high, band.method)
    least, most = target_range(estimates, target)
    is_possible = (value >= least - _ROUNDING) & (value <= most + _ROUNDING)
    names = list(band.method)
    for column in np.flatnonzero(misses > _ROUNDING).tolist():
        reason = (
            "the sample speaks against it" if is_possible[column] else "the metric cannot have that value"
        )
        names[column] += f"{EXCLUDES}: {reason}"
    return Band(low, high, tuple(names))


def replace_degenerate(
    estimates: PointEstimates, band: Band, has_spread: BoolArray, *, target: Target, level: float
) -> Band:
    """Return the intervals, with identification bounds for metrics whose estimated variance is zero.

    Users with equal sampled ranks do inform about other samples, but not through a variance. Where there are
    no bounds either, the interval is the attainable range.
    """
    if has_spread.all():
        return band
    least, most = target_range(estimates, target)
    name = "possible range, no spread"
    try:
        limits = identification_limits(estimates, target=target, level=level)
        least, most, name = limits[:, 0], limits[:, 1], f"{BOUNDS}, no spread"
    except (CannotEstimate, InvalidParameter):
        pass
    low, high, method = band.low.copy(), band.high.copy(), list(band.method)
    for column in np.flatnonzero(~has_spread).tolist():
        low[column], high[column], method[column] = least[column], most[column], name
    return Band(low, high, tuple(method))


def identification_limits(
    estimates: PointEstimates,
    *,
    target: Target,
    level: float,
    shape: Shape | None = None,
    pools: Pools = "free",
    progress: Progress = SILENT,
) -> FloatArray:
    r"""Return identification bounds of each metric for a target, (n_metrics, 2).

    Notes
    -----
    ``identification_bounds`` bounds the mean over the sampled users. Two cases need no more: a target of
    exactly these users, and ``population`` with a single group of targets, because users drawn at random make
    the mean probability of each event that over the population, so that the same confidence region covers
    it. In all other cases half of 1 - level is spent on the sampling of users: their mean lies within the
    bounds, and the mean over all users within ``user_sampling_limits`` of it.
    """
    is_direct = is_covered_by_region(estimates, target)
    bounds = identification_bounds(
        estimates.tally.unbinned,
        estimates.metrics,
        level=level if is_direct else 1 - (1 - level) / 2,
        shape=shape,
        pools=pools,
        progress=progress,
    )
    limits = np.array([[bound.low, bound.high] for bound in bounds])
    if is_direct:
        return limits
    n_test_users = estimates.tally.design.n_test_users if target == "test-users" else None
    wide = user_sampling_limits(limits, estimates.tally.n_users, n_test_users, (1 - level) / 2)
    return np.stack(clip_to_range(estimates, target, wide[:, 0], wide[:, 1]), axis=1)


def user_sampling_limits(
    limits: FloatArray, n_users: int, n_test_users: int | None, alpha: float
) -> FloatArray:
    r"""Return limits of the mean over all users, given limits of the mean over a random sample of them.

    Values of users lie within [0, 1], so Chernoff's limits hold (Hoeffding 1963), for sampling without
    replacement too. With n of N users sampled, Serfling's half-width
    :math:`\sqrt{(1 - (n - 1)/N) \log(2/\alpha)/2n}` is taken where it is narrower. The mean lies outside
    either limit with probability at most alpha.

    Parameters
    ----------
    limits : (n_metrics, 2) lower and upper
    n_users, n_test_users : n, and N or None for an infinite population
    alpha : error probability of both limits together
    """
    if n_test_users == n_users:
        return limits
    low = chernoff_limits(np.clip(limits[:, 0], 0, 1), n_users, alpha / 2)[0]
    high = chernoff_limits(np.clip(limits[:, 1], 0, 1), n_users, alpha / 2)[1]
    if n_test_users is not None:
        half = np.sqrt((1 - (n_users - 1) / n_test_users) * np.log(2 / alpha) / (2 * n_users))
        low, high = np.maximum(low, limits[:, 0] - half), np.minimum(high, limits[:, 1] + half)
    return np.stack([low, high], axis=1)


def is_covered_by_region(estimates: PointEstimates, target: Target) -> bool:
    """Whether the confidence region of bounds covers the target, without an allowance for sampling users.

    True for exactly the sampled users, and for a population whose users have one target each, with unknown
    rank, all in one group; see ``identification_limits``.
    """
    tally = estimates.tally
    if target != "population":
        return has_all_users(estimates, target)
    if bool(fully_ranked_contexts(tally).any()) or tally.n_rows != tally.n_users:
        return False
    group, _ = group_contexts(tally.unbinned.contexts, by_sample=stopping_of(tally) is None)
    return bool((group == 0).all())


@dataclass(frozen=True)
class IntervalRequest:
    """Target, level, seed and progress of one call of ``Uncertainty.band``."""

    target: Target
    level: float
    seed: int
    progress: Progress


@dataclass(frozen=True)
class EstimateInterval(Uncertainty, ABC):
    """Base class of intervals: treats exact values, leaves estimates to ``estimate_band``."""

    def band(
        self,
        estimates: PointEstimates,
        *,
        target: Target = "test-users",
        level: float = 0.95,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Band:
        """Return the intervals; those of exact values have zero width.

        The name of an interval that does not hold its estimate says why.
        """
        check_request(estimates, target, level)
        exact = exact_band(estimates, target)
        if exact is not None:
            return exact
        if estimates.tally.is_fully_ranked:
            estimates = without_sampling(estimates)
        band = self.estimate_band(estimates, IntervalRequest(target, level, seed, progress))
        return explain_exclusions(estimates, band, target)

    @abstractmethod
    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals of values that the sample does not determine."""
