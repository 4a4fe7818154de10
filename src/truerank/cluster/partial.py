"""Partials: a few named arrays and facts as bytes that do not depend on time or place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from truerank.core.types import AnyArray


@dataclass(frozen=True, eq=False)
class Partial:
    """What one task found.

    Parameters
    ----------
    arrays : flat arrays by name
    facts : what JSON can hold

    Examples
    --------
    >>> found = Partial.unpack(Partial({"rank": np.array([3, 1])}, {"n_users": 2}).pack())
    >>> found.arrays["rank"].tolist(), found.facts
    ([3, 1], {'n_users': 2})
    """

    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the bytes: a line of JSON, then the arrays one after the other."""
        stored = {name: _narrowed(array) for name, array in self.arrays.items()}
        layout = [
            [name, array.dtype.str, len(array), len(self.arrays[name])] for name, array in stored.items()
        ]
        head = json.dumps({"arrays": layout, "facts": dict(self.facts)}, sort_keys=True, allow_nan=False)
        return b"".join([head.encode(), b"\n", *(array.tobytes() for array in stored.values())])

    @classmethod
    def unpack(cls, packed: bytes) -> Partial:
        """Read what ``pack`` returned; integers come back as int64."""
        head, _, body = packed.partition(b"\n")
        described = json.loads(head)
        arrays, start = {}, 0
        for name, dtype, n_stored, length in described["arrays"]:
            array = np.frombuffer(body, dtype, n_stored, start)
            start += array.nbytes
            array = array.astype(np.int64) if array.dtype.kind in "iu" else array
            arrays[name] = array if n_stored == length else np.repeat(array, length)
        return cls(arrays, described["facts"])


def _narrowed(array: AnyArray) -> AnyArray:
    """Return integers in the narrowest type that holds them, and a constant column as one entry."""
    if array.dtype.kind not in "iu" or len(array) == 0:
        return np.ascontiguousarray(array)
    low, high = int(array.min()), int(array.max())
    types = (
        (np.uint8, np.uint16, np.uint32, np.int64) if low >= 0 else (np.int8, np.int16, np.int32, np.int64)
    )
    dtype = next(one for one in types if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    return np.ascontiguousarray(array[:1] if low == high else array, dtype=dtype)
