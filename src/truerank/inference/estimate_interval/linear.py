"""Variance and bias of estimates that are linear, or linearised, in the counts of sampled ranks.

A linear estimate is a mean of corrected values; one from a fitted rank distribution is linearised by its
influence function. Its variance has a component from sampling negatives and one from sampling users.
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
from truerank.inference.estimate_interval.outcomes import complete_tally, possible_outcomes
from truerank.inference.estimate_interval.registry import PointEstimates, Target, sampled_fraction
from truerank.inference.estimate_interval.worst_bias import largest_bias, worst_bias
from truerank.metrics.base import Metric

_CHUNK = 1 << 22  # gains in memory at once: 32 MB


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Variances of the value of one user, averaged over users, and the bias of the estimate.

    Parameters
    ----------
    sampling : (n_metrics,) variance from sampling negatives, given the ranks
    total : (n_metrics,) variance over users, differences between their ranks included; NaN for a single user
    bias : (n_metrics,) under a fitted rank distribution; NaN where none could be fitted
    """

    sampling: FloatArray
    total: FloatArray
    bias: FloatArray

    def variance(self, target: Target, n_users: int, n_test_users: int | None) -> FloatArray:
        r"""Return the variance of the mean over users about its expectation for a target.

        Of N test users n were sampled, f = n/N. With :math:`V_s` the sampling variance and :math:`V_t` the
        total, the variance between users is :math:`V_t - V_s`, and the finite-population correction leaves
        1 - f of it:

        .. math:: n \operatorname{Var} = V_s + (1 - f) (V_t - V_s) = f V_s + (1 - f) V_t

        All test users have f = 1, an infinite population f = 0.
        """
        fraction = sampled_fraction(target, n_users, n_test_users)
        if fraction == 1.0:
            return self.sampling / n_users
        if fraction == 0.0:
            return self.total / n_users
        variance: FloatArray = (fraction * self.sampling + (1 - fraction) * self.total) / n_users
        return variance


def variance_components(tally: Tally, x: FloatArray, metrics: tuple[Metric, ...]) -> VarianceComponents:
    r"""Return the variance components of a linear estimate.

    Parameters
    ----------
    tally : completed, see ``complete_tally``
    x : (n_cells, n_metrics) corrected values
    metrics : those that x estimates

    Notes
    -----
    *total* is the variance over users. Users are independent, however a user's targets depend on each other,
    so its expectation is the mean sampling variance plus the variance between the users' means: never less
    than *sampling*.

    *sampling* is the mean over users of :math:`\operatorname{Var}(\sum_i x(j_i) \mid R)`. The ranks R are
    unknown; each target gets the posterior mean :math:`v_i` of its variance given its sampled rank, under the
    rank distribution fitted by ``smooth``. Targets of one user may share negatives in ways that a table of
    ranks does not record, so their standard deviations are added, not their variances: by Minkowski's
    inequality the posterior mean of the variance of a sum is at most :math:`(\sum_i \sqrt{v_i})^2`, with
    equality for one target. The ranks that a tied target may have are treated as targets of their own. Where
    the result exceeds *total*, or no distribution can be fitted, *total* is used.
    """
    by_user, fitted = user_variance(tally, x), _posterior_variance(tally, x, metrics)
    if fitted is None:
        return by_user
    variance, bias = fitted
    spread = tally.per_user(np.sqrt(variance))
    return VarianceComponents(np.fmin((spread**2).mean(axis=0), by_user.total), by_user.total, bias)


def user_variance(tally: Tally, x: FloatArray) -> VarianceComponents:
    """Return the variance over users as both components, without an estimate of the bias."""
    values = tally.per_user(x)
    n_users, n_metrics = values.shape
    total = values.var(axis=0, ddof=1) if n_users > 1 else np.full(n_metrics, np.nan)
    return VarianceComponents(total, total, np.full(n_metrics, np.nan))


