"""Sampling laws: the distribution of what a sample shows of a target, given its global rank.

Of L candidates (irrelevant items) J rank above the target; m of them are sampled and j of those rank above
it. The outcome j is binomial with replacement and hypergeometric without. ``Law`` is the base class of these
two laws of samples of fixed size and of ``adaptive_law.AdaptiveLaw``, where an outcome is a pair (m, j).

Rows of a law are never held all at once: sums over ranks, sums over outcomes and the Gram matrix
A'DA = sum over J of prior[J] P(. | J) P(. | J)' are formed row by row or from marginals.

Symbols: N = L + 1 ranks, n = m + 1 sampled items with the target, R = J + 1 global rank, theta = J/L.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import InvalidParameter
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.plugin import Source
from truerank.core.ranks import Design
from truerank.core.types import BoolArray, FloatArray, IntArray, frozen
from truerank.estimation.law_compiled import add_rows, add_split, dot_rows, fill_law, moments

TINY = 1e-290  # keeps whole rows, down to the smallest floating-point numbers
NEGLIGIBLE = 1e-20  # of the largest term of a row; a million rows add up to less than rounding does
BLOCK = 1 << 17  # entries of the law a thread holds at once: 1 MB
_STEP = 4096  # rows a thread takes at once; fixed, so that sums do not depend on the number of threads


@dataclass(frozen=True, eq=False)
class Round:
    """The outcomes of one sample size: those with which sampling can end after one round.

    Parameters
    ----------
    law : of a sample of the size reached
    first : the smallest j that ends here; 0 in the last or only round
    last : the largest j there can be
    factor : (n,) probability that no earlier round ended, given that j = first, first + 1, ... of the m are
        above
    entered : the same for the j with which the round before goes on; empty for the first round
    """

    law: FixedLaw
    first: int
    last: int
    factor: FloatArray
    entered: FloatArray


@dataclass(frozen=True)
class Law(ABC):
    """P(outcome | J): what a sample shows of a target that J of L candidates beat.

    Outcomes are pairs (m, j) of a sample size and the number of sampled items above the target, ordered by m,
    then by j; a law of samples of fixed size has one m.

    Parameters
    ----------
    n_candidates : L >= 1
    """

    n_candidates: int

    def __post_init__(self) -> None:
        _check_size("n_candidates", self.n_candidates)

    @property
    @abstractmethod
    def design(self) -> Design:
        """The sampling design that has this law."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The sizes a sample can have, ascending."""

    @property
    @abstractmethod
    def rounds(self) -> tuple[Round, ...]:
        """The outcomes of each size."""

    @property
    @abstractmethod
    def locations(self) -> FloatArray:
        """Where along the list each outcome points, on any increasing scale, (n_outcomes,)."""

    @abstractmethod
    def pmf(self, n_above: ArrayLike) -> FloatArray:
        """Return P(outcome | J) for each J, (..., n_outcomes); rows sum to 1."""

    @abstractmethod
    def rows(self, start: int, stop: int, *, floor: float = NEGLIGIBLE) -> FloatArray:
        """Return P(outcome | J) for J = start..stop-1.

        Terms of the first round below ``floor`` times the largest of their row are 0.
        """

    @abstractmethod
    def limits_of(self, prior: FloatArray) -> IntArray:
        """Return how many rows, J = 0, 1, ..., each round needs under a prior over J, (n_rounds,)."""

    @abstractmethod
    def add(
        self, values: FloatArray, limits: IntArray | None = None, *, floor: float = NEGLIGIBLE
    ) -> FloatArray:
        """Return the sums over J of P(outcome | J) values[c, J], (n_columns, n_outcomes).

        Parameters
        ----------
        values : (n_columns, n_rows) for J = 0..n_rows - 1; what lies beyond counts as 0
        limits : (n_rounds,) rows that each round goes through, from ``limits_of``; all unless given
        floor : terms of the first round below this, relative to the largest of their row, are left out
        """

    @abstractmethod
    def dot(
        self, dual: FloatArray, limits: IntArray | None = None, *, floor: float = NEGLIGIBLE
    ) -> FloatArray:
        """Return the sum over outcomes of P(outcome | J) dual[outcome] for J = 0..L, (L + 1,)."""

    @abstractmethod
    def gram(self, prior: FloatArray, *, floor: float) -> FloatArray:
        """Return A'DA, the sum over J of prior[J] P(o | J) P(p | J) for outcomes o and p.

        Parameters
        ----------
        prior : (L + 1,) weights of J = 0..L
        floor : as in ``add``
        """

    def moments(self, x: FloatArray, n_above: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of x[outcome] for each J; x has n_outcomes values."""
        rows = self.pmf(n_above)
        mean = rows @ x
        return mean, np.einsum("...o,...o->...", rows, (x - mean[..., None]) ** 2)

    @cached_property
    def offsets(self) -> IntArray:
        """First outcome of each round; the last entry is the number of outcomes."""
        return frozen(np.cumsum([0, *(len(part.factor) for part in self.rounds)]))

    @property
    def n_outcomes(self) -> int:
        """The number of outcomes."""
        return int(self.offsets[-1])

    @cached_property
    def outcome_sizes(self) -> IntArray:
        """The m of each outcome, (n_outcomes,)."""
        return frozen(np.repeat(self.sizes, np.diff(self.offsets)))

    @cached_property
    def outcome_above(self) -> IntArray:
        """The j of each outcome, (n_outcomes,)."""
        return frozen(np.concatenate([part.first + np.arange(len(part.factor)) for part in self.rounds]))

    @property
    def best_to_worst(self) -> IntArray:
        """The outcomes ordered by the fraction of sampled items above the target, (n_outcomes,)."""
        return np.argsort((2 * self.outcome_above + 1) / (self.outcome_sizes + 1), kind="stable")

    def outcome_index(self, size: int) -> IntArray:
        """Return the outcome that j = 0..m above in a sample of m count as, (m + 1,)."""
        number = self.sizes.index(size)
        low, high = int(self.offsets[number]), int(self.offsets[number + 1])
        if low == high:  # no sample ends here
            return np.zeros(size + 1, dtype=np.int64)
        return low + np.clip(np.arange(size + 1) - self.rounds[number].first, 0, high - low - 1)

    def is_possible(self, size: int) -> BoolArray:
        """Return which of j = 0..m above a sample of m can end with, (m + 1,)."""
        reached, j = self.rounds[self.sizes.index(size)], np.arange(size + 1)
        possible: BoolArray = (j >= reached.first) & (j <= reached.last)
        return possible

    def _checked(self, n_above: ArrayLike) -> IntArray:
        above = np.asarray(n_above, dtype=np.int64)
        if above.size and (above.min() < 0 or above.max() > self.n_candidates):
            raise InvalidParameter(
                f"n_above must lie in 0..{self.n_candidates}, got {above.min()}..{above.max()}."
            )
        return above


@dataclass(frozen=True)
class FixedLaw(Law):
    r"""P(j | J): m items are sampled from L candidates, J of which rank above the target.

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

    n_negatives: int
    replacement: ClassVar[bool]
    source: ClassVar[Source] = Source("rendle2019", "Eq. 13")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_size("n_negatives", self.n_negatives)

    @property
    def design(self) -> Design:
        """Uniform samples of one size."""
        return Design(replacement=self.replacement)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The one size m."""
        return (self.n_negatives,)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """One round that ends with any j."""
        m = self.n_negatives
        return (Round(self, 0, m, frozen(np.ones(m + 1)), frozen(np.zeros(0))),)

    @property
    def locations(self) -> FloatArray:
        """Return j."""
        return np.arange(self.n_negatives + 1.0)

    @abstractmethod
    def variance(self, n_above: ArrayLike) -> FloatArray:
        """Return the variance of j for each J."""

    def mean(self, n_above: ArrayLike) -> FloatArray:
        """Return the mean of j for each J: m J/L under both laws."""
        return self.n_negatives * self._fraction(n_above)

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
        pairs = moments(above.ravel(), self.n_candidates, self.replacement, self.odds, TINY, values)
        return pairs[:, 0].reshape(above.shape), pairs[:, 1].reshape(above.shape)

    def limits_of(self, prior: FloatArray) -> IntArray:
        """Return L + 1: the only round needs all rows."""
        return np.array([self.n_candidates + 1])

    def add(
        self, values: FloatArray, limits: IntArray | None = None, *, floor: float = NEGLIGIBLE
    ) -> FloatArray:
        """Return the sums over J of P(j | J) values[c, J], (n_columns, m + 1)."""
        total = np.zeros((len(values), self.n_negatives + 1))
        if limits is not None:
            values = values[:, : int(limits[0])]

        def part(start: int) -> FloatArray:
            sums = np.zeros_like(total)
            piece = np.ascontiguousarray(values[:, start : start + _STEP])
            add_rows(start, self.n_candidates, self.replacement, self.odds, floor, piece, sums)
            return sums

        for sums in ordered_map(part, range(0, values.shape[1], _STEP), n_threads=available_threads()):
            total += sums
        return total

    def dot(
        self, dual: FloatArray, limits: IntArray | None = None, *, floor: float = NEGLIGIBLE
    ) -> FloatArray:
        """Return the sum over j of P(j | J) dual[j] for J = 0..L, (L + 1,)."""
        result = np.zeros(self.n_candidates + 1)
        needed = result if limits is None else result[: int(limits[0])]
        values = np.ascontiguousarray(dual, dtype=np.float64)

        def part(start: int) -> None:
            rows = needed[start : start + _STEP]
            dot_rows(start, self.n_candidates, self.replacement, self.odds, floor, values, rows)

        for _ in ordered_map(part, range(0, len(needed), _STEP), n_threads=available_threads()):
            pass
        return result

    @cached_property
    def odds(self) -> FloatArray:
        """(m - j)/(j + 1), the common factor of the ratios of successive terms of both laws."""
        return odds_of(self.n_negatives)

    def _filled(self, above: IntArray, floor: float) -> FloatArray:
        rows = np.zeros((above.size, self.n_negatives + 1))
        fill_law(above, self.n_candidates, self.replacement, self.odds, floor, rows)
        return rows

    def _fraction(self, n_above: ArrayLike) -> FloatArray:
        fraction: FloatArray = self._checked(n_above) / self.n_candidates
        return fraction


@dataclass(frozen=True)
class Binomial(FixedLaw):
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
        theta = self._fraction(n_above)
        return self.n_negatives * theta * (1 - theta)

    def gram(self, prior: FloatArray, *, floor: float) -> FloatArray:
        """Return A'DA, (m + 1, m + 1)."""
        return hankel_gram(self, prior, floor)


@dataclass(frozen=True)
class Hypergeometric(FixedLaw):
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
                f"got {self.n_negatives}. Sample fewer negatives or sample with replacement."
            )

    def variance(self, n_above: ArrayLike) -> FloatArray:
        """Return m J/L (1 - J/L) (L - m)/(L - 1)."""
        theta = self._fraction(n_above)
        left = (self.n_candidates - self.n_negatives) / max(self.n_candidates - 1, 1)
        return self.n_negatives * theta * (1 - theta) * left

    def gram(self, prior: FloatArray, *, floor: float) -> FloatArray:
        """Return A'DA by the cheaper of two ways, (m + 1, m + 1)."""
        form = overlap_gram if is_overlap_cheaper(self) else blocked_gram
        return form(self, prior, floor)


