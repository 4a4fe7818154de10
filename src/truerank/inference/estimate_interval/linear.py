"""An estimate with the values that it is linear in: how it varies and whether it is off on average.

What the sampled items, and what the users, add to the variance of a linear estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.parallel import single_threaded_blas
from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.distribution.base import MixtureEstimator, bin_gains
from truerank.estimation.distribution.influence import influence
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import Tally
from truerank.inference.estimate_interval.base import is_degenerate
from truerank.inference.estimate_interval.outcomes import completed, outcomes_of
from truerank.inference.estimate_interval.registry import PointEstimates, Target
from truerank.inference.estimate_interval.worst_bias import largest_bias, worst_bias
from truerank.metrics.base import Metric

_CHUNK = 1 << 22  # gains held at once: 32 MB


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variances of one user's value, mean over users.

    Parameters
    ----------
    sampling : (n_metrics,) what other negatives would change, with all ranks as they are
    total : (n_metrics,) over users, their own differences included; NaN for a single user
    bias : (n_metrics,) of the estimate, where ranks are as fitted; NaN where nothing could be fitted
    """

    sampling: FloatArray
    total: FloatArray
    bias: FloatArray

    def variance(self, target: Target, n_users: int, n_test_users: int | None) -> FloatArray:
        r"""Return the variance of the mean over users about its expectation for a target.

        Of N test users n were drawn, f = n/N. With :math:`V_s` the sampling variance and :math:`V_t` the
        total, the users' own part is :math:`V_t - V_s`, and a mean over n of N carries the share 1 - f of it:

        .. math:: n \operatorname{Var} = V_s + (1 - f) (V_t - V_s) = f V_s + (1 - f) V_t

        All test users have f = 1, all users like them f = 0.
        """
        share = 0.0 if target == "population" else 1.0
        if target == "test-users" and n_test_users is not None:
            share = n_users / n_test_users
        if share == 1.0:
            return self.sampling / n_users
        if share == 0.0:
            return self.total / n_users
        variance: FloatArray = (share * self.sampling + (1 - share) * self.total) / n_users
        return variance


def variance_components(tally: Tally, x: FloatArray, metrics: tuple[Metric, ...]) -> VarianceComponents:
    r"""Return the variances of a linear estimate.

    Parameters
    ----------
    tally : a completed one
    x : (n_cells, n_metrics) corrected values
    metrics : what x are of

    Notes
    -----
    *total* is the variance over users. Users are independent, whatever a user's targets share, so it is on
    average the mean sampling variance plus the variance of the users' means: never less than *sampling*.

    *sampling* is the mean over users of :math:`\operatorname{Var}(\sum_i x(j_i) \mid R)`. The ranks R are not
    known; given what was seen, each target has the posterior mean :math:`v_i` of its variance under ranks
    fitted by ``smooth``. Targets of one user may share their negatives in ways that a table does not tell, so
    their standard deviations are added, not their variances: by Minkowski's inequality the posterior mean of
    the variance of a sum is at most :math:`(\sum_i \sqrt{v_i})^2`, with equality for one target. The places
    of a tied target are treated alike. Where that exceeds *total*, or nothing can be fitted, *total* is
    taken.
    """
    plain, fitted = user_variance(tally, x), _fitted(tally, x, metrics)
    if fitted is None:
        return plain
    variance, bias = fitted
    spread = tally.per_user(np.sqrt(variance))
    return VarianceComponents(np.fmin((spread**2).mean(axis=0), plain.total), plain.total, bias)


def user_variance(tally: Tally, x: FloatArray) -> VarianceComponents:
    """Return the variance over users, which stands in for that of the sample as well."""
    values = tally.per_user(x)
    n_users, n_metrics = values.shape
    total = values.var(axis=0, ddof=1) if n_users > 1 else np.full(n_metrics, np.nan)
    return VarianceComponents(total, total, np.full(n_metrics, np.nan))


