"""Mapping functions of Li et al. 2020: global cut-offs f(k) with HR@f(k) close to the sampled SHR@k.

``linear`` maps k to the rank whose expected sampled rank is k; ``bound`` to the middle of the interval that
concentration of the sampled rank allows; ``beta`` is exact when relative ranks follow Beta(a, 1), with a
given or fitted to the sampled ranks (``beta-p``). Each has an inverse and a rule by which a real location
becomes a rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaln, digamma, gammaln

from truerank.core.errors import (
    CannotEstimate,
    InvalidParameter,
    NotConverged,
    check_above,
    check_at_least,
    check_choice,
)
from truerank.core.plugin import Plugin, Registry, Source
from truerank.core.types import FloatArray
from truerank.estimation.tally import Tally

Rounding: TypeAlias = Literal["nearest", "floor", "interpolate"]
ROUNDINGS: tuple[Rounding, ...] = ("nearest", "floor", "interpolate")
_HALVINGS = 60  # of the interval [0, n] in the search for an inverse: to the last bit


@dataclass(frozen=True)
class MappingFunction(Plugin, ABC):
    """A function f with SHR@k close to HR@f(k).

    k = 1..n is a cut-off of the sampled list, f(k) in [1, N] one of the whole list; both lists hold the
    target. A location is a real number; ``round`` is the rule by which the hit ratio is read there.

    Parameters
    ----------
    round : ``nearest`` takes the nearest rank, the even one of two, as the printed tables do; ``floor`` the
        next smaller one; ``interpolate`` interpolates the hit ratio linearly between the two
    """

    round: Rounding = field(default="nearest", kw_only=True)

    def __post_init__(self) -> None:
        check_choice("round", self.round, ROUNDINGS)

    @abstractmethod
    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return f at real k in [0, n], before it is clipped to [1, N]; increasing in k."""

    @property
    def is_fitted(self) -> bool:
        """Whether a parameter is fitted to the sampled ranks, so that ``fit`` is overridden."""
        return type(self).fit is not MappingFunction.fit

    def fit(self, tally: Tally) -> MappingFunction:
        """Return the function for these sampled ranks: itself, unless it has a parameter to fit."""
        return self

    def locations(self, k: ArrayLike, n: int, n_pool: int) -> FloatArray:
        """Return f(k; n, N) within [1, N].

        Parameters
        ----------
        k : cut-offs of the sampled list, in [0, n], whole or not
        n : the sampled list, target included: n_negatives + 1
        n_pool : N, the whole list, target included

        Raises
        ------
        InvalidParameter
            When a size is below 2, or a cut-off lies outside [0, n].
        """
        cutoffs = np.asarray(k, dtype=np.float64)
        _check_sizes(n, n_pool)
        if cutoffs.size and not (cutoffs.min() >= 0 and cutoffs.max() <= n):
            raise InvalidParameter(f"k must lie in 0..{n}, the sampled list, got {_span(cutoffs)}.")
        return np.clip(self.raw(cutoffs, n, n_pool), 1.0, float(n_pool))

    def rounded_locations(self, k: ArrayLike, n: int, n_pool: int) -> FloatArray:
        """Return f(k; n, N) rounded by the rule: whole numbers unless the rule is ``interpolate``."""
        return round_to_ranks(self.locations(k, n, n_pool), n_pool, self.round)

    def inverse(self, location: ArrayLike, n: int, n_pool: int) -> FloatArray:
        """Return the real k in [0, n] with f(k) = location, clipped to [0, n].

        Raises
        ------
        InvalidParameter
            When a size is below 2, or a location lies outside [1, N].
        """
        wanted = np.asarray(location, dtype=np.float64)
        _check_sizes(n, n_pool)
        if wanted.size and not (wanted.min() >= 1 and wanted.max() <= n_pool):
            raise InvalidParameter(f"a location must lie in 1..{n_pool}, the pool, got {_span(wanted)}.")
        low, high = np.zeros_like(wanted), np.full_like(wanted, n)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_below = self.raw(middle, n, n_pool) < wanted
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return high


def round_to_ranks(locations: FloatArray, n_pool: int, rule: Rounding) -> FloatArray:
    """Return locations as ranks within 1..N by a named rule.

    Examples
    --------
    >>> round_to_ranks(np.array([0.2, 371.5, 372.5, 9.0]), 400, "nearest").tolist()
    [1.0, 372.0, 372.0, 9.0]
    """
    if rule == "interpolate":
        return locations
    whole = np.rint(locations) if rule == "nearest" else np.floor(locations)
    return np.clip(whole, 1.0, float(n_pool))


def _check_sizes(n: int, n_pool: int) -> None:
    if n < 2 or n_pool < 2:
        raise InvalidParameter(
            f"n and n_pool must be at least 2, the target and one other item, got {n} and {n_pool}."
        )


