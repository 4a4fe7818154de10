"""The law of sampled ranks: how many sampled items beat a target that J of L candidates beat.

Closed forms for the expected sampled metric of one target, both laws.

Symbols: N = L + 1 ranks, n = m + 1 sampled items with the target, R = J + 1 global rank, theta = J/L.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from truerank.core.errors import InvalidParameter
from truerank.core.parallel import available_threads, ordered_map
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.law_compiled import add_rows, dot_rows, fill_law, moments

TINY = 1e-290  # whole rows, down to where floating point ends
NEGLIGIBLE = 1e-20  # of the largest term of a row; a million rows add up to less than rounding does
_STEP = 4096  # rows a thread takes at once; fixed, so that sums do not depend on the number of threads


@dataclass(frozen=True)
class Law(ABC):
    r"""P(j | J): m items are drawn from L candidates, J of which stand above the target.

    The sampled rank is r = j + 1 and the global rank R = J + 1, other targets above it not counted.

    Parameters
    ----------
    n_candidates : L >= 1
    n_negatives : m >= 1

    Raises
    ------
    InvalidParameter
        When a size is below 1, or m exceeds L without replacement.
    """

    n_candidates: int
    n_negatives: int
    replacement: ClassVar[bool]
    source: ClassVar[Source] = Source("rendle2019", "Eq. 13")

    def __post_init__(self) -> None:
        for name in ("n_candidates", "n_negatives"):
            if getattr(self, name) < 1:
                raise InvalidParameter(f"{name} must be an integer >= 1, got {getattr(self, name)!r}.")

    @abstractmethod
    def variance(self, n_above: ArrayLike) -> FloatArray:
        """Return the variance of j for each J."""

    def mean(self, n_above: ArrayLike) -> FloatArray:
        """Return the mean of j for each J: m J/L under both laws."""
        return self.n_negatives * self._share(n_above)

    def pmf(self, n_above: ArrayLike) -> FloatArray:
        """Return P(j | J) for each J and j = 0..m, (..., m + 1); rows sum to 1."""
        above = self._checked(n_above)
        return self._filled(above.ravel(), TINY).reshape(*above.shape, self.n_negatives + 1)

    def rows(self, start: int, stop: int, *, floor: float = NEGLIGIBLE) -> FloatArray:
        """Return P(j | J) for J = start..stop-1; terms below floor times the largest of their row are 0."""
        return self._filled(np.arange(start, stop), floor)

    def cdf(self, n_above: ArrayLike) -> FloatArray:
        """Return P(at most j | J) for each J and j = 0..m, (..., m + 1); the last is 1."""
        rows = np.cumsum(self.pmf(n_above), axis=-1)
        rows[..., -1] = 1.0
        return np.minimum(rows, 1.0)

    def moments(self, x: FloatArray, n_above: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of x[j] for each J; x has m + 1 values."""
        above = self._checked(n_above)
        values = np.ascontiguousarray(x, dtype=np.float64)
        found = moments(above.ravel(), self.n_candidates, self.replacement, self.odds, TINY, values)
        return found[:, 0].reshape(above.shape), found[:, 1].reshape(above.shape)

    def add(self, values: FloatArray, *, floor: float = NEGLIGIBLE) -> FloatArray:
        """Return the sums over J of P(j | J) values[c, J], (n_columns, m + 1).

        Parameters
        ----------
        values : (n_columns, n_rows) for J = 0..n_rows - 1; what lies beyond counts as 0
        floor : terms below this, relative to the largest of their row, are left out
        """
        total = np.zeros((len(values), self.n_negatives + 1))

        def part(start: int) -> FloatArray:
            found = np.zeros_like(total)
            piece = np.ascontiguousarray(values[:, start : start + _STEP])
            add_rows(start, self.n_candidates, self.replacement, self.odds, floor, piece, found)
            return found

        for found in ordered_map(part, range(0, values.shape[1], _STEP), n_threads=available_threads()):
            total += found
        return total

    def dot(self, dual: FloatArray, *, floor: float = NEGLIGIBLE) -> FloatArray:
        """Return the sum over j of P(j | J) dual[j] for J = 0..L, (L + 1,)."""
        result = np.empty(self.n_candidates + 1)
        values = np.ascontiguousarray(dual, dtype=np.float64)

        def part(start: int) -> None:
            rows = result[start : start + _STEP]
            dot_rows(start, self.n_candidates, self.replacement, self.odds, floor, values, rows)

        for _ in ordered_map(part, range(0, len(result), _STEP), n_threads=available_threads()):
            pass
        return result

    @cached_property
    def odds(self) -> FloatArray:
        """What the ratios of both laws have in common."""
        return odds_of(self.n_negatives)

    def _filled(self, above: IntArray, floor: float) -> FloatArray:
        rows = np.zeros((above.size, self.n_negatives + 1))
        fill_law(above, self.n_candidates, self.replacement, self.odds, floor, rows)
        return rows

    def _checked(self, n_above: ArrayLike) -> IntArray:
        above = np.asarray(n_above, dtype=np.int64)
        if above.size and (above.min() < 0 or above.max() > self.n_candidates):
            raise InvalidParameter(
                f"n_above must lie in 0..{self.n_candidates}, got {above.min()}..{above.max()}."
            )
        return above

    def _share(self, n_above: ArrayLike) -> FloatArray:
        share: FloatArray = self._checked(n_above) / self.n_candidates
        return share


