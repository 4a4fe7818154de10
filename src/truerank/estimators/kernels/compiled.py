"""How inner loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def compiled(function: FunctionT) -> FunctionT:
    """Compile without the interpreter lock, cached on disk, with IEEE arithmetic in the written order."""
    return cast(FunctionT, njit(cache=True, nogil=True, error_model="numpy")(function))
