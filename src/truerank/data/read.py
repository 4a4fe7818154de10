"""Interactions from files, data frames, sparse matrices and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import polars as pl

from truerank.core.errors import InvalidData, InvalidParameter, check_choice, suggests_arguments
from truerank.core.interactions import Interactions, Vocabulary, reading_advice
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.types import AnyArray, IntArray
from truerank.data.clean import merge_duplicates
from truerank.data.encode import Reader, encode, encode_with, narrow
from truerank.data.table import ColumnChoice, OpenTable, choose, scan


@suggests_arguments
def read_interactions(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    duplicates: str = "last",
    name: str | None = None,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    unknown: Literal["error", "drop"] = "error",
    format: str | None = None,
    time_format: str | None = None,
    times: Literal["needed", "optional"] = "needed",
    drop_missing: bool = False,
    progress: Progress | bool = SILENT,
    tell: Callable[[str], None] | None = None,
) -> Interactions:
    """Read a csv, tsv, parquet, .inter, .dat, JSON-lines or Excel file of interactions.

    Only the needed columns are read, one by one, so that peak memory is close to that of the result.

    Parameters
    ----------
    path : the file
    columns : role (user, item, rating, timestamp) to column name; common names are found without it,
        and an empty name switches rating or timestamp off
    keep : further columns to carry in ``labels``
    duplicates : policy for repeated pairs, see `merge_duplicates`
    name : name of the data in results; the file's name by default
    vocabularies : users and items to encode by, such as those of the train data
    unknown : what to do with ids that are not in the given vocabularies
    format : one of ``csv, tsv, parquet, inter, dat, json, lists, dicts, excel``; by default the suffix
        decides
    time_format : how times are written, such as ``%d/%m/%Y %H:%M``, or the unit of numbers: ``s``, ``ms``,
        ``us`` or ``ns``; None recognises the usual forms
    times : ``needed`` raises where a time cannot be read, ``optional`` leaves all times out and says so
    drop_missing : whether rows without a user, item, rating or time are left out and counted
    progress : where progress is reported; True shows bars
    tell : called with messages about the chosen columns and how dates were read

    Raises
    ------
    InvalidData
        When the file cannot be read, or a column is missing, ambiguous or of the wrong type.
    """
    progress = as_progress(progress)
    if not isinstance(path, str | PathLike):
        what = f"read_interactions needs the path of a file, got {type(path).__name__}."
        raise InvalidParameter(f"{what} {reading_advice(path)}")
    table = scan(path, format=format)
    choice = choose(table.names, columns, keep=keep, where=table.where, by_position=table.by_position)
    if tell is not None:
        tell(f"columns of {path}: {choice}")
    name = name if name is not None else Path(path).name.split(".")[0]
    with tracked(progress, f"reading {name}"):
        return read_table(
            table,
            choice,
            duplicates=duplicates,
            name=name,
            vocabularies=vocabularies,
            unknown=unknown,
            time_format=time_format,
            times=times,
            drop_missing=drop_missing,
            tell=tell,
        )


def choose_columns(
    path: str | Path, columns: Mapping[str, str] | None = None, *, format: str | None = None
) -> ColumnChoice:
    """Return the columns that `read_interactions` would take from a file."""
    table = scan(path, format=format)
    return choose(table.names, columns, where=table.where, by_position=table.by_position)


def read_table(
    table: OpenTable,
    choice: ColumnChoice,
    *,
    duplicates: str = "last",
    name: str = "data",
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    unknown: str = "error",
    time_format: str | None = None,
    times: str = "needed",
    drop_missing: bool = False,
    tell: Callable[[str], None] | None = None,
    notes: bool = True,
) -> Interactions:
    """Read the chosen columns of an opened table; see `read_interactions`.

    Without ``notes`` nothing is said of ids with blanks around them, as where the table is one of many.
    """
    check_choice("unknown", unknown, ("error", "drop"))
    check_choice("times", times, ("needed", "optional"))
    reader = Reader(table, notes=notes)
    reader.check_lines()
    origin: dict[str, int] = {}
    if drop_missing:
        roles = [choice.user, choice.item, choice.rating, choice.timestamp]
        reader, origin["missing_rows"] = reader.without_missing([role for role in roles if role is not None])
    user, users = _codes(reader, choice.user, "user", vocabularies and vocabularies[0], unknown)
    item, items = _codes(reader, choice.item, "item", vocabularies and vocabularies[1], unknown)
    value = None if choice.rating is None else reader.numbers(choice.rating)
    time = None
    if choice.timestamp is not None:
        try:
            time, form = reader.times(choice.timestamp, time_format)
            if form and tell is not None:
                tell(f"times of {table.where}: {form}")
        except InvalidData:
            if times == "needed":
                raise
            origin["times_left_out"] = len(user)
            if tell is not None:
                tell(
                    f"times of {table.where} in column {choice.timestamp!r} cannot be read and are left out: "
                    f"nothing needs them here"
                )
    labels = {column: reader.labels(column) for column in choice.keep}
    origin = {"rows_read": len(user) + origin.get("missing_rows", 0), **origin}
    known = None
    if vocabularies is not None:
        known = (user >= 0) & (item >= 0)
        origin["unknown_rows"] = int(len(known) - known.sum())
        if not origin["unknown_rows"]:
            known = None
    if known is not None:
        user, item = user[known], item[known]
        value = None if value is None else value[known]
        time = None if time is None else time[known]
        labels = {column: array[known] for column, array in labels.items()}
    read = Interactions(
        user, item, users, items, value=value, time=time, labels=labels, name=name, origin=origin
    )
    return merge_duplicates(read, duplicates)


def _codes(
    reader: Reader, column: str, what: str, vocabulary: Vocabulary | None, unknown: str
) -> tuple[IntArray, Vocabulary]:
    ids = reader.ids(column)
    if vocabulary is None:
        return encode(ids)
    return encode_with(ids, vocabulary, unknown=unknown, what=what), vocabulary


@suggests_arguments
def from_frame(
    frame: Any,
    *,
    columns: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
    duplicates: str = "last",
    name: str = "data",
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    unknown: str = "error",
    time_format: str | None = None,
    times: Literal["needed", "optional"] = "needed",
    drop_missing: bool = False,
) -> Interactions:
    """Build from a pandas, polars (eager or lazy) or pyarrow table.

    Parameters are those of `read_interactions`.

    Examples
    --------
    >>> frame = pl.DataFrame({"user_id": ["b", "a"], "item_id": [3, 3], "rating": [4, 5]})
    >>> events = from_frame(frame)
    >>> events.user.tolist(), events.n_items, events.value.tolist()
    ([1, 0], 1, [4.0, 5.0])
    """
    if isinstance(frame, pl.DataFrame | pl.LazyFrame):
        lazy = frame.lazy()
        names = lazy.collect_schema().names()
        choice = choose(names, columns, keep=keep, where="the frame")
    else:
        import narwhals as nw

        native = nw.from_native(frame, pass_through=True)
        if not isinstance(native, nw.DataFrame):
            raise InvalidData(
                f"a frame must be a pandas, polars or pyarrow table, got {type(frame).__name__}. "
                f"Use from_arrays for arrays and from_csr for matrices."
            )
        names = [str(column) for column in native.columns]
        choice = choose(names, columns, keep=keep, where="the frame")
        wanted = [choice.user, choice.item, choice.rating, choice.timestamp, *choice.keep]
        lazy = pl.LazyFrame([_to_polars(native[column]) for column in wanted if column is not None])
    table = OpenTable(lazy, names, is_text=False, where="the frame")
    return read_table(
        table,
        choice,
        duplicates=duplicates,
        name=name,
        vocabularies=vocabularies,
        unknown=unknown,
        time_format=time_format,
        times=times,
        drop_missing=drop_missing,
    )


@suggests_arguments
def from_arrays(
    users: Any,
    items: Any,
    *,
    ratings: Any = None,
    timestamps: Any = None,
    duplicates: str = "last",
    name: str = "data",
) -> Interactions:
    """Build from equally long sequences of user ids, item ids and perhaps ratings and timestamps.

    Examples
    --------
    >>> events = from_arrays(["x", "y", "x"], [10, 20, 30], timestamps=[1, 2, 3])
    >>> events.user.tolist(), events.item.tolist(), events.n_items
    ([0, 1, 0], [0, 1, 2], 3)
    """
    given = {"user": users, "item": items, "rating": ratings, "timestamp": timestamps}
    present = {role: values for role, values in given.items() if values is not None}
    lengths = {role: len(values) for role, values in present.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{role} {length}" for role, length in lengths.items())
        raise InvalidData(f"all sequences must be equally long, got {shown}.")
    frame = pl.DataFrame([pl.Series(role, values) for role, values in present.items()])
    return from_frame(frame, duplicates=duplicates, name=name)


@suggests_arguments
def from_csr(matrix: Any, *, name: str = "data") -> Interactions:
    """Build from a scipy sparse matrix or array of shape (n_users, n_items).

    Codes are row and column numbers, so empty rows and columns stay in the vocabularies. Stored values
    become ratings unless all are one. Explicitly stored zeros mean "no event": they are left out and
    counted in ``origin["zero_entries"]``; entries stored twice are added up.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> events = from_csr(csr_array(np.array([[0, 2], [0, 0], [1, 0]])))
    >>> events.user.tolist(), events.item.tolist(), events.value.tolist(), events.n_users
    ([0, 2], [1, 0], [2.0, 1.0], 3)
    """
    from scipy.sparse import coo_array, issparse

    if not issparse(matrix):
        raise InvalidData(f"matrix must be a scipy sparse matrix, got {type(matrix).__name__}.")
    entries: Any = coo_array(cast(Any, matrix), copy=True)
    rows_read = len(entries.data)
    entries.sum_duplicates()
    n_users, n_items = entries.shape
    stored: AnyArray = entries.data
    kept = stored != 0
    value = narrow(stored[kept].astype(np.float64))
    user, item = (codes[kept].astype(np.int32) for codes in (entries.row, entries.col))
    origin = {
        "rows_read": rows_read,
        "duplicate_rows": rows_read - len(stored),
        "zero_entries": int(len(stored) - kept.sum()),
    }
    return Interactions(
        user,
        item,
        Vocabulary.range(n_users),
        Vocabulary.range(n_items),
        value=None if (value == 1).all() else value,
        name=name,
        origin=origin,
    )


def _to_polars(column: Any) -> pl.Series:
    try:
        series: pl.Series = column.to_polars()
    except ImportError:  # pandas without pyarrow
        pairs = zip(column.to_list(), column.is_null().to_list(), strict=True)
        series = pl.Series(column.name, [None if missing else value for value, missing in pairs])
    return series
