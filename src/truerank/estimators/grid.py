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
    ([0, 1, 2, 3, 4, 5], 34)
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


def check_step(step: float) -> None:
    """Raise unless the step is a finite number >= 0."""
    if not 0 <= step < np.inf:
        raise InvalidParameter(f"grid must be a width >= 0 in standard deviations, got {step!r}. Use 0.1.")


def make_grid(n_ranks: int, n_negatives: float, *, step: float = STEP, singles: int = SINGLES) -> Grid:
    r"""Return bins of equal width in :math:`2 \sqrt{m} \arcsin \sqrt{J/L}`, where the law has unit variance.

    Up to the rank that four sampled items are expected to beat these would be wide for their rank; there a
    bin has at most step/2 of it. With a step of 0.1 metrics up to rank 50 are within 7e-5 of those without
    bins (recall; 1e-5 for NDCG) in trials with 3,706 to 1,000,000 ranks.

    Parameters
    ----------
    n_ranks : N, of the largest pool
    n_negatives : m, of the sample that tells most; without replacement it counts as m (L - 1)/(L - m)
    step : width of a bin; 0 gives every rank a bin of its own
    singles : so many first ranks have a bin of their own
    """
    check_step(step)
    if n_ranks * step <= 2 * np.sqrt(n_negatives):  # no bin would be wider than one rank
        return Grid(np.arange(n_ranks + 1))
    first = min(singles, n_ranks)
    knee = n_ranks * 4 / (n_negatives + 4)  # both kinds of bins are equally wide here
    n_steps = int(np.ceil(np.pi * np.sqrt(n_negatives) / step))
    wide = n_ranks * np.sin(np.linspace(0, np.pi / 2, n_steps + 1)) ** 2
    n_steps = int(np.ceil(2 / step * np.log(max(knee / max(first, 1), 1.0))))
    narrow = max(first, 1) * np.exp(step / 2 * np.arange(n_steps))
    parts = [np.arange(first + 1), narrow, [max(knee, first)], wide[wide > max(knee, first)], [n_ranks]]
    edges = np.rint(np.concatenate(parts)).astype(np.int64)
    return Grid(np.unique(edges))