@dataclass(frozen=True)
class Binomial(Law):
    r"""The law with replacement.

    .. math:: P(j \mid J) = \binom{m}{j} \theta^j (1 - \theta)^{m - j}, \qquad \theta = J/L

    Examples
    --------
    >>> Binomial(4, 2).pmf([0, 1]).tolist()  # 9/16, 6/16, 1/16 for J = 1
    [[1.0, 0.0, 0.0], [0.5625, 0.375, 0.0625]]
    """

    replacement: ClassVar[bool] = True

    def variance(self, n_above: ArrayLike) -> FloatArray:
        """Return m J/L (1 - J/L)."""
        share = self._share(n_above)
        return self.n_negatives * share * (1 - share)


@dataclass(frozen=True)
class Hypergeometric(Law):
    r"""The law without replacement.

    .. math:: P(j \mid J) = \binom{J}{j} \binom{L - J}{m - j} \Big/ \binom{L}{m}

    Examples
    --------
    >>> Hypergeometric(4, 2).pmf([1, 2]).round(4).tolist()  # 1/2, 1/2, 0 and 1/6, 4/6, 1/6
    [[0.5, 0.5, 0.0], [0.1667, 0.6667, 0.1667]]
    """

    replacement: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_negatives > self.n_candidates:
            raise InvalidParameter(
                f"without replacement n_negatives must be at most the {self.n_candidates} candidates, "
                f"got {self.n_negatives}. Draw fewer or draw with replacement."
            )

    def variance(self, n_above: ArrayLike) -> FloatArray:
        """Return m J/L (1 - J/L) (L - m)/(L - 1)."""
        share = self._share(n_above)
        left = (self.n_candidates - self.n_negatives) / max(self.n_candidates - 1, 1)
        return self.n_negatives * share * (1 - share) * left


def make_law(n_candidates: int, n_negatives: int, *, replacement: bool) -> Law:
    """Return the law of a design."""
    law = Binomial if replacement else Hypergeometric
    return law(n_candidates, n_negatives)


def odds_of(n_negatives: int) -> FloatArray:
    """Return (m - j)/(j + 1) for j = 0..m-1, what the ratios of both laws have in common."""
    j = np.arange(n_negatives)
    odds: FloatArray = (n_negatives - j) / (j + 1.0)
    return odds


def expected_auc(law: Law, n_above: ArrayLike) -> FloatArray:
    """Return E[AUC of the sample] = AUC of the whole list = 1 - J/L, for every m and both laws.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> float(expected_auc(Binomial(4, 2), 1))
    0.75
    """
    return 1.0 - law.mean(n_above) / law.n_negatives


