"""A'DA of adaptive samples, from blocks of rows that hold only the rounds a rank can get to."""

from __future__ import annotations

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.adaptive_law import AdaptiveLaw

_BLOCK = 1 << 17  # entries of the law a thread holds at once: 1 MB


def adaptive_gram(law: AdaptiveLaw, prior: FloatArray, limits: IntArray, floor: float) -> FloatArray:
    """Return A'DA, (n_outcomes, n_outcomes).

    Rows far down the list have entries in the first round alone, and there in a window of j; the full width
    is needed near the top only. Memory O(n_outcomes^2), time O(N w^2) with w the entries of a row.

    Parameters
    ----------
    law : P(m, j | J)
    prior : (L + 1,) weights of J = 0..L
    limits : rows that each round goes through
    floor : terms of the first round below this, relative to the largest of their row, are left out
    """

    def part(rows: tuple[int, int, int]) -> tuple[slice, FloatArray]:
        start, stop, n_rounds = rows
        weights = prior[start:stop]
        above = start + np.flatnonzero(weights)
        dense = law.fill(above, n_rounds, floor)
        used = np.flatnonzero(dense.any(axis=0))
        if len(used) == 0:
            return slice(0, 0), np.zeros((0, 0))
        columns = slice(int(used[0]), int(used[-1]) + 1)
        root = dense[:, columns] * np.sqrt(prior[above])[:, None]
        return columns, root.T @ root

    gram = np.zeros((law.n_outcomes, law.n_outcomes))
    with single_threaded_blas():
        for columns, added in ordered_map(part, _pieces(law, limits), n_threads=available_threads()):
            gram[columns, columns] += added
    return gram


def _pieces(law: AdaptiveLaw, limits: IntArray) -> list[tuple[int, int, int]]:
    """Return (first row, one past the last, rounds they get to), small enough to be held."""
    pieces = []
    ends = [*limits[::-1].tolist()]
    start = 0
    for n_rounds, end in zip(range(len(limits), 0, -1), ends, strict=True):
        step = max(_BLOCK // max(int(law.offsets[n_rounds]), 1), 1)
        while start < end:
            stop = min(start + step, end)
            pieces.append((start, stop, n_rounds))
            start = stop
    return pieces
