"""Intervals that hold what an estimator may be off by.

Identification bounds as an interval.
"""

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
    Asked,
    EstimateInterval,
    about_users,
    allowed,
    has_all_users,
    is_one_group,
    within_range,
)
from truerank.inference.estimate_interval.delta import held
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import Estimated
from truerank.inference.estimate_interval.worst_bias import worst_bias
from truerank.inference.user_interval import Band


@dataclass(frozen=True)
class BiasAware(EstimateInterval):
    r"""The noise of a linear estimate, widened by the worst bias that the sample allows, within bounds.

    .. math:: [\hat\theta - h - b_+, \; \hat\theta + h - b_-] \cap [l, u]

    with the half-width h of ``delta``, the least and largest bias :math:`b_\pm` over all rank distributions
    in a confidence region, and the identification bounds [l, u] of the same region.

    Parameters
    ----------
    shape : none, or ``decreasing``, an assumption on ranks as in ``bounds``

    Notes
    -----
    *Level.* The region R misses the mean chances with at most a/2, and the noise :math:`\hat\theta - E
    \hat\theta` exceeds h with a/2, up to the normal approximation that every standard error rests on. When
    neither happens, the rank distribution of these users is in R. Its metric then lies within [l, u] and its
    bias :math:`E \hat\theta - \theta` within :math:`[b_-, b_+]`: both are extremes over R of linear functions
    of it, so one region serves them and all metrics, at the price of one. Hence :math:`\theta = \hat\theta -
    (\hat\theta - E \hat\theta) - (E \hat\theta - \theta)` lies in the interval with 1 - a (union bound).
    The intersection is empty only when one of the two has happened; then [l, u] is returned.

    *Users.* For ``population`` and one group of targets, R is a region of all users' chances and h holds the
    users' variance. In other cases than all test users, the interval is made for the users at hand with a/3
    for each of the two, and a/3 goes to how far their mean lies from that of all (``about_users``).

    *Fitted estimators.* The bias of a fit is not linear in the rank distribution. The interval is the bounds
    at the whole level, drawn out to the estimate where that lies outside.
    """

    shape: Shape | None = None
    key: ClassVar[str] = "bias-aware"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape or "decreasing", ("decreasing",))

    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the intervals."""
        suffix = "" if self.shape is None else f", {self.shape}"
        if isinstance(found.estimator, MixtureEstimator):
            ends = allowed(
                found,
                target=asked.target,
                level=asked.level,
                shape=self.shape,
                progress=asked.progress,
            )
            low, high = np.minimum(ends[:, 0], found.value), np.maximum(ends[:, 1], found.value)
            return Band(low, high, (f"{BOUNDS} around a fit{suffix}",) * len(low))
        ends = self._ends(found, asked)
        low, high = within_range(found, asked.target, ends[:, 0], ends[:, 1])
        return Band(low, high, (f"bias-aware{held(found.estimator)}{suffix}",) * len(low))

    def _ends(self, found: Estimated, asked: Asked) -> FloatArray:
        n_users, target, alpha = found.tally.n_users, asked.target, 1 - asked.level
        is_direct = has_all_users(found, target) or (target == "population" and is_one_group(found))
        part = alpha / 2 if is_direct else alpha / 3
        linear = LinearisedEstimate.of(found)
        error = linear.standard_error(target) if is_direct else linear.sampling_error()
        half = stdtrit(max(n_users - 1, 1), 1 - part / 2) * error
        half = np.where(linear.has_spread(error), half, np.inf)  # no spread: bounds alone
        bias = worst_bias(
            found,
            linear.counted,
            linear.x,
            level=1 - part,
            shape=self.shape,
            progress=asked.progress,
        )
        bounds = self._bounds(found, part, asked)
        low = np.maximum(found.value - half - bias[:, 1], bounds[:, 0])
        high = np.minimum(found.value + half - bias[:, 0], bounds[:, 1])
        ends = np.where((low <= high)[:, None], np.stack([low, high], axis=1), bounds)
        if is_direct:
            return ends
        n_test_users = found.tally.design.n_test_users if target == "test-users" else None
        return about_users(ends, n_users, n_test_users, part)

    def _bounds(self, found: Estimated, part: float, asked: Asked) -> FloatArray:
        """Return the bounds of the users at hand, or of all where one region serves both."""
        bounds = identification_bounds(
            found.tally.unbinned, found.metrics, level=1 - part, shape=self.shape, progress=asked.progress
        )
        return np.array([[bound.low, bound.high] for bound in bounds])


@dataclass(frozen=True)
class Identified(EstimateInterval):
    """All values that the sampled ranks allow, whatever the estimator says.

    The only interval that holds at its level for every rank distribution; wide where K is small against the
    pool. It need not contain the estimate. A quarter of a second per metric.

    Parameters
    ----------
    shape : none, or ``decreasing`` where a rank is known to be at most as frequent as any better one
    pools : ``free`` lets ranks depend on the size of the pool, ``shared`` does not

    Examples
    --------
    >>> str(Identified(shape="decreasing"))
    'bounds(shape=decreasing)'
    """

    shape: Shape | None = None
    pools: Pools = "free"
    key: ClassVar[str] = "bounds"

    def __post_init__(self) -> None:
        check_choice("shape", self.shape or "decreasing", ("decreasing",))
        check_choice("pools", self.pools, ("free", "shared"))

    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the bounds."""
        ends = allowed(
            found,
            target=asked.target,
            level=asked.level,
            shape=self.shape,
            pools=self.pools,
            progress=asked.progress,
        )
        name = BOUNDS if self.shape is None else f"{BOUNDS}, {self.shape}"
        return Band(ends[:, 0], ends[:, 1], (name,) * len(ends))
