"""Scores by a library's own call, which returns whole rows of its catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import FloatArray, IntArray
from truerank.models.adapters.alignment import Alignment

_CELLS = 1 << 22  # scores asked for at a time: 32 MB
_CHECKED = 5  # users whose scores tell whether a model is a dot product
_AGREEMENT = 1e-5  # relative to the largest score of the user; float32 products differ by about 1e-6


@dataclass(frozen=True, eq=False)
class RowScorer:
    """A model that scores all items of a user at once.

    Every user is asked for once per call, in batches. Items the model does not know score minus infinity;
    for users it does not know all known items tie at 0.

    Parameters
    ----------
    rows : (n,) rows of users to (n, n_columns) scores
    alignment : where the model keeps the users and items of the data
    n_columns : items of the model
    batch : users per call at most
    """

    rows: Callable[[IntArray], FloatArray]
    alignment: Alignment
    n_columns: int
    batch: int = 256

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.alignment.n_items

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        users, columns = np.asarray(users), self.alignment.item[np.asarray(items)]
        out = np.empty((len(users), columns.shape[-1]))
        step = max(1, min(self.batch, _CELLS // max(self.n_columns, 1)))
        for start in range(0, len(users), step):
            block = slice(start, start + step)
            distinct, back = np.unique(self.alignment.user[users[block]], return_inverse=True)
            scores = self._ask(distinct)
            wanted = columns if columns.ndim == 1 else columns[block]
            found = scores[:, wanted][back] if columns.ndim == 1 else scores[back[:, None], wanted]
            out[block] = np.where(wanted < 0, -np.inf, found)
        return out

    def _ask(self, users: IntArray) -> FloatArray:
        scores = np.zeros((len(users), self.n_columns))
        known = users >= 0
        if known.any():
            asked = np.asarray(self.rows(users[known]))
            if asked.shape != (int(known.sum()), self.n_columns):
                raise InvalidData(
                    f"the model must score {self.n_columns} items for each of {int(known.sum())} users, "
                    f"it returned shape {asked.shape}. Check what its scoring call returns."
                )
            scores[known] = asked
        return scores


def is_dot_product(
    rows: Callable[[IntArray], FloatArray],
    user: FloatArray,
    item: FloatArray,
    item_bias: FloatArray | None = None,
) -> bool:
    """Say whether the model's own scores are these dot products, up to a constant per user.

    A few users are asked for, first to last. What a library calls vectors need not be what it ranks by.
    """
    if user.ndim != 2 or item.ndim != 2 or user.shape[1] != item.shape[1] or len(user) == 0:
        return False
    users = np.unique(np.linspace(0, len(user) - 1, _CHECKED).astype(np.int64))
    dots = user[users].astype(np.float64) @ item.astype(np.float64).T
    if item_bias is not None:
        dots += item_bias
    own = np.asarray(rows(users), dtype=np.float64)
    if own.shape != dots.shape or not (np.isfinite(own).all() and np.isfinite(dots).all()):
        return False
    largest = np.maximum(np.abs(own).max(axis=1, initial=0.0), np.abs(dots).max(axis=1, initial=0.0))
    return bool((np.ptp(own - dots, axis=1) <= _AGREEMENT * largest).all())