def _fitted(tally: Tally, x: FloatArray, metrics: tuple[Metric, ...]) -> tuple[FloatArray, FloatArray] | None:
    """Return the posterior mean variance of x in each cell seen, and the bias; None without a fit."""
    if tally.design.law != "uniform":
        return None
    try:
        likelihood, fit = Smooth().fit_tallies([tally])
    except (CannotEstimate, InvalidData, InvalidParameter):
        return None
    grid, seen = likelihood.grid, likelihood.cells[0]
    posterior = likelihood.posterior(fit.masses[0])
    variance, bias = np.zeros_like(x), np.zeros(len(metrics))
    with single_threaded_blas():
        for outcomes in outcomes_of(tally):
            probabilities = outcomes.probabilities(grid)
            step = max(_CHUNK // (len(metrics) * grid.n_bins), 1)
            for start in range(0, len(outcomes.cells), step):
                part = slice(start, start + step)
                contexts = tally.contexts.take(outcomes.contexts[part])
                gains = np.stack([bin_gains(metric, contexts, grid) for metric in metrics], axis=-1)
                for cells, gain in zip(outcomes.cells[part], gains, strict=True):
                    own = cells[tally.cell_weights[cells] > 0]
                    middle = x[cells].mean(axis=0)
                    mean = probabilities @ (x[cells] - middle)
                    spread = np.maximum(probabilities @ (x[cells] - middle) ** 2 - mean**2, 0.0)
                    of_cells = posterior[seen[own]]
                    variance[own] = of_cells @ spread
                    masses = tally.cell_weights[own] @ of_cells / tally.n_users
                    bias += masses @ (mean + middle - gain)
    return variance, bias


#: A bias below this many standard errors lets an interval of 95 % hold in 94.5 %.
NEGLIGIBLE_BIAS = 0.2
_NOTHING = 1e-12
_RANKS = 1 << 21  # so many are looked at one by one, all contexts together


@dataclass(frozen=True, eq=False)
class LinearisedEstimate:
    """Corrected values in every cell that a sample can have, or those of a fit in first order.

    Parameters
    ----------
    found : the estimates
    counted : their tally, completed
    x : (n_cells, n_metrics)
    has_all : whether cells that nobody is in have values
    """

    found: PointEstimates
    counted: Tally
    x: FloatArray
    has_all: bool = True

    @classmethod
    def of(cls, found: PointEstimates, target: Target = "test-users") -> LinearisedEstimate:
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
    def noise(self) -> VarianceComponents:
        """The variances."""
        if not self.has_all:
            return user_variance(self.counted, self.x)
        return variance_components(self.counted, self.x, self.found.metrics)

    def standard_error(self, target: Target) -> FloatArray:
        """Return the standard error of each metric for a target; NaN for a single user."""
        return self._root(target, self.counted.design.n_test_users)

    def sampling_error(self) -> FloatArray:
        """Return the standard error as an estimate of the value of just these users."""
        return self._root("test-users", None)

    def has_spread(self, error: FloatArray) -> BoolArray:
        """Return which standard errors are more than rounding, if the sample has any spread."""
        if is_degenerate(self.counted):
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
            found[column] = bias <= NEGLIGIBLE_BIAS * float(error[column])
        return found

    def is_unbiased(self, error: FloatArray, *, level: float) -> BoolArray:
        """Return which metrics have no bias to speak of for any ranks that the sample allows."""
        found = self.is_surely_unbiased(error)
        if self.is_fitted:  # the bias of a fit is not linear in the ranks
            return found
        left = np.flatnonzero(~found & ~self._is_plainly_biased(error))
        if len(left):
            metrics = tuple(self.found.metrics[column] for column in left.tolist())
            some = replace(self.found, metrics=metrics, value=self.found.value[left])
            try:
                ends = worst_bias(some, self.counted, self.x[:, left], level=level)
            except (CannotEstimate, InvalidData, InvalidParameter):
                return found
            found[left] = np.abs(ends).max(axis=1) <= NEGLIGIBLE_BIAS * error[left]
        return found

    def _root(self, target: Target, n_test_users: int | None) -> FloatArray:
        if self.counted.n_users == 1:
            return np.full(len(self.found.metrics), np.nan)
        found: FloatArray = np.sqrt(self.noise.variance(target, self.counted.n_users, n_test_users))
        return found

    def _is_plainly_biased(self, error: FloatArray) -> BoolArray:
        """Return which metrics have a bias where ranks are as fitted, or where that is not known."""
        plain: BoolArray = ~(np.abs(self.noise.bias) <= NEGLIGIBLE_BIAS * error)
        return plain
