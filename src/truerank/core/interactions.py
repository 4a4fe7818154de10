"""Interactions: events of users with items, as integer codes into two vocabularies; and what an id is.

A ``Vocabulary`` maps the ids of a data set (integers or strings) to codes 0..n-1 and back.

An id is the text as it is written, for every reader. Nothing is taken away from it, so that no two become one
by being read: ``' 5'``, ``'5'``, ``'05'`` and ``'+5'`` are four ids. Only where all ids of a column are whole
numbers in plain form are they numbers; there ``5.0`` is 5 (`typed_ids`). A cell that is empty or holds
nothing but blanks is no id: it is missing (`BLANK`). Ids with blanks around them are rarely meant, so that a
note tells of them (`tell_of_blanks`). Formats that separate by blanks, such as TREC files, have none in ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.display import Displayed, Overview
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, excerpt
from truerank.core.table import Table, count_of
from truerank.core.types import AnyArray, BoolArray, FloatArray, IntArray, frozen

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array


#: An integer in plain form.
INTEGER = r"^(?:0|-?[1-9][0-9]*)$"
#: What is no id in a column of text.
BLANK = r"^\s*$"
_WHOLE = r"^(?:0|-?[1-9][0-9]*)(?:\.0*)?$"
_UNSEEN = r"[\s\p{Cc}\p{Cf}]"  # blanks, control characters, and marks such as the zero-width space


def typed_ids(texts: pl.Series, where: str) -> pl.Series:
    """Return ids as 64-bit integers where all are whole numbers in plain form, else as they are.

    Whole numbers of which one is too large for 64 bits stay text, without a decimal point.

    Parameters
    ----------
    texts : ids as they are written; missing ones stay so
    where : the column in messages, such as ``user_id of 'ranks.csv'``

    Raises
    ------
    InvalidData
        When a number is written both with and without a decimal point.

    Examples
    --------
    >>> import polars as pl
    >>> typed_ids(pl.Series(["7.0", "10.0"]), "user").to_list()
    [7, 10]
    >>> typed_ids(pl.Series(["7", " 7", "07"]), "user").to_list()
    ['7', ' 7', '07']
    """
    import polars as pl

    if not texts.str.contains(_WHOLE).fill_null(True).all():
        return texts
    whole = texts.str.replace(r"\.0*$", "")
    if whole.n_unique() < texts.n_unique():
        both = pl.DataFrame({"text": texts, "whole": whole}).unique().sort("whole", "text")
        first, second = both.filter(pl.col("whole").is_duplicated())["text"].head(2)
        raise InvalidData(
            f"ids must be written in one way, but {first!r} and {second!r} in {where} are the same number. "
            "Write them alike."
        )
    numbers = whole.cast(pl.Int64, strict=False)
    return whole if numbers.null_count() > whole.null_count() else numbers


def tell_of_blanks(ids: pl.Series, where: str) -> None:
    """Say by a `DataWarning` which ids have blanks, or other letters that cannot be seen, around them.

    Parameters
    ----------
    ids : ids as they are written, best without repetitions
    where : the column in the message
    """
    import polars as pl

    if ids.dtype != pl.String:
        return
    padded = ids.filter(ids.str.contains(f"^{_UNSEEN}|{_UNSEEN}$").fill_null(False)).unique().sort()
    if padded.is_empty():
        return
    bare = padded[:1].str.replace_all(f"^{_UNSEEN}+|{_UNSEEN}+$", "")[0]
    shown, seen = repr(excerpt(padded[0])), repr(excerpt(bare))
    warnings.warn(
        f"blanks or other letters that cannot be seen stand around {count_of(len(padded), 'id')} in {where}, "
        f"such as {shown}. An id is the text as written, so that this one is not {seen}.",
        DataWarning,
        stacklevel=2,
    )


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
        """Return the code of each id, -1 where it is unknown.

        A text is a number of the vocabulary only in plain form: '5' is 5, '05', '+5' and ' 5' are unknown.
        """
        import polars as pl

        series = pl.Series("id", ids)
        if self.ids.dtype == pl.String:
            series = series.cast(pl.String)
        elif series.dtype == pl.String:
            series = series.set(~series.str.contains(INTEGER), None).cast(self.ids.dtype, strict=False)
        elif len(series) == 0:
            series = series.cast(self.ids.dtype)
        codes = self.ids.to_frame().with_row_index("code")
        joined = series.to_frame().join(codes, on="id", how="left", maintain_order="left")
        return joined["code"].cast(pl.Int64).fill_null(-1).to_numpy()

    def decode(self, codes: IntArray) -> list[Any]:
        """Return the ids of the codes as Python objects; for a few ids, such as in messages."""
        decoded: list[Any] = self.take(codes).to_list()
        return decoded

    def take(self, codes: IntArray) -> pl.Series:
        """Return the ids of the codes as a polars Series."""
        if len(codes) and (np.min(codes) < 0 or np.max(codes) >= len(self)):
            raise InvalidData(f"codes must lie in 0..{len(self) - 1}, got {np.min(codes)}..{np.max(codes)}.")
        return self.ids.gather(np.asarray(codes, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Lists:
    """One sorted list of item codes per user (the two arrays of a CSR matrix).

    Parameters
    ----------
    indptr : (n_users + 1,) int64, user u's items lie at ``indptr[u]:indptr[u + 1]``
    items : (n,) int32, ascending within a user
    """

    indptr: IntArray
    items: IntArray

    def of(self, user: int) -> IntArray:
        """Return the items of one user."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def lengths(self) -> IntArray:
        """Return how many items each user has."""
        return self._lengths

    @cached_property
    def _lengths(self) -> IntArray:
        return frozen(np.diff(self.indptr))


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Displayed):
    """Events of users with items, as codes into two vocabularies.

    Parameters
    ----------
    user, item : (n,) codes 0..n_users-1 and 0..n_items-1
    users, items : the vocabularies; users or items without any event are allowed
    value : (n,) rating, count or weight; None when the data have none
    time : (n,) seconds or any other order; None when the data have none
    labels : further columns that were asked for, such as a split that the file brings
    name : what the data set is called in results
    origin : counts of what reading and filtering did (rows read, duplicates, users filtered, ...)
    merged : (n,) rows of the data that each event stands for; None where each is one row

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1], [2, 0, 1])
    >>> events.n_users, events.n_items, len(events), events.by_user().of(0).tolist()
    (2, 3, 3, [0, 2])
    """

    user: IntArray
    item: IntArray
    users: Vocabulary
    items: Vocabulary
    value: FloatArray | None = None
    time: AnyArray | None = None
    labels: Mapping[str, AnyArray] = field(default_factory=dict)
    name: str = "data"
    origin: Mapping[str, int] = field(default_factory=dict)
    merged: IntArray | None = None

    def __post_init__(self) -> None:
        for column, size in (("user", len(self.users)), ("item", len(self.items))):
            codes = np.asarray(getattr(self, column))
            if codes.ndim != 1 or codes.dtype.kind not in "iu":
                raise InvalidData(f"{column} codes must be a flat array of integers, got {codes.dtype}.")
            if len(codes) and (codes.min() < 0 or codes.max() >= size):
                raise InvalidData(
                    f"{column} codes must lie in 0..{size - 1}, got {codes.min()}..{codes.max()}."
                )
            object.__setattr__(self, column, frozen(codes))
        for column in ("value", "time", "merged"):
            array = getattr(self, column)
            if array is not None:
                self._check_length(column, array)
                object.__setattr__(self, column, frozen(np.asarray(array)))
        if self.value is not None and not np.isfinite(self.value).all():
            raise InvalidData("ratings must be finite numbers, got NaN or infinity. Clean the column first.")
        for column, array in self.labels.items():
            self._check_length(column, array)
        if len(self.user) != len(self.item):
            raise InvalidData(
                f"user and item must be equally long, got {len(self.user)} and {len(self.item)}."
            )

    def _check_length(self, column: str, array: AnyArray) -> None:
        if len(array) != len(self.user):
            raise InvalidData(f"{column} must have {len(self.user)} entries like user, got {len(array)}.")

    @classmethod
    def from_codes(
        cls,
        user: IntArray | list[int],
        item: IntArray | list[int],
        *,
        n_users: int | None = None,
        n_items: int | None = None,
        value: FloatArray | None = None,
        time: AnyArray | None = None,
        name: str = "data",
    ) -> Interactions:
        """Build from integer codes; sizes default to the largest code plus one."""
        user, item = np.asarray(user), np.asarray(item)
        return cls(
            user=user.astype(np.int64) if user.size == 0 else user,
            item=item.astype(np.int64) if item.size == 0 else item,
            users=Vocabulary.range(n_users if n_users is not None else int(user.max(initial=-1)) + 1),
            items=Vocabulary.range(n_items if n_items is not None else int(item.max(initial=-1)) + 1),
            value=value,
            time=time,
            name=name,
        )

    def __len__(self) -> int:
        return len(self.user)

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        sizes = [count_of(self.n_users, "user"), count_of(self.n_items, "item"), count_of(len(self), "event")]
        columns = [name for name, has in (("ratings", self.value), ("times", self.time)) if has is not None]
        further = f" with {' and '.join(columns)}" if columns else ""
        first = self.take(np.arange(min(len(self), 5))).to_polars()
        table = Table(tuple(first.columns), tuple(tuple(map(str, row)) for row in first.rows()))
        more = (f"The first {len(first)} of {len(self):,} events.",) if len(first) < len(self) else ()
        return Overview(
            f"Interactions {self.name!r}: {', '.join(sizes)}{further}", table, more, is_short=True
        )

    def to_polars(self) -> pl.DataFrame:
        """Return one row per event: ``user_id, item_id[, rating][, timestamp]`` and further columns read.

        Examples
        --------
        >>> Interactions.from_codes([0, 1], [1, 0]).to_polars().rows()
        [(0, 1), (1, 0)]
        """
        import polars as pl

        columns = {"user_id": self.users.take(self.user), "item_id": self.items.take(self.item)}
        for name, array in {"rating": self.value, "timestamp": self.time, **self.labels}.items():
            if array is not None:
                columns[name] = pl.Series(name, array, strict=False)
        return pl.DataFrame(columns)

    @property
    def n_users(self) -> int:
        """Users in the vocabulary."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Items in the vocabulary: the catalogue."""
        return len(self.items)

    def where(self, mask: BoolArray) -> Interactions:
        """Return the events under the mask; the vocabularies stay."""
        return self._at(mask)

    def take(self, rows: IntArray) -> Interactions:
        """Return the events at the given rows; the vocabularies stay."""
        return self._at(rows)

    def joined(self, later: Interactions) -> Interactions:
        """Return these events and then ``later`` ones over the same vocabularies.

        Columns that only one of them has are left out.
        """
        if later.users != self.users or later.items != self.items:
            raise InvalidData(
                "events can be joined when they share the vocabularies of users and items, but these do not. "
                "Read them together, or with the same vocabularies."
            )

        def both(first: AnyArray | None, second: AnyArray | None) -> AnyArray | None:
            return None if first is None or second is None else np.concatenate([first, second])

        merged = None
        if self.merged is not None or later.merged is not None:
            merged = np.concatenate(
                [_ones(part) if part.merged is None else part.merged for part in (self, later)]
            )
        shared = [name for name in self.labels if name in later.labels]
        return replace(
            self,
            user=np.concatenate([self.user, later.user]),
            item=np.concatenate([self.item, later.item]),
            value=both(self.value, later.value),
            time=both(self.time, later.time),
            labels={name: np.concatenate([self.labels[name], later.labels[name]]) for name in shared},
            merged=merged,
        )

    def _at(self, rows: BoolArray | IntArray) -> Interactions:
        return replace(
            self,
            user=self.user[rows],
            item=self.item[rows],
            value=None if self.value is None else self.value[rows],
            time=None if self.time is None else self.time[rows],
            labels={key: array[rows] for key, array in self.labels.items()},
            merged=None if self.merged is None else self.merged[rows],
        )

    def by_user(self) -> Lists:
        """Return each user's distinct items, sorted; computed once."""
        return self._by_user

    @cached_property
    def _by_user(self) -> Lists:
        matrix = self.matrix()
        return Lists(
            frozen(matrix.indptr.astype(np.int64)), frozen(matrix.indices.astype(np.int32, copy=False))
        )

    def user_counts(self) -> IntArray:
        """Return the number of events per user."""
        return _counts(self.user, self.n_users)

    def item_counts(self) -> IntArray:
        """Return the number of events per item (popularity)."""
        return _counts(self.item, self.n_items)

    def matrix(self, *, values: bool = False) -> csr_array:
        """Return the (n_users, n_items) matrix, float32: ones, or the sum of values per pair."""
        from scipy.sparse import coo_array

        data = np.ones(len(self), np.float32)
        if values and self.value is not None:
            data = self.value.astype(np.float32)
        matrix = coo_array((data, (self.user, self.item)), shape=(self.n_users, self.n_items)).tocsr()
        matrix.sum_duplicates()
        if not values:
            matrix.data[:] = 1.0
        return matrix


