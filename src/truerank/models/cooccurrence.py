"""Co-occurrence of items in the histories of users."""

from __future__ import annotations

import numpy as np

from truerank.core.interactions import Interactions, Lists
from truerank.core.progress import Task
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.models.threads import balanced_blocks, run_blocks

_ENTRIES = 20_000  # events per block: a few hundredths of a second


def by_item(train: Interactions) -> Lists:
    """Return each item's distinct users, ascending."""
    columns = train.matrix().tocsc()
    columns.sort_indices()
    return Lists(frozen(columns.indptr.astype(np.int64)), frozen(columns.indices.astype(np.int32)))


def cooccurrence_lower(train: Interactions, task: Task) -> FloatArray:
    """Return X^T X of the binary matrix X, (n_items, n_items) float64, lower triangle filled, zeros above.

    Counts are integers, hence exact. Takes 8 n_items^2 bytes and about sum over users of |H_u|^2 / 2 steps;
    the task advances by one per item.
    """
    from truerank.models.kernels.cooccurrence import count_lower

    rows, columns = train.by_user(), by_item(train)
    counts = np.zeros((train.n_items, train.n_items))

    def count(first: int, last: int) -> None:
        count_lower(columns.indptr, columns.items, rows.indptr, rows.items, first, last, counts)
        task.advance(last - first)

    run_blocks(count, balanced_blocks(columns.indptr, _ENTRIES))
    return counts


def nearest_items(
    train: Interactions, neighbours: int, *, shrink: float, include_self: bool, task: Task
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return each item's most similar items by cosine as the arrays indptr, indices and data of a CSR matrix.

    Indices ascend within a row; zero similarities are left out; among equal ones the lower code is taken.
    """
    from truerank.models.kernels.cooccurrence import nearest

    rows, columns = train.by_user(), by_item(train)
    width = min(neighbours, train.n_items)
    index = np.empty((train.n_items, width), np.int32)
    value = np.empty((train.n_items, width))
    length = np.zeros(train.n_items, np.int64)
    pointers = (columns.indptr, columns.items, rows.indptr, rows.items)

    def search(first: int, last: int) -> None:
        nearest(*pointers, first, last, shrink, include_self, index, value, length)
        task.advance(last - first)

    run_blocks(search, balanced_blocks(columns.indptr, _ENTRIES))
    filled = np.arange(width) < length[:, None]
    return np.concatenate([[0], np.cumsum(length)]), index[filled], value[filled]