def _span(values: FloatArray) -> str:
    return f"{values.min():g}..{values.max():g}"


@dataclass(frozen=True)
class LinearMapping(MappingFunction):
    r"""Straight from 1 to N: the rank whose mean sampled rank is k.

    The baseline. It reads SHR@1 as HR@1 and is far off at small k.

    .. math:: f(k) = 1 + (N - 1) \frac{k - 1}{n - 1}

    Parameters
    ----------
    round : rule for whole ranks

    Examples
    --------
    >>> LinearMapping().locations([1, 2, 100], 100, 3706).round(2).tolist()
    [1.0, 38.42, 3706.0]
    """

    key: ClassVar[str] = "linear"
    source: ClassVar[Source] = Source("li2020", "Eq. 9")

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return Eq. 9."""
        return 1 + (k - 1) * (n_pool - 1) / (n - 1)  # in this order f(n) is N to the digit


@dataclass(frozen=True)
class BoundMapping(MappingFunction):
    r"""Half a step beyond linear: the middle between the two bounds that Hoeffding's inequality gives.

    .. math:: f(k) = \Bigl\lfloor \bigl(k - \tfrac12\bigr) \frac{N - 1}{n - 1} + \tfrac12 \Bigr\rfloor

    Parameters
    ----------
    round : rule for whole ranks; ``floor`` is the paper's

    Notes
    -----
    Differs from the paper: f(n) as printed exceeds N by half a step and is set to N.

    Examples
    --------
    >>> mapping = BoundMapping()
    >>> mapping.locations([1, 100], 100, 3706).round(2).tolist()
    [19.21, 3706.0]
    >>> mapping.rounded_locations([2], 100, 3706).tolist()
    [56.0]
    """

    round: Rounding = field(default="floor", kw_only=True)
    key: ClassVar[str] = "bound"
    source: ClassVar[Source] = Source("li2020", "Eq. 13")

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return Eq. 13 before the floor."""
        return (k - 0.5) * ((n_pool - 1) / (n - 1)) + 0.5


_STEPS = 16  # up to where the terms of the series that are kept are exact


@dataclass(frozen=True)
class BetaMapping(MappingFunction):
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
    >>> BetaMapping(0.5).locations([1, 10, 100], 100, 3706).round(4).tolist()
    [30.1718, 363.2606, 3706.0]
    >>> str(BetaMapping(0.3))
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
        return 1 + (n_pool - 1) * np.exp(log_fraction(k, n, self.a))


def log_fraction(k: FloatArray, n: FloatArray | int, a: float) -> FloatArray:
    """Return ln((f(k; a) - 1)/(N - 1)), which does not depend on N: -inf at k = 0 and 0 at k = n.

    Examples
    --------
    >>> np.exp(log_fraction(np.array([0.0, 1.0, 4.0]), 4, 1.0)).round(12).tolist()  # k/n
    [0.0, 0.25, 1.0]
    """
    length = np.asarray(n, dtype=np.float64)
    inside = np.where(k > 0, k, 1.0)
    logarithm = np.minimum(mean_digamma(inside, a) - mean_digamma(length, a), 0.0)
    return np.where(k > 0, np.where(k >= length, 0.0, logarithm), -np.inf)


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
    sums = [sum(u ** (power - i) * v**i for i in range(power + 1)) for power in (0, 2, 4, 6)]
    series = u * v * (-sums[0] / 12 + sums[1] / 360 - sums[2] / 1260 + sums[3] / 1680)
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


@dataclass(frozen=True, eq=False)
class SampledRankCounts:
    """Frequencies of sampled ranks in lists of each length.

    Parameters
    ----------
    rank : (c,) r = 1..n
    length : (c,) n, the list with the target
    weight : (c,) > 0; the targets of a user weigh 1 in sum
    """

    rank: FloatArray
    length: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, tally: Tally) -> SampledRankCounts:
        """Add up the cells of a tally; ranks count irrelevant items only.

        Raises
        ------
        CannotEstimate
            When there is no sampled rank, or every target is last in its sample.
        """
        lengths = tally.contexts.n_negatives + 1
        each = np.repeat(lengths, lengths)
        rank = np.arange(tally.n_cells) - np.repeat(tally.offsets[:-1], lengths) + 1
        weight = tally.cell_weights / np.repeat(tally.contexts.n_relevant, lengths)
        pairs, which = np.unique(np.stack([each, rank], axis=1), axis=0, return_inverse=True)
        total = np.zeros(len(pairs))
        np.add.at(total, which.ravel(), weight)
        seen = total > 0
        if not seen.any():
            raise CannotEstimate("a fit needs at least one sampled rank, got none.")
        counts = cls(pairs[seen, 1].astype(float), pairs[seen, 0].astype(float), total[seen])
        if (counts.rank == counts.length).all():
            raise CannotEstimate(
                "a fit needs a target that is not last in its sample, but all are. "
                "Use a mapping without a fit, such as beta(a=1)."
            )
        return counts


