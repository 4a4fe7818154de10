"""Intervals that cover the bias of an estimator: bias-aware intervals and identification bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.errors import check_choice
from truerank.core.types import FloatArray
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.bounds.problem import Pools, Shape
from truerank.inference.estimate_interval.base import (
    BOUNDS,
    EstimateInterval,
    IntervalRequest,
    clip_to_range,
    identification_limits,
    is_covered_by_region,
    user_sampling_limits,
)
from truerank.inference.estimate_interval.delta import held_fixed
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.estimate_interval.worst_bias import worst_bias
from truerank.inference.user_interval import Band


@dataclass(frozen=True)
class BiasAware(EstimateInterval):
    r"""Interval of a linear estimate, widened by its worst-case bias and cut to the identification bounds.

    .. math:: [\hat\theta - h - b_+, \; \hat\theta + h - b_-] \cap [l, u]

    with the half-width h of ``delta``, the smallest and largest bias :math:`b_\pm` over all rank
    distributions in a confidence region, and the identification bounds [l, u] of the same region.

    Parameters
    ----------
    shape : none, or ``decreasing``, an assumption on ranks as in ``bounds``

    Notes
    -----
    *Level.* With a = 1 - level, the region R fails to contain the mean probabilities of the sampled ranks
    with probability at most a/2, and the sampling error :math:`\hat\theta - E \hat\theta` exceeds h with
    probability a/2, up to the normal approximation of every standard error. When neither happens, the rank
    distribution of these users is in R. Its metric then lies within [l, u] and its bias
    :math:`E \hat\theta - \theta` within :math:`[b_-, b_+]`: both are extremes over R of linear functions of
    it, so one region serves them and all metrics without a further correction. Hence :math:`\theta =
    \hat\theta - (\hat\theta - E \hat\theta) - (E \hat\theta - \theta)` lies in the interval with probability
    1 - a (union bound). The intersection is empty only when one of the two has happened; then [l, u] is
    returned.

    *Users.* For ``population`` and one group of targets, R covers the mean probabilities over the population
    and h includes the variance between users. In other cases than all test users, the interval is made for
    the sampled users with a/3 for each of the two, and a/3 is spent on the difference between their mean and
    that of all users (``user_sampling_limits``).

    *Fitted estimators.* The bias of an estimator that fits a rank distribution is not linear in it. The
    interval is the identification bounds at the whole level, extended to the estimate where it lies outside.
    """

    shape: Shape | None = None
    key: ClassVar[str] = "bias-aware"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape or "decreasing", ("decreasing",))

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals."""
        suffix = "" if self.shape is None else f", {self.shape}"
        if isinstance(estimates.estimator, MixtureEstimator):
            bounds = identification_limits(
                estimates,
                target=request.target,
                level=request.level,
                shape=self.shape,
                progress=request.progress,
            )
            low, high = np.minimum(bounds[:, 0], estimates.value), np.maximum(bounds[:, 1], estimates.value)
            return Band(low, high, (f"{BOUNDS} around a fit{suffix}",) * len(low))
        limits = self._limits(estimates, request)
        low, high = clip_to_range(estimates, request.target, limits[:, 0], limits[:, 1])
        return Band(low, high, (f"bias-aware{held_fixed(estimates.estimator)}{suffix}",) * len(low))

    def _limits(self, estimates: PointEstimates, request: IntervalRequest) -> FloatArray:
        """Return the limits for a linear estimator, (n_metrics, 2)."""
        n_users, target, alpha = estimates.tally.n_users, request.target, 1 - request.level
        is_direct = is_covered_by_region(estimates, target)
        part = alpha / 2 if is_direct else alpha / 3
        linear = LinearisedEstimate.of(estimates)
        error = linear.standard_error(target) if is_direct else linear.sampling_error()
        half = stdtrit(max(n_users - 1, 1), 1 - part / 2) * error
        half = np.where(linear.has_spread(error), half, np.inf)  # without spread the bounds alone
        shape, progress = self.shape, request.progress
        bias = worst_bias(estimates, linear.counted, linear.x, level=1 - part, shape=shape, progress=progress)
        bounds = np.array(
            [
                [bound.low, bound.high]
                for bound in identification_bounds(
                    estimates.tally.unbinned,
                    estimates.metrics,
                    level=1 - part,
                    shape=shape,
                    progress=progress,
                )
            ]
        )
        low = np.maximum(estimates.value - half - bias[:, 1], bounds[:, 0])
        high = np.minimum(estimates.value + half - bias[:, 0], bounds[:, 1])
        limits = np.where((low <= high)[:, None], np.stack([low, high], axis=1), bounds)
        if is_direct:
            return limits
        n_test_users = estimates.tally.design.n_test_users if target == "test-users" else None
        return user_sampling_limits(limits, n_users, n_test_users, part)


@dataclass(frozen=True)
class IdentificationInterval(EstimateInterval):
    """Identification bounds: all values compatible with the sampled ranks, whatever the estimate.

    The only interval that has its level for every rank distribution; wide where K is small relative to the
    pool. It need not contain the estimate. A quarter of a second per metric.

    Parameters
    ----------
    shape : none, or ``decreasing`` where a rank is known to be at most as frequent as any better one
    pools : ``free`` lets ranks depend on the size of the pool, ``shared`` does not

    Examples
    --------
    >>> str(IdentificationInterval(shape="decreasing"))
    'bounds(shape=decreasing)'
    """

    shape: Shape | None = None
    pools: Pools = "free"
    key: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape or "decreasing", ("decreasing",))
        check_choice("pools", self.pools, ("free", "shared"))

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the bounds."""
        limits = identification_limits(
            estimates,
            target=request.target,
            level=request.level,
            shape=self.shape,
            pools=self.pools,
            progress=request.progress,
        )
        name = BOUNDS if self.shape is None else f"{BOUNDS}, {self.shape}"
        return Band(limits[:, 0], limits[:, 1], (name,) * len(limits))
