"""Item-item models of other libraries: histories times similarities, both sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truerank.core.types import IntArray
from truerank.models.adapters.alignment import Alignment
from truerank.models.history import SparseHistoryScorer

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def item_item_scorer(history: csr_array, weights: csr_array, alignment: Alignment) -> SparseHistoryScorer:
    """Return the scorer of a similarity matrix, in the order of the data.

    Items the model does not know have no similarities: they score 0 like any item that no history leads to.

    Parameters
    ----------
    history : (n_users, n_items) weights of each user's items, in the order of the data
    weights : (n_columns, n_columns) in the order of the model; row j holds what a history item j adds to each
        candidate
    alignment : where the model keeps the users and items of the data
    """
    history = history.astype(np.float64)
    weights = selected(weights, alignment.item, alignment.item).astype(np.float64)
    for matrix in (history, weights):
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
    return SparseHistoryScorer(history, weights)


def selected(matrix: csr_array, rows: IntArray, columns: IntArray) -> csr_array:
    """Return rows and columns of a sparse matrix in the given order, empty where there is none (-1)."""
    left, right = _picker(rows, matrix.shape[0]), _picker(columns, matrix.shape[1])
    picked: csr_array = (left @ matrix @ right.T).tocsr()
    picked.sort_indices()
    return picked


def _picker(places: IntArray, size: int) -> csr_array:
    """Return the (len(places), size) matrix with a one at each place."""
    from scipy.sparse import csr_array

    known = np.flatnonzero(places >= 0)
    return csr_array((np.ones(len(known)), (known, places[known])), shape=(len(places), size))
