"""An estimate with the values that it is linear in: how it varies and whether it is off on average."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.tally import Tally
from truerank.core.types import BoolArray, FloatArray
from truerank.core.uncertainty import Estimated, Target
from truerank.estimators.influence import influence
from truerank.estimators.mixture import MixtureEstimator
from truerank.uncertainty.extent import is_flat
from truerank.uncertainty.noise import Noise, noise_of, users_noise
from truerank.uncertainty.outcomes import completed, outcomes_of
from truerank.uncertainty.worst_bias import largest_bias, worst_bias

#: A bias below this many standard errors lets an interval of 95 % hold in 94.5 %.
SMALL = 0.2
_NOTHING = 1e-12
_RANKS = 1 << 21  # so many are looked at one by one, all contexts together


@dataclass(frozen=True, eq=False)
class Linear:
    """Corrected values in every cell that a sample can have, or those of a fit in first order.

    Parameters
    ----------
    found : the estimates
    counted : their tally, completed
    x : (n_cells, n_metrics)
    has_all : whether cells that nobody is in have values
    """

    found: Estimated
    counted: Tally
    x: FloatArray
    has_all: bool = True

    @classmethod
    def of(cls, found: Estimated, target: Target = "test-users") -> Linear:
        """Compute the values; those of a fit are its derivatives.

        A fit has none in cells that nobody is in where its target, ``population``, does not ask for them.
        """
        counted, estimator = completed(found.tally), found.estimator
        if not isinstance(estimator, MixtureEstimator):
            return cls(found, counted, estimator.corrected(counted, found.metrics))
        if target == "population":
            none = np.zeros(0, dtype=np.int64)
            return cls(found, found.tally, influence(estimator, found.tally, found.metrics, none), False)
        possible = np.concatenate([one.cells.ravel() for one in outcomes_of(counted)])
        return cls(found, counted, influence(estimator, counted, found.metrics, possible))

    @property
    def is_fitted(self) -> bool:
        """Whether the estimate is linear in first order only."""
        return isinstance(self.found.estimator, MixtureEstimator)

    @cached_property
    def noise(self) -> Noise:
        """The variances."""
        if not self.has_all:
            return users_noise(self.counted, self.x)
        return noise_of(self.counted, self.x, self.found.metrics)

    def standard_error(self, target: Target) -> FloatArray:
        """Return the standard error of each metric for a target; NaN for a single user."""
        return self._root(target, self.counted.design.n_test_users)

    def sampling_error(self) -> FloatArray:
        """Return the standard error as an estimate of the value of just these users."""
        return self._root("test-users", None)

    def has_spread(self, error: FloatArray) -> BoolArray:
        """Return which standard errors are more than rounding, if the sample has any spread."""
        if is_flat(self.counted):
            return np.zeros(len(error), dtype=np.bool_)
        spread: BoolArray = error > _NOTHING * np.maximum(np.ptp(self.x, axis=0), 1.0)
        return spread

    def is_surely_unbiased(self, error: FloatArray) -> BoolArray:
        """Return which metrics have no bias to speak of, whatever the ranks are."""
        found = np.zeros(len(error), dtype=np.bool_)
        if self.is_fitted or int((self.counted.contexts.n_candidates + 1).sum()) > _RANKS:
            return found
        for column in np.flatnonzero(~self._is_plainly_biased(error)).tolist():
            bias = largest_bias(self.counted, self.x, self.found.metrics[column], column)
            found[column] = bias <= SMALL * float(error[column])
        return found

    def is_unbiased(self, error: FloatArray, *, level: float, seed: int) -> BoolArray:
        """Return which metrics have no bias to speak of for any ranks that the sample allows."""
        found = self.is_surely_unbiased(error)
        if self.is_fitted:  # the bias of a fit is not linear in the ranks
            return found
        left = np.flatnonzero(~found & ~self._is_plainly_biased(error))
        if len(left):
            metrics = tuple(self.found.metrics[column] for column in left.tolist())
            some = replace(self.found, metrics=metrics, value=self.found.value[left])
            try:
                ends = worst_bias(some, self.counted, self.x[:, left], level=level, seed=seed)
            except (CannotEstimate, InvalidData, InvalidParameter):
                return found
            found[left] = np.abs(ends).max(axis=1) <= SMALL * error[left]
        return found

    def _root(self, target: Target, n_test_users: int | None) -> FloatArray:
        if self.counted.n_users == 1:
            return np.full(len(self.found.metrics), np.nan)
        found: FloatArray = np.sqrt(self.noise.variance(target, self.counted.n_users, n_test_users))
        return found

    def _is_plainly_biased(self, error: FloatArray) -> BoolArray:
        """Return which metrics have a bias where ranks are as fitted, or where that is not known."""
        plain: BoolArray = ~(np.abs(self.noise.bias) <= SMALL * error)
        return plain