def make_law(n_candidates: int, n_negatives: int, *, replacement: bool) -> FixedLaw:
    """Return the law of samples of fixed size."""
    law = Binomial if replacement else Hypergeometric
    return law(n_candidates, n_negatives)


def odds_of(n_negatives: int) -> FloatArray:
    """Return (m - j)/(j + 1) for j = 0..m-1, a factor of the ratios of successive terms of both laws."""
    j = np.arange(n_negatives)
    odds: FloatArray = (n_negatives - j) / (j + 1.0)
    return odds


def _check_size(name: str, size: int) -> None:
    if size < 1:
        raise InvalidParameter(f"{name} must be an integer >= 1, got {size!r}.")


def hankel_gram(law: Binomial, prior: FloatArray, floor: float) -> FloatArray:
    r"""Return A'DA with replacement, in O(N sqrt(m) + m^1.5) time and O(m^2) memory.

    Two samples of size m are one of size 2m that was split, so with c2 the marginal of 2m draws

    .. math:: (A'DA)_{rs} = \binom{m}{r} \binom{m}{s} \Big/ \binom{2m}{r+s} \; c2_{r+s}

    for r, s counted from 0: a Hankel matrix, scaled. The factor is itself hypergeometric: which r of r + s
    items above the target fall into the first half.
    """
    m = law.n_negatives
    double = Binomial(law.n_candidates, 2 * m).add(prior[None, :], floor=floor)
    gram = np.zeros((m + 1, m + 1))
    add_split(double, odds_of(m), floor, gram)
    return gram


