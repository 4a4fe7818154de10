"""Who competes in each row: its targets, and the seen items that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen
from truerank.ranks.kernels.counts import Ints


@dataclass(frozen=True, eq=False)
class Pools:
    """Targets and seen items of every row, as two lists of lists in CSR form.

    Parameters
    ----------
    target_indptr, target_items : the targets of row r are the entries target_indptr[r] to
        target_indptr[r + 1] of target_items, at least one and each only once
    seen_indptr, seen_items : the same for the items that do not compete; ascending, never a target
    n_items : size of the catalogue

    Raises
    ------
    InvalidData
        When the lists do not fit together or the targets are outside the catalogue.
    """

    target_indptr: Ints
    target_items: Ints
    seen_indptr: Ints
    seen_items: Ints
    n_items: int

    @classmethod
    def of(
        cls,
        target_indptr: ArrayLike,
        target_items: ArrayLike,
        seen_indptr: ArrayLike,
        seen_items: ArrayLike,
        n_items: int,
    ) -> Pools:
        """Build pools from any lists of integers."""
        return cls(
            as_integers("target_indptr", target_indptr),
            as_integers("target_items", target_items),
            as_integers("seen_indptr", seen_indptr),
            as_integers("seen_items", seen_items),
            n_items,
        )

    def __post_init__(self) -> None:
        _check_lists("target", self.target_indptr, self.target_items)
        _check_lists("seen", self.seen_indptr, self.seen_items)
        if len(self.seen_indptr) != len(self.target_indptr):
            raise InvalidData(
                "seen_indptr and target_indptr must describe the same rows, "
                f"got {len(self.seen_indptr) - 1} and {len(self.target_indptr) - 1}."
            )
        empty = np.flatnonzero(self.n_targets < 1)
        if len(empty):
            raise InvalidData(f"every row must have a target, row {empty[0]} has none. Leave such rows out.")
        outside = (self.target_items < 0) | (self.target_items >= self.n_items)
        if outside.any():
            item = self.target_items[np.argmax(outside)]
            raise InvalidData(f"target_items must lie in 0..{self.n_items - 1}, got {item}.")

    @property
    def n_rows(self) -> int:
        """Rows to count for."""
        return len(self.target_indptr) - 1

    @property
    def n_targets(self) -> Ints:
        """Targets per row."""
        return np.diff(self.target_indptr)

    @property
    def is_single(self) -> bool:
        """Whether every row has exactly one target."""
        return len(self.target_items) == self.n_rows

    def targets(self, row: int) -> Ints:
        """Return the targets of a row."""
        return self.target_items[self.target_indptr[row] : self.target_indptr[row + 1]]

    def seen(self, row: int) -> Ints:
        """Return the seen items of a row."""
        return self.seen_items[self.seen_indptr[row] : self.seen_indptr[row + 1]]

    def check_seen(self) -> None:
        """Raise unless the seen items of every row ascend and lie in the catalogue."""
        items, starts = self.seen_items, self.seen_indptr[:-1]
        inside = (items >= 0) & (items < self.n_items)
        ascends = np.diff(items, prepend=-1) > 0
        ascends[starts[starts < len(items)]] = True
        holds = inside & ascends
        if not holds.all():
            row = int(np.searchsorted(self.seen_indptr, np.argmin(holds), side="right")) - 1
            raise InvalidData(
                f"seen_items must ascend within 0..{self.n_items - 1} in every row, row {row} does not. "
                "Sort them and remove duplicates."
            )


def as_integers(name: str, values: ArrayLike) -> Ints:
    """Return a contiguous, read-only int64 array, so that kernels are compiled for one type only."""
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InvalidData(f"{name} must be a list of integers, got {array.dtype} of shape {array.shape}.")
    return frozen(np.ascontiguousarray(array, dtype=np.int64))


def _check_lists(name: str, indptr: Ints, items: Ints) -> None:
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(items) or (np.diff(indptr) < 0).any():
        raise InvalidData(
            f"{name}_indptr must rise from 0 to the {len(items)} entries of {name}_items. "
            "Build both from one CSR matrix."
        )
