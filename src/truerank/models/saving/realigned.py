"""A scorer with its users and items in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.models.adapters.alignment import Alignment

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Realigned:
    """Asks another scorer by the codes it knows.

    Items it does not know score minus infinity; for users it does not know all known items tie at 0.

    Parameters
    ----------
    scorer : the other one
    alignment : its code of each user and item
    """

    scorer: Any
    alignment: Alignment

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.alignment.n_items

    @property
    def is_thread_safe(self) -> bool:
        """Whether the other one is."""
        return bool(getattr(self.scorer, "is_thread_safe", False))

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        user, item = self.alignment.user[np.asarray(users)], self.alignment.item[np.asarray(items)]
        out = np.zeros((len(user), item.shape[-1]))
        known = user >= 0
        wanted = np.maximum(item, 0)
        if known.any() and self.scorer.n_items:
            out[known] = self.scorer.score(user[known], wanted if item.ndim == 1 else wanted[known])
        return np.where(item < 0, -np.inf, out)


@dataclass(frozen=True, eq=False)
class RealignedRows(Realigned):
    """The same for a scorer with sparse rows, all of whose items are known."""

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the (len(users), n_items) matrix of scores, columns ascending."""
        from scipy.sparse import csr_array

        user = self.alignment.user[np.asarray(users)]
        known = np.flatnonzero(user >= 0)
        rows = csr_array(self.scorer.sparse_rows(user[known]))[:, self.alignment.item]
        place = csr_array(
            (np.ones(len(known)), (known, np.arange(len(known)))), shape=(len(user), len(known))
        )
        found: csr_array = (place @ rows).tocsr()
        found.sort_indices()
        return found
