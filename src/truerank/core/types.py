"""Aliases of array types, and arrays that cannot be written to."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.integer[Any]]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]


def frozen(array: AnyArray) -> AnyArray:
    """Return the array as a read-only view (the caller's own array stays writable)."""
    view = array.view()
    view.flags.writeable = False
    return view
