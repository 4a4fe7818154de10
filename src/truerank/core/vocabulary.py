"""The two-way table between a user's own ids and codes 0..n-1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import IntArray

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct ids in ascending order; the code of an id is its position.

    Codes therefore do not depend on the order of the rows a data set came in.

    Parameters
    ----------
    ids : polars Series of distinct, sorted, non-null integers or strings

    Examples
    --------
    >>> vocabulary = Vocabulary.of(["b", "a", "c", "a"])
    >>> len(vocabulary), vocabulary.encode(["c", "a", "z"]).tolist(), vocabulary.decode(np.array([1, 0]))
    (3, [2, 0, -1], ['b', 'a'])
    """

    ids: pl.Series

    @classmethod
    def of(cls, ids: Any) -> Vocabulary:
        """Build from any sequence of ids."""
        import polars as pl

        return cls(pl.Series("id", ids).drop_nulls().unique().sort())

    @classmethod
    def range(cls, n: int) -> Vocabulary:
        """Build the integers 0..n-1, for data that comes as a matrix."""
        import polars as pl

        return cls(pl.Series("id", np.arange(n, dtype=np.int64)))

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.ids is other.ids or self.ids.equals(other.ids)

    __hash__ = None  # type: ignore[assignment]

    def encode(self, ids: Any) -> IntArray:
        """Return the code of each id, -1 where it is unknown."""
        import polars as pl

        wanted = pl.Series("id", ids)
        if self.ids.dtype == pl.String:
            wanted = wanted.cast(pl.String)
        elif wanted.dtype == pl.String:
            wanted = wanted.cast(self.ids.dtype, strict=False)
        elif len(wanted) == 0:
            wanted = wanted.cast(self.ids.dtype)
        codes = self.ids.to_frame().with_row_index("code")
        found = wanted.to_frame().join(codes, on="id", how="left", maintain_order="left")
        return found["code"].cast(pl.Int64).fill_null(-1).to_numpy()

    def decode(self, codes: IntArray) -> list[Any]:
        """Return the ids of the codes as Python objects; for a few ids, such as in messages."""
        decoded: list[Any] = self.take(codes).to_list()
        return decoded

    def take(self, codes: IntArray) -> pl.Series:
        """Return the ids of the codes as a polars Series."""
        if len(codes) and (np.min(codes) < 0 or np.max(codes) >= len(self)):
            raise InvalidData(f"codes must lie in 0..{len(self) - 1}, got {np.min(codes)}..{np.max(codes)}.")
        return self.ids.gather(np.asarray(codes, dtype=np.int64))
