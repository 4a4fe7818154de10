"""Blocks of work on Python threads; the kernels release the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import IntArray


def run_blocks(work: Callable[[int, int], object], blocks: Iterable[tuple[int, int]]) -> None:
    """Call ``work(first, last)`` for each block, on all processors.

    Blocks must write to disjoint memory, so that the number of threads cannot change a result. An error or
    an interrupt drops the blocks that have not begun and is raised again.
    """
    for _ in ordered_map(lambda block: work(*block), list(blocks), n_threads=available_threads()):
        pass


def even_blocks(n: int, size: int) -> list[tuple[int, int]]:
    """Cut 0..n into blocks of ``size`` rows.

    Examples
    --------
    >>> even_blocks(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def balanced_blocks(indptr: IntArray, entries: int) -> list[tuple[int, int]]:
    """Cut the rows of a CSR matrix into blocks of about ``entries`` entries; a row counts as one more.

    Examples
    --------
    >>> balanced_blocks(np.array([0, 3, 4, 5, 9]), 4)
    [(0, 1), (1, 3), (3, 4)]
    """
    work = np.asarray(indptr) + np.arange(len(indptr))
    edges = [0]
    while edges[-1] < len(indptr) - 1:
        reach = int(np.searchsorted(work, work[edges[-1]] + entries, side="right")) - 1
        edges.append(max(reach, edges[-1] + 1))
    return list(pairwise(edges))
