"""What a scorer offers so that it can be written to a file without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, Self, runtime_checkable

from truerank.core.types import AnyArray


@runtime_checkable
class HasArrays(Protocol):
    """A scorer that is nothing but named arrays.

    ``type(x).from_arrays(x.arrays())`` scores like ``x``, bit for bit. ``from_arrays`` raises `InvalidData`
    with one sentence where arrays are missing or do not fit together.
    """

    def arrays(self) -> Mapping[str, AnyArray]:
        """Return the arrays by name."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Build the scorer from such arrays."""
