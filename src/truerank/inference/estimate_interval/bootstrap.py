"""Resampling: intervals of estimators that fit a distribution of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.errors import check_at_least
from truerank.core.plugin import Source
from truerank.core.types import BoolArray
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.inference.estimate_interval.base import (
    Asked,
    EstimateInterval,
    is_flat,
    with_spread,
    within_range,
)
from truerank.inference.estimate_interval.delta import named
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import Estimated
from truerank.inference.estimate_interval.resampling import resampled
from truerank.inference.user_interval import Band

_NOTHING = 1e-12


@dataclass(frozen=True)
class Bootstrap(EstimateInterval):
    r"""Estimate plus and minus Student's quantile times the spread of estimates from new samples.

    For estimators of a rank distribution; others have ``delta``, with which it agrees. ``population`` draws
    other users, ``test-users`` other negatives for the same ones; see ``resampling.resampled``. Seconds
    for 1,000 resamples, whatever the number of users.

    Parameters
    ----------
    resamples : new samples, at least 50

    Notes
    -----
    The spread is taken rather than quantiles of the new estimates: fits are biased, and again so on samples
    of what was fitted, so quantiles are off centre. docs/uncertainty.md has the coverage of each.
    """

    resamples: int = 1000
    key: ClassVar[str] = "bootstrap"
    source: ClassVar[Source] = Source("efron1987")

    def __post_init__(self) -> None:
        check_at_least("resamples of bootstrap", self.resamples, 50)

    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the intervals."""
        values = resampled(
            found, target=asked.target, resamples=self.resamples, seed=asked.seed, progress=asked.progress
        )
        error = values.std(axis=0, ddof=1)
        half = stdtrit(max(found.tally.n_users - 1, 1), (1 + asked.level) / 2) * error
        low, high = within_range(found, asked.target, found.value - half, found.value + half)
        is_biased: BoolArray = np.ones(len(error), dtype=np.bool_)
        if not isinstance(found.estimator, MixtureEstimator):
            is_biased = ~LinearisedEstimate.of(found).is_surely_unbiased(error)
        has_spread: BoolArray = (error > _NOTHING) & (found.tally.n_users > 1) & (not is_flat(found.tally))
        band = Band(low, high, named("bootstrap", found, is_biased))
        return with_spread(found, band, has_spread, target=asked.target, level=asked.level)
