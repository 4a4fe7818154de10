"""Mean of a function of the rank over each bin of a grid, from few ranks per bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimators.grid import Grid

_EXACT = 8  # bins with so many whole ranks are summed rank by rank


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

    The ranks at both ends of a bin have the share of them that lies in it. Whole ranks in between are taken
    one by one when they are few; otherwise four of them, in symmetric pairs, have weights that give the
    bin's mean and variance: polynomials of third degree are averaged exactly.

    Examples
    --------
    >>> nodes = make_nodes(Grid(np.array([0, 1, 1000])), 1000)
    >>> len(nodes.bin), float(nodes.weight[1:] @ nodes.n_above[1:] ** 2)
    (7, 333166.66...)
    >>> float((np.arange(1, 1000) ** 2).mean())
    333166.66...
    """
    edges = grid.edges_in(n_ranks)
    low, high = edges[:-1], edges[1:]
    first = np.minimum(np.floor(low + 1e-9), n_ranks - 1)
    last = np.clip(np.ceil(high - 1e-9) - 1, first, n_ranks - 1)
    bins = np.arange(grid.n_bins)
    parts = [(bins, first, np.minimum(first + 1, high) - low)]
    more = last > first
    parts.append((bins[more], last[more], (high - last)[more]))
    inner = last - first - 1
    for step in range(_EXACT):
        some = (inner > step) & (inner <= _EXACT)
        parts.append((bins[some], first[some] + 1 + step, np.ones(int(some.sum()))))
    wide = inner > _EXACT
    count, start = inner[wide], first[wide] + 1
    # pairs at distances d from the middle; d^2 must average to (count^2 - 1)/12
    outer, close = (np.rint((count - 1) / 2 * (1 - share)) for share in (0.861, 0.34))
    far, near = ((count - 1) / 2 - np.rint((count - 1) / 2 * (1 - share)) for share in (0.861, 0.34))
    share = ((count**2 - 1) / 12 - near**2) / (far**2 - near**2)
    for offset, weight in ((outer, share / 2), (close, (1 - share) / 2)):
        for place in (start + offset, start + count - 1 - offset):
            parts.append((bins[wide], place, count * weight))
    which, above, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((above, which))
    which, above, weight = which[order], above[order], weight[order]
    return Nodes(which, above.astype(np.int64), weight / (high - low)[which])
