"""One half of a sweep of PageRank."""

from __future__ import annotations

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray


@compiled
def spread(
    indptr: IntArray,
    neighbours: IntArray,
    base: float,
    damping: float,
    first: int,
    last: int,
    flow: FloatArray,
    score: FloatArray,
) -> float:
    """Renew the scores of nodes first..last-1 from their neighbours' and return the sum of changes.

    ``flow`` holds score / degree of every node; that of the renewed nodes is renewed too, which no other call
    of the same half reads, because neighbours lie on the other side.
    """
    change = 0.0
    for node in range(first, last):
        degree = indptr[node + 1] - indptr[node]
        if degree > 0:
            total = 0.0
            for place in range(indptr[node], indptr[node + 1]):
                total += flow[neighbours[place]]
            new = base + damping * total
            change += abs(new - score[node])
            score[node] = new
            flow[node] = new / degree
    return change