def overlap_gram(law: Hypergeometric, prior: FloatArray, floor: float) -> FloatArray:
    r"""Return A'DA without replacement from marginals alone.

    Two independent samples of size m have o items in common, o being hypergeometric itself; together they are
    one sample of size 2m - o. Of its t items above the target v are common ones and the others fall into the
    two halves at random:

    .. math:: (A'DA)_{rs} = \sum_o P(o) \sum_v c_{2m-o}[t] \; P(v \mid t, o) \,
              \binom{k}{r-v} \binom{k}{s-v} \Big/ \binom{2k}{t-v}, \qquad k = m - o, \; t = r + s - v.

    Marginals of smaller samples follow from the largest by leaving out one item at a time. The cost grows
    with the number of probable overlaps, so this pays where m^2 is not much more than L.
    """
    m, size = law.n_negatives, law.n_candidates
    probability = law.pmf(m)
    overlaps = np.flatnonzero(probability > floor * probability.max())
    largest = min(2 * m, size)
    counts = Hypergeometric(size, largest).add(prior[None, :], floor=floor)[0]
    marginals = {}
    for union in range(largest, 2 * m - int(overlaps[-1]) - 1, -1):
        marginals[union] = counts
        t = np.arange(union)
        counts = (counts[:-1] * (union - t) + counts[1:] * (t + 1)) / union

    def part(o: int) -> FloatArray:
        joint = probability[o] * _joint(marginals[2 * m - o], o, m - o)
        gram = np.zeros((m + 1, m + 1))
        add_split(joint, odds_of(m - o), floor, gram)
        return gram

    total = np.zeros((m + 1, m + 1))
    for added in ordered_map(part, overlaps.tolist(), n_threads=available_threads()):
        total += added
    return total


