"""Beta: exact when ranks follow Beta(a, 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import betaln, gammaln

from truerank.core.check import check_above
from truerank.core.errors import InvalidParameter
from truerank.core.source import Source
from truerank.core.types import FloatArray
from truerank.estimators.mapping.function import MappingFunction

_STEPS = 16  # up to where the terms of the series that are kept are exact


@dataclass(frozen=True)
class Beta(MappingFunction):
    r"""The power mean of a Beta(k, n - k) variable: exact for ranks that follow Beta(a, 1).

    .. math:: f(k; a) = 1 + (N - 1) \Bigl( \frac{\Gamma(n)\, \Gamma(k + a)}{\Gamma(n + a)\, \Gamma(k)}
              \Bigr)^{1/a} = 1 + (N - 1) \bigl( E X^a \bigr)^{1/a}, \quad X \sim \text{Beta}(k, n - k)

    a = 1 is a straight line, 1 + k (N - 1)/n; a = 0 the limit, the geometric mean of X, which lies next to
    ``bound``. f rises with a, as power means do, and f(n) = N. Time O(1) per k.

    Parameters
    ----------
    a : exponent of the distribution function of ranks, >= 0; 0.5 is what the paper recommends when nothing
        is known
    round : rule for whole ranks

    Notes
    -----
    Implements Eq. 16-18 of [li2020]_ in closed form; ``recurrence`` is the form printed there.

    Examples
    --------
    >>> Beta(0.5).locations([1, 10, 100], 100, 3706).round(4).tolist()
    [30.1718, 363.2606, 3706.0]
    >>> str(Beta(0.3))
    'beta(a=0.3)'
    """

    a: float = 0.5
    key: ClassVar[str] = "beta"
    source: ClassVar[Source] = Source("li2020", "Eq. 16-18")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.a < np.inf):
            raise InvalidParameter(f"a must be a number >= 0, got {self.a!r}. Use for example 0.5.")

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return the closed form."""
        return 1 + (n_pool - 1) * np.exp(log_share(k, n, self.a))


def log_share(k: FloatArray, n: FloatArray | int, a: float) -> FloatArray:
    """Return ln((f(k; a) - 1)/(N - 1)), which no N enters: -inf at k = 0 and 0 at k = n.

    Examples
    --------
    >>> np.exp(log_share(np.array([0.0, 1.0, 4.0]), 4, 1.0)).round(12).tolist()  # k/n
    [0.0, 0.25, 1.0]
    """
    length = np.asarray(n, dtype=np.float64)
    inside = np.where(k > 0, k, 1.0)
    found = np.minimum(mean_digamma(inside, a) - mean_digamma(length, a), 0.0)
    return np.where(k > 0, np.where(k >= length, 0.0, found), -np.inf)


def mean_digamma(x: FloatArray, a: float) -> FloatArray:
    """Return (ln Gamma(x + a) - ln Gamma(x))/a, the mean of digamma over [x, x + a]; digamma at a = 0.

    Stirling's series, divided by a term by term after 16 steps up, so that neither a small a nor a large x
    costs digits: to about 1e-15, where the difference of two ``gammaln`` loses nine digits at x = 1e6.

    Examples
    --------
    >>> mean_digamma(np.array([3.0]), 1.0).round(12).tolist()  # ln 3
    [1.098612288668]
    """
    tiny = a < 1e-150

    def slope(at: FloatArray) -> FloatArray:
        """Return ln(1 + a/x)/a."""
        return 1 / at if tiny else np.log1p(a / at) / a

    steps: FloatArray = np.zeros_like(x)
    for step in range(_STEPS):
        steps = steps + slope(x + step)
    x = x + _STEPS
    u, v = 1 / x, 1 / (x + a)
    ends = [sum(u ** (power - i) * v**i for i in range(power + 1)) for power in (0, 2, 4, 6)]
    series = u * v * (-ends[0] / 12 + ends[1] / 360 - ends[2] / 1260 + ends[3] / 1680)
    return (x + a - 0.5) * slope(x) + np.log(x) - 1 + series - steps


def recurrence(n: int, n_pool: int, a: float) -> FloatArray:
    r"""Return f(1; a) ... f(n; a) step by step, as printed; for comparison.

    .. math:: f(1; a) = 1 + (N - 1) [a B(a, n)]^{1/a}, \quad
              [f(k + 1; a) - 1]^a = [f(k; a) - 1]^a + a (N - 1)^a \binom{n - 1}{k} B(a + k, n - k)

    Raises
    ------
    InvalidParameter
        When a is not > 0; the recurrence has no limit form.

    Examples
    --------
    >>> recurrence(4, 9, 1.0).round(12).tolist()  # 1 + 8 k/4
    [3.0, 5.0, 7.0, 9.0]
    """
    check_above("a", a, 0)
    powers = np.empty(n)
    powers[0] = a * np.exp(betaln(a, n))
    for k in range(1, n):
        choose = gammaln(n) - gammaln(k + 1) - gammaln(n - k)
        powers[k] = powers[k - 1] + a * np.exp(choose + betaln(a + k, n - k))
    return 1 + (n_pool - 1) * powers ** (1 / a)
