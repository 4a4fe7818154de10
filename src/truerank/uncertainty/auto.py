"""The interval that suits the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.interval import Band
from truerank.core.uncertainty import Estimated, Target, Uncertainty
from truerank.estimators.mixture import MixtureEstimator
from truerank.uncertainty.bootstrap import Bootstrap
from truerank.uncertainty.delta import delta_band
from truerank.uncertainty.ends import check_asked, exact_band
from truerank.uncertainty.linear import Linear


@dataclass(frozen=True)
class Auto(Uncertainty):
    """``delta`` for linear estimators, ``bootstrap`` for those that fit a distribution of ranks.

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

    def band(
        self, found: Estimated, *, target: Target = "test-users", level: float = 0.95, seed: int = 0
    ) -> Band:
        """Return the intervals of the chosen kind."""
        if isinstance(found.estimator, MixtureEstimator):
            return Bootstrap(self.resamples).band(found, target=target, level=level, seed=seed)
        check_asked(found, target, level)
        settled = exact_band(found, target)
        if settled is not None:
            return settled
        linear = Linear.of(found)
        error = linear.standard_error(target)
        is_biased = ~linear.is_unbiased(error, level=level, seed=seed)
        return delta_band(found, linear, error, is_biased, target=target, level=level, seed=seed)