def _joint(marginal: FloatArray, o: int, k: int) -> FloatArray:
    """Return the probability of v common and t - v other items above, (o + 1, 2k + 1), from that of t."""
    if o == 0:
        return marginal[None, :]
    common = Hypergeometric(2 * k + o, o).pmf(np.arange(2 * k + o + 1))
    return np.stack([marginal[v : v + 2 * k + 1] * common[v : v + 2 * k + 1, v] for v in range(o + 1)])


def blocked_gram(law: FixedLaw, prior: FloatArray, floor: float) -> FloatArray:
    """Return A'DA under any law from blocks of rows; O(N w^2) with w the terms of a row, O(m^2) memory."""
    m = law.n_negatives
    step = max(BLOCK // (m + 1), 1)

    def part(start: int) -> tuple[slice, FloatArray]:
        weights = prior[start : start + step]
        rows = law.rows(start, start + len(weights), floor=floor)
        # the first and the last entry of a row that is not 0 move up with J
        columns = slice(int(np.argmax(rows[0] > 0)), m + 1 - int(np.argmax(rows[-1, ::-1] > 0)))
        root = np.ascontiguousarray(rows[:, columns]) * np.sqrt(weights)[:, None]
        return columns, root.T @ root

    gram = np.zeros((m + 1, m + 1))
    with single_threaded_blas():
        for columns, added in ordered_map(part, range(0, len(prior), step), n_threads=available_threads()):
            gram[columns, columns] += added
    return gram


def is_overlap_cheaper(law: Hypergeometric) -> bool:
    """Whether the overlaps of two samples are few against the rows of the law."""
    m, size = law.n_negatives, law.n_candidates
    width = min(m + 1.0, 8 * np.sqrt(m))
    mean = m * m / size
    n_overlaps = min(m + 1.0, 16 + 10 * np.sqrt(mean))
    return bool(n_overlaps * (mean + n_overlaps) * m * width * 13 < size * width * width)
