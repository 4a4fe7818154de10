"""Beta with an exponent fitted to the sampled ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from truerank.core.check import check_choice
from truerank.core.errors import CannotEstimate
from truerank.core.source import Source
from truerank.core.tally import Tally
from truerank.core.types import FloatArray
from truerank.estimators.mapping.beta import Beta
from truerank.estimators.mapping.fit import Histogram, fit_by_iteration, fit_by_likelihood
from truerank.estimators.mapping.function import MappingFunction


@dataclass(frozen=True)
class FittedBeta(MappingFunction):
    """``beta`` with the exponent that fits the sampled ranks.

    Specific to a recommender: curves of two recommenders are then read at slightly different locations.

    Parameters
    ----------
    method : ``iteration`` is the published fixed point, whose exponent is too large; ``likelihood`` the
        beta-binomial fit, which is consistent
    round : rule for whole ranks

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.core.tally import tally
    >>> sample = SampledRanks.single([0, 0, 1, 4], n_negatives=9, n_pool=100)
    >>> fitted = FittedBeta(method="likelihood").fit(tally(sample))
    >>> round(fitted.a, 3)
    0.235
    """

    method: Literal["iteration", "likelihood"] = "iteration"
    key: ClassVar[str] = "beta-p"
    source: ClassVar[Source] = Source("li2020", "Eq. 19")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("method", self.method, ("iteration", "likelihood"))

    def fit(self, tally: Tally) -> Beta:
        """Return ``beta`` with the fitted exponent.

        Raises
        ------
        CannotEstimate
            When there are no sampled ranks, or every target is last.
        """
        histogram = Histogram.of(tally)
        a = (fit_by_iteration if self.method == "iteration" else fit_by_likelihood)(histogram)
        return Beta(a, round=self.round)

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Raise: there is no exponent before the fit."""
        raise CannotEstimate(f"'{self}' has no locations before it is fitted. Call fit with a tally first.")