def _posterior_variance(
    tally: Tally, x: FloatArray, metrics: tuple[Metric, ...]
) -> tuple[FloatArray, FloatArray] | None:
    """Return the posterior mean variance of x in each observed cell, and the bias; None without a fit."""
    if tally.design.law != "uniform":
        return None
    try:
        likelihood, fit = Smooth().fit_tallies([tally])
    except (CannotEstimate, InvalidData, InvalidParameter):
        return None
    grid, observed = likelihood.grid, likelihood.cells[0]
    posterior = likelihood.posterior(fit.masses[0])
    variance, bias = np.zeros_like(x), np.zeros(len(metrics))
    with single_threaded_blas():
        for outcomes in possible_outcomes(tally):
            probabilities = outcomes.probabilities(grid)
            step = max(_CHUNK // (len(metrics) * grid.n_bins), 1)
            for start in range(0, len(outcomes.cells), step):
                part = slice(start, start + step)
                contexts = tally.contexts.take(outcomes.contexts[part])
                gains = np.stack([bin_gains(metric, contexts, grid) for metric in metrics], axis=-1)
                for cells, gain in zip(outcomes.cells[part], gains, strict=True):
                    filled = cells[tally.cell_weights[cells] > 0]
                    middle = x[cells].mean(axis=0)
                    mean = probabilities @ (x[cells] - middle)
                    spread = np.maximum(probabilities @ (x[cells] - middle) ** 2 - mean**2, 0.0)
                    of_cells = posterior[observed[filled]]
                    variance[filled] = of_cells @ spread
                    masses = tally.cell_weights[filled] @ of_cells / tally.n_users
                    bias += masses @ (mean + middle - gain)
    return variance, bias


#: In standard errors; a bias this large lowers the coverage of a 95 % interval to 94.5 %.
NEGLIGIBLE_BIAS = 0.2
_ROUNDING = 1e-12
_RANKS = 1 << 21  # ranks of all contexts together up to which the bias is computed at each rank


@dataclass(frozen=True, eq=False)
class LinearisedEstimate:
    """Point estimates as means of values per cell: corrected values, or influence values of a fit.

    Parameters
    ----------
    estimates : the point estimates
    counted : their tally, completed
    x : (n_cells, n_metrics) values
    has_all : whether cells without observations have values, which the sampling variance needs
    """

    estimates: PointEstimates
    counted: Tally
    x: FloatArray
    has_all: bool = True

    @classmethod
    def of(cls, estimates: PointEstimates, target: Target = "test-users") -> LinearisedEstimate:
        """Compute the values.

        Influence values of cells without observations are left out for ``population``, whose variance is
        that over users.
        """
        counted, estimator, metrics = complete_tally(estimates.tally), estimates.estimator, estimates.metrics
        if not isinstance(estimator, MixtureEstimator):
            return cls(estimates, counted, estimator.corrected(counted, metrics))
        if target == "population":
            none = np.zeros(0, dtype=np.int64)
            x = influence(estimator, estimates.tally, metrics, none)
            return cls(estimates, estimates.tally, x, has_all=False)
        possible = np.concatenate([outcomes.cells.ravel() for outcomes in possible_outcomes(counted)])
        return cls(estimates, counted, influence(estimator, counted, metrics, possible))

    @property
    def is_fitted(self) -> bool:
        """Whether the values are influence values, which are linear in first order only."""
        return isinstance(self.estimates.estimator, MixtureEstimator)

    @cached_property
    def components(self) -> VarianceComponents:
        """The variance components."""
        if not self.has_all:
            return user_variance(self.counted, self.x)
        return variance_components(self.counted, self.x, self.estimates.metrics)

    def standard_error(self, target: Target) -> FloatArray:
        """Return the standard error of each metric for a target; NaN for a single user."""
        return self._root(target, self.counted.design.n_test_users)

    def sampling_error(self) -> FloatArray:
        """Return the standard error for the mean over exactly these users; NaN for a single user."""
        return self._root("test-users", None)

    def has_spread(self, error: FloatArray) -> BoolArray:
        """Return which standard errors exceed rounding; none where all sampled ranks are equal."""
        if is_degenerate(self.counted):
            return np.zeros(len(error), dtype=np.bool_)
        has_spread: BoolArray = error > _ROUNDING * np.maximum(np.ptp(self.x, axis=0), 1.0)
        return has_spread

    def is_surely_unbiased(self, error: FloatArray) -> BoolArray:
        """Return which metrics have a negligible bias for every rank distribution."""
        is_unbiased = np.zeros(len(error), dtype=np.bool_)
        if self.is_fitted or int((self.counted.contexts.n_candidates + 1).sum()) > _RANKS:
            return is_unbiased
        for column in np.flatnonzero(~self._is_plainly_biased(error)).tolist():
            bias = largest_bias(self.counted, self.x, self.estimates.metrics[column], column)
            is_unbiased[column] = bias <= NEGLIGIBLE_BIAS * float(error[column])
        return is_unbiased

    def is_unbiased(self, error: FloatArray, *, level: float) -> BoolArray:
        """Return which metrics have a negligible bias for every rank distribution in a confidence region."""
        is_unbiased = self.is_surely_unbiased(error)
        if self.is_fitted:  # the bias of a fit is not linear in the rank distribution
            return is_unbiased
        columns = np.flatnonzero(~is_unbiased & ~self._is_plainly_biased(error))
        if len(columns):
            metrics = tuple(self.estimates.metrics[column] for column in columns.tolist())
            undecided = replace(self.estimates, metrics=metrics, value=self.estimates.value[columns])
            try:
                bias = worst_bias(undecided, self.counted, self.x[:, columns], level=level)
            except (CannotEstimate, InvalidData, InvalidParameter):
                return is_unbiased
            is_unbiased[columns] = np.abs(bias).max(axis=1) <= NEGLIGIBLE_BIAS * error[columns]
        return is_unbiased

    def _root(self, target: Target, n_test_users: int | None) -> FloatArray:
        if self.counted.n_users == 1:
            return np.full(len(self.estimates.metrics), np.nan)
        error: FloatArray = np.sqrt(self.components.variance(target, self.counted.n_users, n_test_users))
        return error

    def _is_plainly_biased(self, error: FloatArray) -> BoolArray:
        """Return which metrics are biased under the fitted rank distribution, or have none fitted."""
        is_biased: BoolArray = ~(np.abs(self.components.bias) <= NEGLIGIBLE_BIAS * error)
        return is_biased
