"""Bins of global ranks, fine where the data can tell ranks apart and coarse elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truerank.core.errors import InvalidParameter
from truerank.core.types import FloatArray, IntArray, frozen

#: Width of a bin in standard deviations of the sampled rank (of 2 sqrt(m) arcsin sqrt(J/L)).
STEP = 0.1
#: The first ranks, where top-K metrics live, have a bin each.
SINGLES = 50


@dataclass(frozen=True, eq=False)
class Grid:
    """Bins that partition the ranks 1..N of the largest pool; mass lies evenly on the ranks of a bin.

    A pool of another size N' is the same list stretched: rank R of N covers the shares ((R - 1)/N, R/N].

    Parameters
    ----------
    edges : (n_bins + 1,) integers from 0 to N; bin b holds the ranks edges[b] + 1 .. edges[b + 1]

    Examples
    --------
    >>> grid = make_grid(1000, 9, step=0.5, singles=2)
    >>> grid.edges[:6].tolist(), grid.n_bins
    ([0, 1, 2, 7, 27, 60], 21)
    """

    edges: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", frozen(np.asarray(self.edges, dtype=np.int64)))

    @property
    def n_bins(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    @property
    def n_ranks(self) -> int:
        """N, the ranks of the largest pool."""
        return int(self.edges[-1])

    @cached_property
    def even(self) -> FloatArray:
        """Masses of the uniform distribution over ranks, (n_bins,)."""
        return frozen(np.diff(self.edges) / self.n_ranks)

    def edges_in(self, n_ranks: int) -> FloatArray:
        """Return the edges in ranks of a pool of another size."""
        edges: FloatArray = self.edges * (n_ranks / self.n_ranks)
        return edges

    def cdf(self, masses: FloatArray, share: FloatArray) -> FloatArray:
        """Return the mass at or below each share of the ranks."""
        sums = np.concatenate([[0.0], np.cumsum(masses)])
        below: FloatArray = np.interp(share, self.edges / self.n_ranks, sums)
        return below

    def spread(self, masses: FloatArray, n_ranks: int) -> FloatArray:
        """Return the weight of each rank of a pool, (n_ranks,)."""
        if n_ranks == self.n_ranks:
            widths = np.diff(self.edges)
            return np.repeat(masses / widths, widths)
        return np.diff(self.cdf(masses, np.arange(n_ranks + 1) / n_ranks))


def make_grid(n_ranks: int, n_negatives: int, *, step: float = STEP, singles: int = SINGLES) -> Grid:
    r"""Return bins of equal width in :math:`2 \sqrt{m} \arcsin \sqrt{J/L}`, where the law has unit variance.

    Parameters
    ----------
    n_ranks : N, of the largest pool
    n_negatives : m, of the largest sample
    step : width of a bin; 0 gives every rank a bin of its own
    singles : so many first ranks have a bin of their own
    """
    if step < 0 or not np.isfinite(step):
        raise InvalidParameter(f"grid must be a width >= 0 in standard deviations, got {step!r}. Use 0.1.")
    if step == 0:
        return Grid(np.arange(n_ranks + 1))
    n_steps = int(np.ceil(np.pi * np.sqrt(n_negatives) / step))
    angles = np.linspace(0, np.pi / 2, n_steps + 1)
    edges = np.rint(n_ranks * np.sin(angles) ** 2).astype(np.int64)
    first = min(singles, n_ranks)
    return Grid(np.unique(np.concatenate([np.arange(first + 1), edges[edges > first], [n_ranks]])))
