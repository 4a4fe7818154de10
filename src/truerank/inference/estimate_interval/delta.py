"""Standard errors in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.types import BoolArray, FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.priors import fitted_prior
from truerank.estimation.mapping.estimator import Mapped
from truerank.estimation.mapping.functions import MappingFunction
from truerank.inference.estimate_interval.base import Asked, EstimateInterval, with_spread, within_range
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.registry import Estimated
from truerank.inference.user_interval import Band

IGNORES = ", ignores bias"


@dataclass(frozen=True)
class Delta(EstimateInterval):
    r"""Estimate plus and minus Student's quantile times the standard error.

    .. math:: \hat\theta \pm t_{n-1} \sqrt{\operatorname{Var}}, \qquad
              n \operatorname{Var} = f V_s + (1 - f) V_t

    with the variance over users :math:`V_t`, the part of it that other negatives would change :math:`V_s`,
    and f = 1 for ``test-users``, 0 for ``population``, n/N where n of N test users were evaluated. Tens of
    milliseconds, for fits up to seconds where samples have thousands of outcomes. Linear estimators have
    values per cell; those of a fitted distribution are its derivatives in the weights of the cells
    (``truerank.estimation.distribution.influence``). Priors and mappings that are fitted to the sample are
    held as they are, and the method says so. A design that is not uniform says nothing of the whole pool:
    the interval is for the sampled metric.

    Notes
    -----
    How :math:`V_s` is had without knowing ranks: ``truerank.inference.estimate_interval.linear.noise_of``.

    Examples
    --------
    >>> str(Delta())
    'delta'
    """

    key: ClassVar[str] = "delta"

    def inexact(self, found: Estimated, asked: Asked) -> Band:
        """Return the intervals."""
        linear = LinearisedEstimate.of(found, asked.target)
        error = linear.standard_error(asked.target)
        is_biased = ~linear.is_surely_unbiased(error)
        return delta_band(found, linear, error, is_biased, asked)


def delta_band(
    found: Estimated, linear: LinearisedEstimate, error: FloatArray, is_biased: BoolArray, asked: Asked
) -> Band:
    """Return the intervals from standard errors, named by what they leave out."""
    half = stdtrit(max(found.tally.n_users - 1, 1), (1 + asked.level) / 2) * error
    low, high = within_range(found, asked.target, found.value - half, found.value + half)
    method = named("delta", found, is_biased)
    has_spread = linear.has_spread(error)
    band = Band(low, high, method)
    return with_spread(found, band, has_spread, target=asked.target, level=asked.level)


def named(method: str, found: Estimated, is_biased: BoolArray) -> tuple[str, ...]:
    """Return the method of each metric: what is held, what it is for, and whether it ignores bias."""
    name = f"{method}{held(found.estimator)}"
    if found.tally.design.law != "uniform":
        name += ", of the sampled metric"
    return tuple(name + (IGNORES if biased else "") for biased in np.atleast_1d(is_biased))


def held(estimator: Estimator) -> str:
    """Return what an interval of a linear estimator takes for given although it is fitted."""
    if fitted_prior(estimator) is not None:
        return ", prior held"
    if isinstance(estimator, Mapped) and getattr(type(estimator.f), "fit", None) is not MappingFunction.fit:
        return ", mapping held"
    return ""
