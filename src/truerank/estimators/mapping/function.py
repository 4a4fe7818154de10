"""What a mapping function is: f(k; n, N), its inverse, and how a location becomes a whole rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.check import check_choice
from truerank.core.errors import InvalidParameter
from truerank.core.registry import Plugin
from truerank.core.tally import Tally
from truerank.core.types import FloatArray

Rounding: TypeAlias = Literal["nearest", "floor", "interpolate"]
ROUNDINGS: tuple[Rounding, ...] = ("nearest", "floor", "interpolate")
_HALVINGS = 60  # of the interval [0, n] in the search for an inverse: to the last bit


@dataclass(frozen=True)
class MappingFunction(Plugin, ABC):
    """A function f with SHR@k close to HR@f(k).

    k = 1..n is a cut-off of the sampled list, f(k) in [1, N] one of the whole list; both lists hold the
    target. A location is a real number; ``round`` says at which rank the hit ratio is read there.

    Parameters
    ----------
    round : ``nearest`` takes the nearest rank, of two the even one, as the printed tables do; ``floor`` the
        next smaller one; ``interpolate`` reads the hit ratio linearly between the two
    """

    round: Rounding = field(default="nearest", kw_only=True)

    def __post_init__(self) -> None:
        check_choice("round", self.round, ROUNDINGS)

    @abstractmethod
    def raw(self, k: FloatArray, n: int, n_pool: int) -> FloatArray:
        """Return f at real k in [0, n], before it is held within [1, N]; rising in k."""

    def fit(self, tally: Tally) -> MappingFunction:
        """Return the function for these sampled ranks: itself, unless it has a parameter to fit."""
        return self

    def locations(self, k: ArrayLike, n: int, n_pool: int) -> FloatArray:
        """Return f(k; n, N) within [1, N].

        Parameters
        ----------
        k : cut-offs of the sampled list, in [0, n]; between whole ones f is continued
        n : the sampled list, target included: n_negatives + 1
        n_pool : N, the whole list, target included

        Raises
        ------
        InvalidParameter
            When a size or a cut-off cannot be.
        """
        cutoffs = np.asarray(k, dtype=np.float64)
        _check_sizes(n, n_pool)
        if cutoffs.size and not (cutoffs.min() >= 0 and cutoffs.max() <= n):
            raise InvalidParameter(f"k must lie in 0..{n}, the sampled list, got {_span(cutoffs)}.")
        return np.clip(self.raw(cutoffs, n, n_pool), 1.0, float(n_pool))

    def places(self, k: ArrayLike, n: int, n_pool: int) -> FloatArray:
        """Return f(k; n, N) rounded by the rule: whole numbers unless the rule is ``interpolate``."""
        return rounded(self.locations(k, n, n_pool), n_pool, self.round)

    def inverse(self, location: ArrayLike, n: int, n_pool: int) -> FloatArray:
        """Return the real k in [0, n] with f(k) = location, or the end that is nearest.

        Raises
        ------
        InvalidParameter
            When a size cannot be, or a location lies outside [1, N].
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


def rounded(locations: FloatArray, n_pool: int, rule: Rounding) -> FloatArray:
    """Return locations as ranks within 1..N by a named rule.

    Examples
    --------
    >>> rounded(np.array([0.2, 371.5, 372.5, 9.0]), 400, "nearest").tolist()
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
