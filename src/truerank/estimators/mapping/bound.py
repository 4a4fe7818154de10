"""Bound: the middle of what concentration of the sampled rank allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from truerank.core.source import Source
from truerank.core.types import FloatArray
from truerank.estimators.mapping.function import MappingFunction, Rounding


@dataclass(frozen=True)
class Bound(MappingFunction):
    r"""Half a step beyond linear: the middle between the two bounds that Hoeffding's inequality gives.

    .. math:: f(k) = \Bigl\lfloor \bigl(k - \tfrac12\bigr) \frac{N - 1}{n - 1} + \tfrac12 \Bigr\rfloor

    Parameters
    ----------
    round : rule for whole ranks; ``floor`` is the paper's

    Notes
    -----
    Differs from the paper: f(n) as printed exceeds N by half a step and is held at N.

    Examples
    --------
    >>> Bound().locations([1, 100], 100, 3706).round(2).tolist(), Bound().places([2], 100, 3706).tolist()
    ([19.21, 3706.0], [56.0])
    """

    round: Rounding = field(default="floor", kw_only=True)
    key: ClassVar[str] = "bound"
    source: ClassVar[Source] = Source("li2020", "Eq. 13")

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return Eq. 13 before the floor."""
        return (k - 0.5) * ((n_pool - 1) / (n - 1)) + 0.5