def _ones(events: Interactions) -> IntArray:
    return np.ones(len(events), dtype=np.int32)


def check_interactions(given: Any, function: str) -> None:
    """Raise unless a function was given interactions; the message says how they are made of what it got.

    Examples
    --------
    >>> check_interactions("events.csv", "make_split")
    Traceback (most recent call last):
    truerank.core.errors.InvalidParameter: make_split needs Interactions, got str. Read a file with ...
    """
    if isinstance(given, Interactions):
        return
    raise InvalidParameter(
        f"{function} needs Interactions, got {type(given).__name__}. {reading_advice(given)}"
    )


def reading_advice(given: Any) -> str:
    """Return the sentence that says how interactions are made of an object."""
    if isinstance(given, str | Path):
        return "Read a file with truerank.read_interactions(path), or a data set with truerank.load(name)."
    if isinstance(getattr(given, "train", None), Interactions):
        return "Give all events, or those of one part, such as split.train."
    if hasattr(given, "tocsr"):
        return "Make interactions of it with truerank.from_csr(matrix)."
    if hasattr(type(given), "columns"):
        return "Make interactions of it with truerank.from_frame(frame)."
    return "Make interactions with truerank.from_arrays(users, items)."


def _counts(codes: IntArray, size: int) -> IntArray:
    """Count each code, by blocks: bincount would make a 64-bit copy of all codes."""
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, len(codes), 1 << 20):
        counts += np.bincount(codes[start : start + (1 << 20)], minlength=size)
    return counts
