"""Bootstrap intervals of estimates: Student's quantile times the spread of resampled estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.errors import MOST_RESAMPLES, check_at_least
from truerank.core.plugin import Source
from truerank.core.types import BoolArray
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.inference.estimate_interval.base import (
    EstimateInterval,
    IntervalRequest,
    clip_to_range,
    is_degenerate,
    replace_degenerate,
)
from truerank.inference.estimate_interval.delta import method_names
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.estimate_interval.resampling import resample_estimates
from truerank.inference.user_interval import Band

_NOTHING = 1e-12


@dataclass(frozen=True)
class Bootstrap(EstimateInterval):
    r"""Estimate plus and minus Student's quantile times the standard deviation of resampled estimates.

    Meant for estimators that fit a rank distribution; for others ``delta`` gives the same faster. A target of
    ``population`` resamples the users, ``test-users`` the negatives of the same users; see
    ``resampling.resample_estimates``. Seconds for 1,000 resamples, whatever the number of users.

    Parameters
    ----------
    resamples : bootstrap repetitions, at least 50

    Notes
    -----
    The standard deviation is used rather than quantiles of the resampled estimates: fitted estimates are
    biased, and biased once more on samples from the fitted distribution, so quantiles would be off centre.
    docs/uncertainty.md has the coverage of each.
    """

    resamples: int = 1000
    key: ClassVar[str] = "bootstrap"
    source: ClassVar[Source] = Source("efron1987")

    def __post_init__(self) -> None:
        check_at_least("resamples of bootstrap", self.resamples, 50, MOST_RESAMPLES)

    def estimate_band(self, estimates: PointEstimates, request: IntervalRequest) -> Band:
        """Return the intervals."""
        values = resample_estimates(
            estimates,
            target=request.target,
            resamples=self.resamples,
            seed=request.seed,
            progress=request.progress,
        )
        error = values.std(axis=0, ddof=1)
        half = stdtrit(max(estimates.tally.n_users - 1, 1), (1 + request.level) / 2) * error
        low, high = clip_to_range(estimates, request.target, estimates.value - half, estimates.value + half)
        is_biased: BoolArray = np.ones(len(error), dtype=np.bool_)
        if not isinstance(estimates.estimator, MixtureEstimator):
            is_biased = ~LinearisedEstimate.of(estimates).is_surely_unbiased(error)
        has_spread: BoolArray = (
            (error > _NOTHING) & (estimates.tally.n_users > 1) & (not is_degenerate(estimates.tally))
        )
        band = Band(low, high, method_names("bootstrap", estimates, is_biased))
        return replace_degenerate(estimates, band, has_spread, target=request.target, level=request.level)
