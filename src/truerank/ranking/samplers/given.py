"""Negatives from given candidate lists."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from truerank.core.errors import DataWarning, InvalidData
from truerank.core.plugin import Spec
from truerank.core.ranks import Design
from truerank.core.split import Split
from truerank.core.types import IntArray
from truerank.ranking.file_columns import pick_columns, read_rank_frame
from truerank.ranking.negatives import Negatives, Rows, Sampler

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Given(Sampler):
    """Candidate lists from a file with columns user_id, item_id.

    Lists may differ in length and may repeat items. They must not hold the user's own targets, nor seen items
    unless ``seen=keep``. How they were sampled is not known, so estimators that need the sampling law raise.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file

    Examples
    --------
    >>> str(Given("lists/negatives.csv"))
    'given(path=lists/negatives.csv)'
    """

    path: str = "candidates.csv"

    key: ClassVar[str] = "given"

    def frame(self) -> pl.DataFrame:
        """Return the pairs as a table with columns user and item."""
        return pick_columns(read_rank_frame(Path(self.path)), ("user", "item"), where=f"'{self.path}'")

    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the lists."""
        return _listed(self.frame(), split, rows)


@dataclass(frozen=True)
class GivenLists(Sampler):
    """Candidate lists from a mapping of user id to item ids.

    Examples
    --------
    >>> GivenLists({"ann": ["x", "y"]}).frame().rows()
    [('ann', 'x'), ('ann', 'y')]
    """

    lists: Mapping[Any, Sequence[Any]] = field(default_factory=dict, hash=False)

    key: ClassVar[str] = "given"

    def spec(self) -> Spec:
        """Return the name alone: the lists have no spec string."""
        return Spec(self.key)

    def frame(self) -> pl.DataFrame:
        """Return the pairs as a table with columns user and item."""
        import polars as pl

        lists = pl.DataFrame(
            {"user": list(self.lists), "item": [list(items) for items in self.lists.values()]}
        )
        return lists.filter(pl.col("item").list.len() > 0).explode("item")

    def negatives(self, split: Split, rows: Rows) -> Negatives:
        """Return the lists."""
        return _listed(self.frame(), split, rows)


@dataclass(frozen=True, eq=False)
class _ListedNegatives:
    design: Design
    n_candidates: IntArray
    indptr: IntArray
    items: IntArray

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.indptr)

    def sample(self, start: int, stop: int) -> IntArray:
        return self.items[self.indptr[start] : self.indptr[stop]]


def _listed(frame: pl.DataFrame, split: Split, rows: Rows) -> _ListedNegatives:
    """Encode the pairs, check them, and order them by row."""
    user = split.train.users.encode(frame["user"])
    item = split.train.items.encode(frame["item"])
    _warn_unknown(frame["user"].filter(user < 0).unique(maintain_order=True).to_list())
    if (item < 0).any():
        first = frame["item"][int(np.argmax(item < 0))]
        raise InvalidData(
            f"candidates must be items of the data, but {int((item < 0).sum())} are not, such as {first!r}. "
            "Remove them or add them to the data."
        )
    query = np.full(split.train.n_users, -1)
    query[rows.queries.users] = np.arange(len(rows.queries))
    row = np.where(user < 0, -1, query[user])
    row, item = row[row >= 0], item[row >= 0]
    order = np.lexsort((item, row))
    row, item = row[order], item[order]
    sizes = np.bincount(row, minlength=len(rows))
    if (sizes == 0).any():
        raise InvalidData(
            f"there must be candidates for every user with a target, but user "
            f"{rows.user_id(int(np.argmin(sizes)))!r} has none. Add a list or remove its targets."
        )
    _check_blocked(row, item, split, rows)
    repeated = bool(((np.diff(row) == 0) & (np.diff(item) == 0)).any())
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return _ListedNegatives(
        Design("given", replacement=repeated, shared=True), rows.n_free, indptr, item.astype(np.int32)
    )


def _check_blocked(row: IntArray, item: IntArray, split: Split, rows: Rows) -> None:
    keys = row.astype(np.int64) * rows.n_items + item
    for what, lists, advice in (
        ("a target", rows.queries.targets, "Remove it from the list."),
        ("a seen item", rows.queries.excluded, "Remove it from the list or use seen=keep."),
    ):
        owner = np.repeat(np.arange(len(lists.indptr) - 1), lists.lengths())
        blocked = np.isin(keys, owner.astype(np.int64) * rows.n_items + lists.items)
        if blocked.any():
            at = int(np.argmax(blocked))
            raise InvalidData(
                f"candidates must not hold {what} of their user, but user {rows.user_id(int(row[at]))!r} "
                f"has item {split.train.items.decode(item[[at]])[0]!r}. {advice}"
            )


def _warn_unknown(unknown: list[Any]) -> None:
    if unknown:
        warnings.warn(
            f"{len(unknown)} users with candidates are not in the data, such as "
            f"{', '.join(map(repr, unknown[:3]))}: their lists are not used.",
            DataWarning,
            stacklevel=4,
        )
