"""Mean of a function of the rank over each bin of a grid, from few ranks per bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimators.grid import Grid

_EXACT = 8  # bins with so many whole ranks are summed rank by rank
_PLACES = (0.861, 0.34)  # of four ranks, from the middle of a bin to its end; Gauss would take nearly these


@dataclass(frozen=True, eq=False)
class Nodes:
    """Weighted ranks that stand for the bins of a grid in a pool.

    Parameters
    ----------
    bin : (n,) which bin, ascending
    n_above : (n,) J = R - 1
    weight : (n,) those of a bin sum to 1
    """

    bin: IntArray
    n_above: IntArray
    weight: FloatArray


def make_nodes(grid: Grid, n_ranks: int) -> Nodes:
    """Return the nodes of a grid in a pool of ``n_ranks`` ranks.

    A rank that a bin holds in part counts by the share of it that lies in the bin. Whole ranks are taken one
    by one when they are few; otherwise four of them, in symmetric pairs, have weights that give their mean
    and variance: polynomials of third degree are averaged exactly.

    Examples
    --------
    >>> nodes = make_nodes(Grid(np.array([0, 1, 1000])), 1000)
    >>> len(nodes.bin), float(nodes.weight[1:] @ nodes.n_above[1:] ** 2)
    (5, 333166.66...)
    >>> float((np.arange(1, 1000) ** 2).mean())
    333166.66...
    """
    unit = grid.n_ranks  # edges in whole numbers: a rank of the pool is so long
    low, high = grid.edges[:-1] * n_ranks, grid.edges[1:] * n_ranks
    start, stop = -(-low // unit), high // unit  # whole ranks start .. stop - 1
    bins = np.arange(grid.n_bins)
    is_inside = start > stop  # one rank holds the whole bin
    parts: list[tuple[IntArray, IntArray, FloatArray]] = [
        (bins[is_inside], stop[is_inside], (high - low)[is_inside] / unit)
    ]
    for length, place in ((start * unit - low, start - 1), (high - stop * unit, stop)):
        some = (length > 0) & ~is_inside
        parts.append((bins[some], place[some], length[some] / unit))
    count = np.maximum(stop - start, 0)
    for step in range(_EXACT):
        some = (count > step) & (count <= _EXACT)
        parts.append((bins[some], start[some] + step, np.ones(int(some.sum()))))
    wide = count > _EXACT
    parts += [(bins[wide], start[wide] + offset, weight) for offset, weight in _four(count[wide])]
    which, above, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((above, which))
    which, above, weight = which[order], above[order], weight[order]
    return Nodes(which, above, weight / ((high - low) / unit)[which])


def _four(count: IntArray) -> list[tuple[IntArray, FloatArray]]:
    """Return offsets and weights of the four ranks that stand for ``count`` consecutive ones."""
    middle = (count - 1) / 2
    outer, inner = (np.rint(middle * (1 - place)).astype(np.int64) for place in _PLACES)
    far, near = (middle - outer) ** 2, (middle - inner) ** 2
    share = ((count**2 - 1) / 12 - near) / (far - near)  # squared distances average to the variance
    pairs = ((outer, count * share / 2), (inner, count * (1 - share) / 2))
    return [(place, weight) for offset, weight in pairs for place in (offset, count - 1 - offset)]
