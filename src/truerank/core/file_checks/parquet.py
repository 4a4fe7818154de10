"""Parquet files whose pages cannot hold what they say.

Polars takes memory for as many values as the head of a page names. Where a damaged one names a negative
number or far too many, that ends the process, which nothing can prevent then. Heads of pages are never
compressed, and the footer has the numbers of their columns, so that both are compared beforehand.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

#: Bytes of the longest footer that is looked at: reading millions of columns and row groups takes long.
MOST_FOOTER = 1 << 22
_DEPTH = 20  # of structures within structures; those of Parquet have six levels
_MARK = b"PAR1"

Fields = dict[int, Any]


def check_parquet(file: str | Path | bytes) -> None:
    """Raise where a page of a Parquet file names a number of values that its column cannot have.

    What is no Parquet file, or cannot be followed, is left to the reader.

    Parameters
    ----------
    file : its path, or its bytes

    Raises
    ------
    ValueError
        When the numbers contradict each other.
    """
    if isinstance(file, bytes):
        _check(file)
        return
    path = Path(file)
    if path.is_file() and path.stat().st_size >= 12:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check(data)


def _check(data: bytes | mmap.mmap) -> None:
    length = int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MARK or data[-4:] != _MARK or not length <= min(MOST_FOOTER, len(data) - 12):
        return
    try:
        footer, _ = _structure(data[-8 - length : -8], 0)
        for group in footer[4]:
            n_rows = group[3]
            for column in group[1]:
                _check_pages(data, column[3], n_rows)
    except (IndexError, KeyError, TypeError, RecursionError):
        return  # cut off, or of another form than the one of the format


def _check_pages(data: bytes | mmap.mmap, column: Fields, n_rows: int) -> None:
    """Follow the pages of a column in one row group, whose numbers the footer has."""
    n_values, at = column[5], column[9]
    is_flat = len(column[3]) == 1
    if n_rows < 0 or n_values < 0 or (is_flat and n_values != n_rows):
        raise ValueError(f"a column with {n_values} values in {n_rows} rows")
    if 0 < column.get(11, 0) < at:
        at = column[11]
    end = min(at + column[7], len(data))
    while 0 <= at < end:
        page, at = _structure(data, at)
        for head, most in ((5, n_values), (8, n_values), (7, page[2])):  # data, data of version 2, dictionary
            if head in page and not 0 <= page[head][1] <= most:
                raise ValueError(f"a page with {page[head][1]} values where at most {most} can be")
        if page[3] < 0:
            raise ValueError(f"a page of {page[3]} bytes")
        at += page[3]


def _structure(data: bytes | mmap.mmap, at: int, depth: int = 0) -> tuple[Fields, int]:
    """Return the fields of a structure in Thrift's compact protocol by their numbers, and where it ends."""
    if depth > _DEPTH:
        raise RecursionError
    fields: Fields = {}
    last = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            last += head >> 4
        else:
            last, at = _signed(data, at)
        if head & 15 in (1, 2):  # the type of a boolean is its value
            fields[last] = head & 15 == 1
        else:
            fields[last], at = _value(data, at, head & 15, depth)
    return fields, at + 1


def _value(data: bytes | mmap.mmap, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2, 3):
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _signed(data, at)
    if kind == 7:
        return None, at + 8
    if kind == 8:
        length, at = _unsigned(data, at)
        return None, at + length
    if kind in (9, 10):
        size, inner = data[at] >> 4, data[at] & 15
        at += 1
        if size == 15:
            size, at = _unsigned(data, at)
        found = []
        for _ in range(size):
            one, at = _value(data, at, inner, depth)
            found.append(one)
        return found, at
    if kind == 12:
        return _structure(data, at, depth + 1)
    raise TypeError(kind)


def _unsigned(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise TypeError("a number of more than 64 bits")


def _signed(data: bytes | mmap.mmap, at: int) -> tuple[int, int]:
    number, at = _unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at
