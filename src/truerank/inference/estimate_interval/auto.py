"""Default interval of estimates: the posterior; sampling error alone where there is no posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.estimation.distribution.base import MixtureEstimator
from truerank.inference.estimate_interval.base import EstimateInterval, IntervalRequest
from truerank.inference.estimate_interval.bootstrap import Bootstrap
from truerank.inference.estimate_interval.delta import delta_band
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.estimate_interval.resampling import bootstrap_seconds, resampling_tally
from truerank.inference.posterior.interval import posterior_band
from truerank.inference.user_interval import Band

_SECONDS = 5.0  # of CPU time that a bootstrap may take
_MANY = 1000  # users from which the delta method was checked against the bootstrap
_FEWEST = 50  # resamples, whose standard deviation has a relative error of a tenth


@dataclass(frozen=True)
class AutoInterval(EstimateInterval):
    """``posterior``; the sampling error alone where negatives were not drawn uniformly.

    Uniform negatives tell about ranks in the whole list, so the interval is the ``posterior`` of the metric,
    whatever the estimator; it is the bounds where the prior has no ground, and says so. Other negatives do
    not: the interval is that of ``sampling`` and its name ends in ``ignores bias``.

    Parameters
    ----------
    resamples : bootstrap repetitions of ``sampling``, at least 50
    """

    resamples: int = 1000
    key: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        SamplingInterval(self.resamples)

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals of the chosen method."""
        if estimates.tally.design.law == "uniform":
            return posterior_band(estimates, request)
        return SamplingInterval(self.resamples).estimate_band(estimates, request)


@dataclass(frozen=True)
class SamplingInterval(EstimateInterval):
    """Sampling error alone: ``delta``, or ``bootstrap`` where that is not to be trusted.

    The two agree from 1,000 users on (docs/uncertainty.md), where ``delta`` is many times faster. With fewer
    users a fitted estimate is bootstrapped if that takes at most about 5 CPU seconds; samples from pools of
    many sizes take longer. Fits without an influence function then get fewer resamples, at least 50.

    The method's name ends in ``ignores bias`` unless the bias is at most a fifth of the standard error for
    all rank distributions compatible with the sample. That holds for AUC under ``naive``, and may hold for
    metrics with large cut-offs. Estimates from a fitted distribution always count as biased.

    Parameters
    ----------
    resamples : bootstrap repetitions, at least 50
    """

    resamples: int = 1000
    key: ClassVar[str] = "sampling"

    def __post_init__(self) -> None:
        Bootstrap(self.resamples)

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals of the chosen method."""
        resamples = self.resamples
        estimator = estimates.estimator
        has_delta = not isinstance(estimator, MixtureEstimator) or estimator.has_influence
        if isinstance(estimator, MixtureEstimator) and not (has_delta and estimates.tally.n_users >= _MANY):
            counted = resampling_tally(estimates)
            seconds = bootstrap_seconds(estimator, counted, request.target, resamples)
            if seconds > _SECONDS:
                resamples = max(int(resamples * _SECONDS / seconds), _FEWEST)
            if seconds <= _SECONDS or not has_delta:
                return Bootstrap(resamples).estimate_band(estimates, request)
        linear = LinearisedEstimate.of(estimates, request.target)
        error = linear.standard_error(request.target)
        is_biased = ~linear.is_unbiased(error, level=request.level)
        return delta_band(estimates, linear, error, is_biased, request)