def expected_recall(law: Law, n_above: ArrayLike, cutoff: int) -> FloatArray:
    """Return E[Recall@K of the sample] = P(j <= K - 1 | J).

    With replacement an incomplete beta function, without a sum of at most K terms.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> round(float(expected_recall(Binomial(4, 2), 1, 1)), 4)  # (3/4)^2
    0.5625
    """
    above = np.asarray(n_above)
    if cutoff > law.n_negatives:
        return np.ones(above.shape)
    if law.replacement:
        found: FloatArray = betainc(law.n_negatives - cutoff + 1, cutoff, 1.0 - above / law.n_candidates)
        return found
    return law.moments((np.arange(law.n_negatives + 1) < cutoff).astype(np.float64), above)[0]


def expected_ap(law: Law, n_above: ArrayLike) -> FloatArray:
    r"""Return E[1/r], the expected average precision (reciprocal rank) of the whole sampled list.

    .. math:: \frac{1 - (1 - \theta)^n}{n \theta} \text{ with replacement}, \qquad
              \frac{N}{R n} \Big( 1 - \binom{N-R}{n} \Big/ \binom{N}{n} \Big) \text{ without}

    Both as ``-expm1`` of a sum of ``log1p``, which does not cancel; the second takes min(n, R) terms.

    Notes
    -----
    Eq. (29) and (30) of [rendle2019]_ print n + 1 where n - 1 is right.

    Examples
    --------
    >>> from truerank.estimation.law import Binomial, Hypergeometric
    >>> [round(float(expected_ap(law(2, 1), 1)), 4) for law in (Binomial, Hypergeometric)]  # (1 + 1/2)/2
    [0.75, 0.75]
    """
    above = np.asarray(n_above, dtype=np.int64)
    n = law.n_negatives + 1
    if law.replacement:
        theta = np.maximum(above, 1) / law.n_candidates
        with np.errstate(divide="ignore"):
            value = -np.expm1(n * np.log1p(-theta)) / (n * theta)
        return np.where(above == 0, 1.0, value)
    N = law.n_candidates + 1
    R = above + 1
    few, many = np.minimum(R, n), np.maximum(R, n)
    log_missed = np.zeros(above.shape)
    for i in range(int(few.max(initial=0))):
        with np.errstate(divide="ignore", invalid="ignore"):
            term = np.where(many < N - i, np.log1p(-many / np.maximum(N - i, 1)), -np.inf)
        log_missed = np.where(i < few, log_missed + term, log_missed)
    value_without: FloatArray = -np.expm1(log_missed) * N / (R * float(n))
    return value_without


def affine_limit(first: float, second: float, n_candidates: int, n_above: ArrayLike) -> FloatArray:
    """Return the expected sampled metric for one negative: a straight line in the rank.

    Parameters
    ----------
    first, second : the metric at sampled ranks 1 and 2
    n_candidates : L
    n_above : J of each target

    Examples
    --------
    >>> affine_limit(1.0, 0.5, 4, [0, 2, 4]).tolist()
    [1.0, 0.75, 0.5]
    """
    result: FloatArray = first + np.asarray(n_above) / n_candidates * (second - first)
    return result


def smoothed_recall(law: Law, weights: FloatArray, cutoff: int) -> FloatArray:
    r"""Return E[Recall@K of the sample] as the global recall curve smoothed by a Beta(K, n - K) kernel.

    .. math:: E[\text{SHR@}K] = E_{X \sim \text{Beta}(K, n - K)} \big[ \text{HR@}\lceil X (N - 1) \rceil \big]

    Exact with replacement, for 1 <= K <= m.

    Parameters
    ----------
    law : with replacement
    weights : (L + 1,) share of the targets at each global rank
    cutoff : K

    Examples
    --------
    >>> from truerank.estimation.law import Binomial
    >>> round(float(smoothed_recall(Binomial(4, 2), np.array([0, 1, 0, 0, 0]), 1)), 4)
    0.5625
    """
    if not law.replacement or not 1 <= cutoff <= law.n_negatives:
        raise InvalidParameter(
            f"the Beta kernel needs draws with replacement and a cut-off in 1..{law.n_negatives}, "
            f"got cut-off {cutoff}. Use expected_recall."
        )
    L = law.n_candidates
    kernel = np.diff(betainc(cutoff, law.n_negatives + 1 - cutoff, np.arange(L + 1) / L))
    curve = np.cumsum(weights)
    smoothed: FloatArray = kernel @ curve[:L]
    return smoothed
