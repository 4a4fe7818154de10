"""From ids to codes: the position in the sorted vocabulary, whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from truerank.core.errors import InvalidData
from truerank.core.types import AnyArray, BoolArray, IntArray
from truerank.core.vocabulary import Vocabulary

CHUNK = 1 << 20  # rows treated at once, so that scratch stays small whatever the number of rows


def blocks(values: AnyArray | pl.Series) -> Iterator[tuple[slice, AnyArray]]:
    """Yield successive rows and their values; a chunked series is never joined.

    Examples
    --------
    >>> [(rows.start, block.tolist()) for rows, block in blocks(pl.Series([7, 8]).append(pl.Series([9])))]
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

    Integers that lie close together go through a table; other integers are searched in the sorted
    distinct ids; strings are encoded by polars. Cost is linear in rows for the first and the last.

    Examples
    --------
    >>> codes, vocabulary = encode(pl.Series([30, 10, 30]))
    >>> codes.tolist(), vocabulary.ids.to_list()
    ([1, 0, 1], [10, 30])
    """
    if ids.dtype.is_integer() and len(ids):
        ends = [(int(block.min()), int(block.max())) for _, block in blocks(ids)]
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
    for _, block in blocks(ids):
        present[block.astype(np.int64) - low] = True
    table = (np.cumsum(present, dtype=np.int64) - 1).astype(np.int32)
    codes = np.empty(len(ids), dtype=np.int32)
    for rows, block in blocks(ids):
        places = block.astype(np.int64)
        places -= low
        table.take(places, out=codes[rows], mode="clip")  # any other mode copies the output first
    return codes, Vocabulary(pl.Series("id", np.flatnonzero(present) + low))


def _encode_sparse(ids: pl.Series) -> tuple[IntArray, Vocabulary]:
    distinct = ids.unique().sort()
    codes = np.empty(len(ids), dtype=np.int32)
    for rows, block in blocks(ids):
        codes[rows] = np.searchsorted(distinct.to_numpy(), block)
    return codes, Vocabulary(distinct.rename("id"))
