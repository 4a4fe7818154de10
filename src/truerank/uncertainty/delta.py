"""Standard errors in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import stdtrit

from truerank.core.estimator import Estimator
from truerank.core.interval import Band
from truerank.core.progress import SILENT, Progress
from truerank.core.types import BoolArray, FloatArray
from truerank.core.uncertainty import Estimated, Target, Uncertainty
from truerank.estimators.fitted import fitted_prior
from truerank.estimators.mapped import Mapped
from truerank.estimators.mapping.function import MappingFunction
from truerank.uncertainty.ends import check_asked, exact_band, with_spread, within_range
from truerank.uncertainty.linear import Linear

IGNORES = ", ignores bias"


@dataclass(frozen=True)
class Delta(Uncertainty):
    r"""Estimate plus and minus Student's quantile times the standard error.

    .. math:: \hat\theta \pm t_{n-1} \sqrt{\operatorname{Var}}, \qquad
              n \operatorname{Var} = f V_s + (1 - f) V_t

    with the variance over users :math:`V_t`, the part of it that other negatives would change :math:`V_s`,
    and f = 1 for ``test-users``, 0 for ``population``, n/N where n of N test users were evaluated. Tens of
    milliseconds, for fits up to seconds where samples have thousands of outcomes. Linear estimators have
    values per cell; those of a fitted distribution are its derivatives in the weights of the cells
    (``truerank.estimators.influence``). Priors and mappings that are fitted to the sample are held as they
    are, and the method says so. A design that is not uniform says nothing of the whole pool: the interval is
    for the sampled metric.

    Notes
    -----
    How :math:`V_s` is had without knowing ranks: ``truerank.uncertainty.noise.noise_of``.

    Examples
    --------
    >>> str(Delta())
    'delta'
    """

    key: ClassVar[str] = "delta"

    def band(
        self,
        found: Estimated,
        *,
        target: Target = "test-users",
        level: float = 0.95,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Band:
        """Return the intervals."""
        check_asked(found, target, level)
        settled = exact_band(found, target)
        if settled is not None:
            return settled
        linear = Linear.of(found, target)
        error = linear.standard_error(target)
        is_biased = ~linear.is_surely_unbiased(error)
        return delta_band(found, linear, error, is_biased, target=target, level=level, seed=seed)


def delta_band(
    found: Estimated,
    linear: Linear,
    error: FloatArray,
    is_biased: BoolArray,
    *,
    target: Target,
    level: float,
    seed: int,
) -> Band:
    """Return the intervals from standard errors, named by what they leave out."""
    half = stdtrit(max(found.tally.n_users - 1, 1), (1 + level) / 2) * error
    low, high = within_range(found, target, found.value - half, found.value + half)
    method = named("delta", found, is_biased)
    has_spread = linear.has_spread(error)
    return with_spread(found, Band(low, high, method), has_spread, target=target, level=level, seed=seed)


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
