"""The interval that suits the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.distribution.influence import has_influence
from truerank.inference.estimate_interval.base import Asked, EstimateInterval
from truerank.inference.estimate_interval.bootstrap import Bootstrap
from truerank.inference.estimate_interval.delta import delta_band
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import Estimated
from truerank.inference.estimate_interval.resampling import bootstrap_seconds, resampled_tally
from truerank.inference.user_interval import Band

_SECONDS = 5.0  # of CPU time that a bootstrap may take
_MANY = 1000  # users; derivatives were tried with so many
_FEWEST = 50  # resamples; a spread of so many is within a tenth


@dataclass(frozen=True)
class AutoInterval(EstimateInterval):
    """``delta``, but ``bootstrap`` for fits that have few users or no derivative.

    Both say the same of 1,000 users and more (docs/uncertainty.md), and ``delta`` is many times faster. With
    fewer users a fit is bootstrapped while that takes at most about 5 CPU seconds, which samples from pools
    of many sizes exceed; fits without a derivative have fewer resamples then, 50 at least.

    The method ends in ``ignores bias`` unless the estimate is known to be nearly unbiased: by at most a fifth
    of its standard error for all ranks that the sample allows. AUC under ``naive`` is so, and estimates of
    metrics with large cut-offs may be. A fit to a sample is always taken for biased.

    Parameters
    ----------
    resamples : of the bootstrap
    """

    resamples: int = 1000
    key: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        Bootstrap(self.resamples)

    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the intervals of the chosen kind."""
        resamples = self.resamples
        estimator = found.estimator
        has_delta = not isinstance(estimator, MixtureEstimator) or has_influence(estimator)
        if isinstance(estimator, MixtureEstimator) and not (has_delta and found.tally.n_users >= _MANY):
            counted = resampled_tally(found)
            took = bootstrap_seconds(estimator, counted, asked.target, resamples)
            if took > _SECONDS:
                resamples = max(int(resamples * _SECONDS / took), _FEWEST)
            if took <= _SECONDS or not has_delta:
                return Bootstrap(resamples).inexact(found, asked)
        linear = LinearisedEstimate.of(found, asked.target)
        error = linear.standard_error(asked.target)
        is_biased = ~linear.is_unbiased(error, level=asked.level)
        return delta_band(found, linear, error, is_biased, asked)
