"""Typed columns and codes: parsing ids, ratings and times, and encoding ids by a sorted vocabulary.

The code of an id is its position in the sorted vocabulary, so it does not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from truerank.core.errors import InvalidData
from truerank.core.interactions import Vocabulary
from truerank.core.types import AnyArray, BoolArray, FloatArray, IntArray
from truerank.data.table import OpenTable, readable

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
_DATE_FORMATS = (
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%a %b %d %H:%M:%S %z %Y",
)


@dataclass(frozen=True)
class Reader:
    """Reads single columns of a table as ids, numbers, times or labels.

    Each column is collected on its own, so that only one wide column is in memory at a time.
    """

    table: OpenTable

    def check_lines(self) -> None:
        """Read a delimited text file once as a whole, to find lines with too many fields."""
        if self.table.is_delimited:
            with readable(self.table.where, "text"):
                self.table.frame.select(pl.all().null_count()).collect(engine="streaming")

    def ids(self, column: str) -> pl.Series:
        """Return ids as Int64 (all >= 0) or String, without nulls."""
        if self.table.is_text:
            series = self._text_ids(column)
        else:
            series = self._collect(pl.col(column))
            if series.dtype == pl.String or isinstance(series.dtype, pl.Categorical | pl.Enum):
                series = series.cast(pl.String)
            elif not series.dtype.is_numeric():
                raise self._error(column, "ids must be integers or text", f"the column is {series.dtype}")
        self._check_complete(column, series, "ids")
        if series.dtype.is_float() or series.dtype.is_decimal():
            series = self._whole(column, series)
        if series.dtype.is_integer() and (series < 0).any():
            raise self._error(column, "ids must be integers >= 0 or text", *self._first(series, series < 0))
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
        return narrow(series)

    def times(self, column: str) -> AnyArray:
        """Return times as integers if all are whole, in seconds where the column holds dates."""
        raw = self._collect(_text(column) if self.table.is_text else pl.col(column))
        self._check_complete(column, raw, "times")
        series = raw
        if raw.dtype == pl.String:
            series = raw.cast(pl.Int64, strict=False)
            if series.null_count():
                series = raw.cast(pl.Float64, strict=False)
            if series.null_count():
                series = _dates(raw)
        if series.dtype == pl.Date:
            series = series.cast(pl.Datetime("us"))
        if isinstance(series.dtype, pl.Datetime):
            series = series.dt.timestamp("us").cast(pl.Float64) / 1e6
        if not series.dtype.is_numeric():
            raise self._error(column, "times must be numbers or dates", f"the column is {raw.dtype}")
        bad = ~series.is_finite() if series.dtype.is_float() else series.is_null()
        bad = bad.fill_null(True)
        if bad.any():
            raise self._error(column, "times must be finite numbers or dates", *self._first(raw, bad))
        return narrow(series, whole=True)

    def labels(self, column: str) -> AnyArray:
        """Return a further column: numbers as they are, everything else as text."""
        series = self._collect(pl.col(column))
        if series.dtype.is_numeric() or series.dtype == pl.Boolean:
            return series.to_numpy()
        texts = series.cast(pl.String).fill_null("")
        distinct = texts.unique().sort()
        codes = texts.cast(pl.Enum(distinct)).to_physical().to_numpy()
        return np.asarray(np.array(distinct.to_list(), dtype=object)[codes])

    def _collect(self, *expressions: pl.Expr) -> pl.Series:
        return next(self._collect_all(*expressions))

    def _collect_all(self, *expressions: pl.Expr) -> Iterator[pl.Series]:
        with readable(self.table.where, "data"):
            frame = self.table.frame.select(expressions).collect(engine="streaming")
        if frame.height == 0:
            raise InvalidData(f"{self.table.where} must hold at least one event, but it has only a header.")
        yield from frame.iter_columns()

    def _text_ids(self, column: str) -> pl.Series:
        text = pl.col(column)
        number = text.cast(pl.Int64, strict=False)
        odd = text.is_not_null() & (number.is_null() | _is_padded(text))
        with readable(self.table.where, "data"):
            is_odd = self.table.frame.head(_SAMPLE).select(odd.any()).collect().item()
        if not is_odd:
            numbers, odds = self._collect_all(number, odd.alias("odd"))
            if not odds.any():
                return numbers
            del numbers, odds
        texts = self._collect(_text(column))
        if texts.to_frame().select(_is_padded(pl.col(column)).any()).item():
            return texts
        for dtype in (pl.Int64, pl.Float64):
            numbers = texts.cast(dtype, strict=False)
            if numbers.null_count() == texts.null_count():
                return numbers
        return texts

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
                f"{self.table.where} are, first in row {row}. Fill or remove these rows."
            )

    def _first(self, series: pl.Series, bad: pl.Series) -> tuple[str]:
        row = int(bad.arg_max() or 0)
        return (f"{series[row]!r} stands in row {row + 1}",)

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


def _is_padded(text: pl.Expr) -> pl.Expr:
    """Whether an id has leading zeros, which a number would lose: '007' must not become 7."""
    return text.str.contains("^0[0-9]")


def _text(column: str) -> pl.Expr:
    text = pl.col(column).str.strip_chars()
    return pl.when(text != "").then(text).alias(column)


def _dates(texts: pl.Series) -> pl.Series:
    """Parse dates by the first format that reads the first value; what it cannot read is null."""
    for format in _DATE_FORMATS:
        is_date = "%H" not in format
        parse = texts.head(1).str.to_date if is_date else texts.head(1).str.to_datetime
        if parse(format, strict=False).null_count() == 0:
            if is_date:
                return texts.str.to_date(format, strict=False).cast(pl.Datetime("us"))
            return texts.str.to_datetime(format, strict=False, time_unit="us")
    return texts.cast(pl.Int64, strict=False)