def fit_by_iteration(
    histogram: SampledRankCounts, *, start: float = 0.5, tolerance: float = 1e-10, max_iterations: int = 200
) -> float:
    r"""Return the fixed point of the published iteration.

    .. math:: a \leftarrow -M \Big/ \sum_u \ln \frac{f(r_u; a) - 1}{N - 1}

    N cancels. The hidden rank is replaced by f(r), so the exponent comes out too large, however many users
    there are: 0.45 instead of 0.37 for n = 100. Use ``fit_by_likelihood`` unless the paper is reproduced.

    Parameters
    ----------
    histogram : the sampled ranks
    start : first value, > 0
    tolerance : relative change at which to stop

    Raises
    ------
    NotConverged
        When the change is still larger after ``max_iterations``.

    Notes
    -----
    Implements Eq. 19 of [li2020]_.
    """
    check_above("start", start, 0)
    check_at_least("max_iterations", max_iterations, 1)
    a, total = start, histogram.weight.sum()
    for _ in range(max_iterations):
        before = a
        a = float(-total / (histogram.weight @ log_fraction(histogram.rank, histogram.length, before)))
        if abs(a - before) <= tolerance * before:
            return a
    raise NotConverged(f"the exponent still changes by {abs(a - before):g} after {max_iterations} steps.", a)


def fit_by_likelihood(histogram: SampledRankCounts) -> float:
    r"""Return the exponent under which the sampled ranks are most likely; consistent.

    For Beta(a, 1) ranks and draws with replacement the sampled rank is beta-binomial,

    .. math:: P(r) = \frac{a\, \Gamma(n)\, \Gamma(r - 1 + a)}{\Gamma(n + a)\, \Gamma(r)},

    and a times the derivative of the log-likelihood, the sum over ranks of 1 - \sum_{i=r-1}^{n-1} a/(i + a),
    falls in a: there is one optimum. It is 0 when every target is first in its sample.
    """
    j, n, weight = histogram.rank - 1, histogram.length, histogram.weight
    if (j == 0).all():
        return 0.0
    first = j == 0

    def slope(log_a: float) -> float:
        a = np.exp(log_a)
        # 1 + a (psi(j + a) - psi(n + a)), with 1 + a psi(a) = a psi(a + 1) where j = 0
        lower = digamma(np.where(first, 1.0, j) + a)
        return float(weight @ (np.where(first, 0.0, 1.0) + a * (lower - digamma(n + a))))

    low, high = -1.0, 1.0
    while slope(low) < 0:
        low -= 4
    while slope(high) > 0:
        high += 4
    return float(np.exp(brentq(slope, low, high, xtol=1e-13, rtol=1e-14)))


@dataclass(frozen=True)
class FittedBetaMapping(MappingFunction):
    """``beta`` with the exponent that fits the sampled ranks.

    The fit depends on the recommender: hit ratios of two recommenders are then read at slightly different
    locations.

    Parameters
    ----------
    method : ``iteration`` is the published fixed point, whose exponent is too large; ``likelihood`` the
        beta-binomial fit, which is consistent
    round : rule for whole ranks

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.estimation.tally import tally
    >>> sample = SampledRanks.single([0, 0, 1, 4], n_negatives=9, n_pool=100)
    >>> fitted = FittedBetaMapping(method="likelihood").fit(tally(sample))
    >>> round(fitted.a, 3)
    0.235
    """

    method: Literal["iteration", "likelihood"] = "iteration"
    key: ClassVar[str] = "beta-p"
    source: ClassVar[Source] = Source("li2020", "Eq. 19")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("method", self.method, ("iteration", "likelihood"))

    def fit(self, tally: Tally) -> BetaMapping:
        """Return ``beta`` with the fitted exponent.

        Raises
        ------
        CannotEstimate
            When there are no sampled ranks, or every target is last.
        """
        histogram = SampledRankCounts.of(tally)
        a = (fit_by_iteration if self.method == "iteration" else fit_by_likelihood)(histogram)
        return BetaMapping(a, round=self.round)

    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Raise: there is no exponent before the fit."""
        raise CannotEstimate(f"'{self}' has no locations before it is fitted. Call fit with a tally first.")


MAPPINGS: Registry[MappingFunction] = Registry(
    "mapping",
    {
        "beta": "truerank.estimation.mapping.functions:BetaMapping",
        "beta-p": "truerank.estimation.mapping.functions:FittedBetaMapping",
        "bound": "truerank.estimation.mapping.functions:BoundMapping",
        "linear": "truerank.estimation.mapping.functions:LinearMapping",
    },
)
