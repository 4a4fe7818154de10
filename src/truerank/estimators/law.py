"""The law of sampled ranks: how many sampled items beat a target that J of L candidates beat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import InvalidParameter
from truerank.core.source import Source
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.kernels.row import add_rows, dot_rows, fill, moments

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
        fill(above, self.n_candidates, self.replacement, self.odds, floor, rows)
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
