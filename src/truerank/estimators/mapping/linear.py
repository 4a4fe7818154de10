"""Linear: the cut-off at the rank whose expected sampled rank is k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.core.source import Source
from truerank.core.types import FloatArray
from truerank.estimators.mapping.function import MappingFunction


@dataclass(frozen=True)
class Linear(MappingFunction):
    r"""Straight from 1 to N: the rank whose mean sampled rank is k.

    The baseline. It reads SHR@1 as HR@1 and is far off at small k.

    .. math:: f(k) = 1 + (N - 1) \frac{k - 1}{n - 1}

    Parameters
    ----------
    round : rule for whole ranks

    Examples
    --------
    >>> Linear().locations([1, 2, 100], 100, 3706).round(2).tolist()
    [1.0, 38.42, 3706.0]
    """

    key: ClassVar[str] = "linear"
    source: ClassVar[Source] = Source("li2020", "Eq. 9")

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return Eq. 9."""
        return 1 + (k - 1) * (n_pool - 1) / (n - 1)  # in this order f(n) is N to the digit
