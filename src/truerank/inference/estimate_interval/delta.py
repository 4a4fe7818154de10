"""Delta-method intervals: standard errors in closed form, by influence values for fitted distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.base import Estimator
from truerank.inference.estimate_interval.base import (
    EstimateInterval,
    IntervalRequest,
    clip_to_range,
    replace_degenerate,
)
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.user_interval import Band

#: End of the name of methods that do not cover the bias of the estimator.
IGNORES = ", ignores bias"


@dataclass(frozen=True)
class Delta(EstimateInterval):
    r"""Estimate plus and minus Student's quantile times the standard error.

    .. math:: \hat\theta \pm t_{n-1} \sqrt{\operatorname{Var}}, \qquad
              n \operatorname{Var} = f V_s + (1 - f) V_t

    with the total variance over users :math:`V_t`, its part due to the sampled negatives :math:`V_s`, and
    f = 1 for ``test-users``, 0 for ``population``, n/N where n of N test users were evaluated. Tens of
    milliseconds; up to seconds for fits to samples with thousands of outcomes. An estimate that is linear in
    the sample is a mean of corrected values; one from a fitted rank distribution is linearised by its
    influence function (``truerank.estimation.distribution.influence``). Priors and mappings that are fitted
    to the sample are held fixed, and the method's name says so. Samples that are not uniform do not identify
    the rank in the whole pool: there the interval is for the sampled metric.

    Notes
    -----
    :math:`V_s` depends on the unknown ranks; ``variance_components`` in
    ``truerank.inference.estimate_interval.linear`` says how it is estimated.

    Examples
    --------
    >>> str(Delta())
    'delta'
    """

    key: ClassVar[str] = "delta"

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals."""
        linear = LinearisedEstimate.of(estimates, request.target)
        error = linear.standard_error(request.target)
        is_biased = ~linear.is_surely_unbiased(error)
        return delta_band(estimates, linear, error, is_biased, request)


def delta_band(
    estimates: PointEstimates,
    linear: LinearisedEstimate,
    error: FloatArray,
    is_biased: BoolArray,
    request: IntervalRequest,
) -> Band:
    """Return the intervals from standard errors, with method names that say what they leave out."""
    half = stdtrit(max(estimates.tally.n_users - 1, 1), (1 + request.level) / 2) * error
    low, high = clip_to_range(estimates, request.target, estimates.value - half, estimates.value + half)
    has_spread = linear.has_spread(error)
    band = Band(low, high, method_names("delta", estimates, is_biased))
    return replace_degenerate(estimates, band, has_spread, target=request.target, level=request.level)


def method_names(method: str, estimates: PointEstimates, is_biased: BoolArray) -> tuple[str, ...]:
    """Return the method's name per metric: what it holds fixed, and whether it ignores bias."""
    name = f"{method}{held_fixed(estimates.estimator)}"
    if estimates.tally.design.law != "uniform":
        name += ", of the sampled metric"
    return tuple(name + (IGNORES if biased else "") for biased in np.atleast_1d(is_biased))


def held_fixed(estimator: Estimator) -> str:
    """Return the part of a method's name that says which fitted prior or mapping is held fixed, or ""."""
    return f", {estimator.fitted_part} held" if estimator.fitted_part else ""
