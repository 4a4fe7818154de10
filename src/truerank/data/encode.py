"""Typed columns and codes: parsing ids, ratings and times, and encoding ids by a sorted vocabulary.

The code of an id is its position in the sorted vocabulary, so it does not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from truerank.core.checkpoint import readable
from truerank.core.errors import InvalidData
from truerank.core.file_checks.cells import check_cells
from truerank.core.interactions import BLANK, INTEGER, Vocabulary, tell_of_blanks, typed_ids
from truerank.core.types import AnyArray, BoolArray, FloatArray, IntArray
from truerank.data.table import OpenTable
from truerank.data.times import AmbiguousTimes, Times, read_times

CHUNK = 1 << 20  # rows treated at once, so that scratch stays small whatever the number of rows


def value_blocks(values: AnyArray | pl.Series) -> Iterator[tuple[slice, AnyArray]]:
    """Yield successive rows and their values, chunk by chunk, without copying the series.

    Examples
    --------
    >>> series = pl.Series([7, 8]).append(pl.Series([9]))
    >>> [(rows.start, block.tolist()) for rows, block in value_blocks(series)]
    [(0, [7, 8]), (2, [9])]
    """
    start = 0
    for chunk in values.get_chunks() if isinstance(values, pl.Series) else [values]:
        for offset in range(0, len(chunk), CHUNK):
            block = np.asarray(chunk[offset : offset + CHUNK])
            yield slice(start, start + len(block)), block
            start += len(block)


def encode(ids: pl.Series) -> tuple[IntArray, Vocabulary]:
    """Return int32 codes and the vocabulary of complete ids.

    Integers of a small range are looked up in a table, others by binary search in the sorted distinct ids;
    strings are encoded by polars. Time is linear in rows for the first and the last.

    Examples
    --------
    >>> codes, vocabulary = encode(pl.Series([30, 10, 30]))
    >>> codes.tolist(), vocabulary.ids.to_list()
    ([1, 0, 1], [10, 30])
    """
    if ids.dtype.is_integer() and len(ids):
        ends = [(int(block.min()), int(block.max())) for _, block in value_blocks(ids)]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        if high - low < max(1 << 22, len(ids)):
            return _encode_dense(ids, low, high)
        return _encode_sparse(ids)
    distinct = ids.unique().sort()
    codes = ids.cast(pl.Enum(distinct)).to_physical().to_numpy()
    return codes.astype(np.int32), Vocabulary(distinct.rename("id"))


def encode_with(ids: pl.Series, vocabulary: Vocabulary, *, unknown: str, what: str) -> IntArray:
    """Return int32 codes under a given vocabulary, -1 where an id is not in it.

    Raises
    ------
    InvalidData
        When ``unknown`` is ``error`` and there is an id that the vocabulary does not have.
    """
    codes = vocabulary.encode(ids).astype(np.int32)
    if unknown == "error" and len(codes) and codes.min() < 0:
        rows = np.flatnonzero(codes < 0)
        raise InvalidData(
            f"every {what} must be known from the train data, but {len(rows)} rows hold others, such as "
            f"{ids[int(rows[0])]!r} in row {rows[0] + 1}. Drop them with unknown='drop'."
        )
    return codes


def recode(codes: IntArray, present: BoolArray) -> IntArray:
    """Return the codes renumbered over the entries that are present.

    Examples
    --------
    >>> recode(np.array([0, 3, 3]), np.array([True, False, False, True])).tolist()
    [0, 1, 1]
    """
    table = (np.cumsum(present) - 1).astype(np.int32)
    return table[codes]


def _encode_dense(ids: pl.Series, low: int, high: int) -> tuple[IntArray, Vocabulary]:
    present = np.zeros(high - low + 1, dtype=np.bool_)
    for _, block in value_blocks(ids):
        present[block.astype(np.int64) - low] = True
    table = (np.cumsum(present, dtype=np.int64) - 1).astype(np.int32)
    codes = np.empty(len(ids), dtype=np.int32)
    for rows, block in value_blocks(ids):
        places = block.astype(np.int64)
        places -= low
        table.take(places, out=codes[rows], mode="clip")  # any other mode copies the output first
    return codes, Vocabulary(pl.Series("id", np.flatnonzero(present) + low))


def _encode_sparse(ids: pl.Series) -> tuple[IntArray, Vocabulary]:
    distinct = ids.unique().sort()
    codes = np.empty(len(ids), dtype=np.int32)
    for rows, block in value_blocks(ids):
        codes[rows] = np.searchsorted(distinct.to_numpy(), block)
    return codes, Vocabulary(distinct.rename("id"))


_SAMPLE = 1000
_NOT_PLAIN = r"^(?:\+|-?0[0-9]|-0)|[0-9][eE]"  # numbers that are text as ids: 007, +5, 1e3
_WITHIN_INT64 = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
#: What programs write for a missing value in a text file, in lower case; meant only where rows are dropped.
_MISSING_WORDS = ("", "nan", "null", "na", "n/a", "none")


@dataclass(frozen=True)
class Reader:
    """Reads single columns of a table as ids, numbers, times or labels.

    Each column is collected on its own, so that only one wide column is in memory at a time.

    Parameters
    ----------
    table : where the columns are
    is_reduced : whether rows with missing values were dropped, so that rows are counted without them
    notes : whether a note names ids with blanks around them
    """

    table: OpenTable
    is_reduced: bool = False
    notes: bool = True

    def check_lines(self) -> None:
        """Read a delimited text file once as a whole, to find lines and cells that would lose something."""
        with readable(self.table.where, "text file"):
            if self.table.delimited is not None:
                check_cells(*self.table.delimited)
                self.table.frame.select(pl.all().null_count()).collect(engine="streaming")
            elif self.table.excess is not None:
                is_long = pl.col(self.table.excess).is_not_null()
                longer = (
                    self.table.frame.with_row_index("row").filter(is_long).select("row").head(1).collect()
                )
                if longer.height:
                    raise InvalidData(
                        f"lines of {self.table.where} must have {len(self.table.names)} fields like the "
                        f"first one, but row {longer.item() + 1} has more. Correct the line."
                    )

    def without_missing(self, columns: Sequence[str]) -> tuple[Reader, int]:
        """Return a reader of the rows that have a value in all the columns, and how many do not.

        Texts of nothing but blanks are missing; in text files so are the words that programs write for a
        missing value (NaN, NULL, NA, None).
        """
        frame = self.table.frame
        if self.table.is_text:
            words = [
                ~pl.col(name).str.strip_chars().str.to_lowercase().is_in(_MISSING_WORDS) for name in columns
            ]
            is_there = [pl.col(name).is_not_null() & word for name, word in zip(columns, words, strict=True)]
        else:
            kinds = frame.collect_schema()
            is_there = [pl.col(name).is_not_null() & _has_value(name, kinds[name]) for name in columns]
        complete = pl.all_horizontal(is_there)
        with readable(self.table.where, "data file"):
            total, kept = (
                frame.select(pl.len(), complete.sum().alias("kept")).collect(engine="streaming").row(0)
            )
        if total and not kept:
            raise InvalidData(
                f"{self.table.where} must hold at least one event without missing values, but every row "
                f"lacks one of {', '.join(map(repr, columns))}. Choose other columns."
            )
        if kept == total:
            return self, 0
        kept_table = replace(self.table, frame=frame.filter(complete))
        return replace(self, table=kept_table, is_reduced=True), total - kept

    def ids(self, column: str) -> pl.Series:
        """Return ids as Int64 (all >= 0), or String as written (`core.interactions`), without nulls."""
        if self.table.is_text:
            series = self._text_ids(column)
        else:
            series = self._collect(pl.col(column))
            if series.dtype == pl.String or isinstance(series.dtype, pl.Categorical | pl.Enum):
                series = series.cast(pl.String)
                series = series.set(series.str.contains(BLANK), None)
            elif not series.dtype.is_numeric():
                raise self._error(column, "ids must be integers or text", f"the column is {series.dtype}")
        self._check_complete(column, series, "ids")
        if series.dtype.is_decimal():
            series = self._typed_ids(column, series.cast(pl.String))
        if series.dtype.is_float():
            series = self._whole(column, series)
        if series.dtype.is_integer() and (series < 0).any():
            raise self._error(column, "ids must be integers >= 0 or text", *self._first(series, series < 0))
        series = _within_int64(series)
        if series.dtype == pl.String and not self.table.may_be_damaged:
            self._check_encoding(column, series)
        if self.notes:
            tell_of_blanks(series, f"column {column!r} of {self.table.where}")
        return series

    def numbers(self, column: str) -> FloatArray:
        """Return ratings as the narrowest floating type that holds them exactly."""
        raw = self._collect(_text(column) if self.table.is_text else pl.col(column))
        if not (raw.dtype.is_numeric() or raw.dtype in (pl.String, pl.Boolean)):
            raise self._error(column, "ratings must be numbers", f"the column is {raw.dtype}")
        is_small = raw.dtype in (pl.Float32, pl.Int8, pl.UInt8, pl.Int16, pl.UInt16)
        series = raw.cast(pl.Float32 if is_small else pl.Float64, strict=False)
        self._check_complete(column, raw, "ratings")
        bad = (~series.is_finite()).fill_null(True)
        if bad.any():
            raise self._error(column, "ratings must be finite numbers", *self._first(raw, bad))
        rounded = _is_rounded(raw, series)
        if rounded.any():
            rule = "whole ratings must be below 2^53, from where on they would be rounded"
            raise self._error(column, rule, *self._first(raw, rounded))
        return narrow(series)

    def times(self, column: str, time_format: str | None = None) -> tuple[AnyArray, str]:
        """Return times as integers if all are whole, and how dates among them were read, in words.

        Parameters
        ----------
        column : numbers of any unit, or dates, which become seconds since 1970
        time_format : see `read_times`
        """
        raw = self._collect(_text(column) if self.table.is_text else pl.col(column))
        if raw.dtype == pl.String:
            raw = raw.str.strip_chars()
        self._check_complete(column, raw, "times")
        if not (raw.dtype.is_numeric() or raw.dtype in (pl.String, pl.Date, pl.Datetime)):
            raise self._error(column, "times must be numbers or dates", f"the column is {raw.dtype}")
        try:
            read = read_times(raw, time_format)
        except AmbiguousTimes as error:
            raise InvalidData(
                f"times in column {column!r} of {self.table.where} must be dates that can be read in one "
                f"way, but {error}. Say how they are written, such as time_format='%d/%m/%Y %H:%M' or "
                f"time_format='%m/%d/%Y'."
            ) from None
        bad = ~read.seconds.is_finite() if read.seconds.dtype.is_float() else read.seconds.is_null()
        bad = bad.fill_null(True)
        seconds = read.seconds
        if seconds.dtype.is_integer() and seconds.dtype not in _WITHIN_INT64:
            seconds = seconds.cast(pl.Int64, strict=False)
            bad = seconds.is_null()
        if bad.any():
            raise self._unread(column, raw, bad, read, time_format)
        return narrow(seconds, whole=True), str(read) if read.form else ""

    def _unread(
        self, column: str, raw: pl.Series, bad: pl.Series, read: Times, time_format: str | None
    ) -> InvalidData:
        rule = "times must be finite numbers or dates"
        first = str(raw[int(bad.arg_max() or 0)])
        if first.lstrip("+-").isdigit() and time_format is None:
            rule = "whole times must be below 2^63, and below 2^53 beside times with a fraction"
        elif time_format is not None:
            rule = f"times must be written as time_format={time_format!r} says"
        elif read.form and not bad.all():
            rule = f"times must be dates like the others, read as {read.form}"
        (came,) = self._first(raw, bad)
        return InvalidData(
            f"{rule}, but in column {column!r} of {self.table.where} {came}. Say how times are written, such "
            f"as time_format='%d/%m/%Y %H:%M', clean the column, or choose another one by columns."
        )

    def labels(self, column: str) -> AnyArray:
        """Return a further column: numbers as they are, everything else as text."""
        series = _within_int64(self._collect(pl.col(column)))
        if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
            came = f"the column is {series.dtype}"
            raise self._error(column, "labels must be numbers, dates or text", came)
        if series.dtype.is_numeric() or series.dtype == pl.Boolean:
            return series.to_numpy()
        texts = series.cast(pl.String).fill_null("")
        distinct = texts.unique().sort()
        codes = texts.cast(pl.Enum(distinct)).to_physical().to_numpy()
        return np.asarray(np.array(distinct.to_list(), dtype=object)[codes])

    def _collect(self, *expressions: pl.Expr) -> pl.Series:
        return next(self._collect_all(*expressions))

    def _collect_all(self, *expressions: pl.Expr) -> Iterator[pl.Series]:
        with readable(self.table.where, "data file"):
            frame = self.table.frame.select(expressions).collect(engine="streaming")
        if frame.height == 0:
            raise InvalidData(f"{self.table.where} must hold at least one event, but it has only a header.")
        yield from frame.iter_columns()

    def _text_ids(self, column: str) -> pl.Series:
        text = pl.col(column)
        number = text.cast(pl.Int64, strict=False)
        odd = text.is_not_null() & (number.is_null() | ~text.str.contains(INTEGER))
        with readable(self.table.where, "data file"):
            is_odd = self.table.frame.head(_SAMPLE).select(odd.any()).collect().item()
        if not is_odd:
            numbers, odds = self._collect_all(number, odd.alias("odd"))
            if not odds.any():
                return numbers
            del numbers, odds
        texts = self._collect(text)
        return self._typed_ids(column, texts.set(texts.str.contains(BLANK), None))

    def _typed_ids(self, column: str, texts: pl.Series) -> pl.Series:
        """Return whole numbers where all are in plain form, else text; fractions, to be refused by row."""
        ids = typed_ids(texts, f"column {column!r} of {self.table.where}")
        if ids.dtype != pl.String:
            return ids
        numbers = texts.cast(pl.Float64, strict=False)
        if numbers.null_count() > texts.null_count() or texts.str.contains(_NOT_PLAIN).any():
            return ids
        is_whole = numbers.is_finite() & (numbers == numbers.floor())
        return ids if is_whole.all() else numbers

    def _whole(self, column: str, series: pl.Series) -> pl.Series:
        series = series.cast(pl.Float64)
        self._check_complete(column, series.fill_nan(None), "ids")
        broken = ~series.is_finite() | (series != series.floor()) | (series.abs() >= 2.0**53)
        if broken.any():
            raise self._error(column, "ids must be whole numbers or text", *self._first(series, broken))
        return series.cast(pl.Int64)

    def _check_complete(self, column: str, series: pl.Series, what: str) -> None:
        missing = series.is_null()
        if series.dtype.is_float():
            missing = missing | series.is_nan()
        count = int(missing.sum())
        if count:
            row = int(missing.arg_max() or 0) + 1
            raise InvalidData(
                f"{what} must not be missing, but {count} of {len(series)} in column {column!r} of "
                f"{self.table.where} are, first in row {row}. Fill these rows, or leave them out with "
                f"drop_missing=True."
            )

    def _check_encoding(self, column: str, series: pl.Series) -> None:
        damaged = series.str.contains("\ufffd", literal=True)
        if damaged.any():
            raise InvalidData(
                f"ids must be text in UTF-8, but {series[int(damaged.arg_max() or 0)]!r} in column "
                f"{column!r} of {self.table.where} is not. Convert the file, such as by "
                f"iconv -f latin1 -t utf8."
            )

    def _first(self, series: pl.Series, bad: pl.Series) -> tuple[str]:
        row = int(bad.arg_max() or 0)
        counted = " (not counting dropped rows)" if self.is_reduced else ""
        return (f"{series[row]!r} stands in row {row + 1}{counted}",)

    def _error(self, column: str, rule: str, came: str) -> InvalidData:
        return InvalidData(
            f"{rule}, but in column {column!r} of {self.table.where} {came}. "
            "Clean the column or choose another one by columns."
        )


def narrow(values: AnyArray | pl.Series, *, whole: bool = False) -> AnyArray:
    """Return the values in the narrowest type that holds them exactly: float32 or float64.

    With ``whole``, integers and floats without fraction become int32 or int64.

    Examples
    --------
    >>> narrow(np.array([1.0, 3.5])).dtype.name, narrow(np.array([0.1])).dtype.name
    ('float32', 'float64')
    >>> narrow(np.array([978300760.0]), whole=True).dtype.name
    'int32'
    """
    narrowest: type[np.generic] = np.float32
    if whole and all(_is_whole(block) for _, block in value_blocks(values)):
        narrowest = np.int32
    exact = all(_is_exact(block, narrowest) for _, block in value_blocks(values))
    wide = np.int64 if narrowest is np.int32 else np.float64
    array: AnyArray = np.empty(len(values), dtype=narrowest if exact else wide)
    for rows, block in value_blocks(values):
        array[rows] = block
    return array


def _is_whole(block: AnyArray) -> bool:
    return block.dtype.kind in "iu" or bool(((np.abs(block) < 2.0**53) & (block % 1 == 0)).all())


def _is_exact(block: AnyArray, dtype: type[np.generic]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((block.astype(dtype) == block).all())


def _within_int64(series: pl.Series) -> pl.Series:
    """Return wider integers as signed 64-bit numbers, by which codes are looked up, else as text."""
    if not series.dtype.is_integer() or series.dtype in _WITHIN_INT64:
        return series
    small = series.cast(pl.Int64, strict=False)
    return series.cast(pl.String) if small.null_count() > series.null_count() else small


def _is_rounded(raw: pl.Series, numbers: pl.Series) -> pl.Series:
    """Return where a whole number is beyond those that float64 holds without gaps."""
    large = numbers.abs() >= 2.0**53
    if raw.dtype.is_integer():
        return large
    return large & raw.str.contains(r"^[+-]?\d+$") if raw.dtype == pl.String else large & False


def _has_value(column: str, kind: pl.DataType) -> pl.Expr:
    if kind.is_float():
        return ~pl.col(column).is_nan()
    if kind == pl.String or isinstance(kind, pl.Categorical | pl.Enum):
        return ~pl.col(column).cast(pl.String).str.contains(BLANK)
    return pl.lit(True)


def _text(column: str) -> pl.Expr:
    text = pl.col(column).str.strip_chars()
    return pl.when(text != "").then(text).alias(column)
