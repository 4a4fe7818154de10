"""Digests that name data: equal content gives equal text in every process and on every machine.

Results print `data_hash`; finished work is stored under keys with `events_hash`, or a `content_digest` of
the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.split import Split
from truerank.core.types import AnyArray


def content_digest(content: Iterable[str | bytes | AnyArray], *, size: int = 16) -> str:
    """Return the BLAKE2b digest of texts, bytes and the bytes of arrays, joined, as 2 ``size`` hex digits.

    Examples
    --------
    >>> content_digest(["ab", b"c"], size=4) == content_digest(["abc"], size=4)
    True
    """
    state = hashlib.blake2b(digest_size=size)
    for part in content:
        if isinstance(part, str):
            state.update(part.encode())
        elif isinstance(part, bytes):
            state.update(part)
        else:
            state.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return state.hexdigest()


def data_hash(split: Split) -> str:
    """Return a digest of the (user, item) pairs in each part; equal for equal data in any row order."""
    lists = [part.by_user() for part in (split.train, split.test, split.valid) if part is not None]
    return content_digest(array for one in lists for array in (one.indptr, one.items))


def file_hash(path: Path) -> str:
    """Return a digest of the bytes of a file, read piece by piece."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def events_hash(*parts: Interactions | None) -> str:
    """Return a digest of users, items, times and values in their order.

    Examples
    --------
    >>> a = Interactions.from_codes([0, 1], [1, 0], value=np.array([4.0, 5.0]))
    >>> again = a.take(np.array([0, 1]))
    >>> events_hash(a) == events_hash(again), events_hash(a) == events_hash(a, None)
    (True, False)
    """
    return content_digest((piece for part in parts for piece in _columns(part)), size=12)


def _columns(part: Interactions | None) -> Iterator[str | AnyArray]:
    """Yield names and columns one after the other: the 64-bit copies of all would be most of the memory."""
    if part is None:
        yield "none"
        return
    yield f"{part.n_users} {part.n_items} {len(part)}"
    for name in ("user", "item", "time", "value"):
        column = getattr(part, name)
        if column is not None:
            yield name
            yield column.astype(np.float64 if column.dtype.kind == "f" else np.int64)
