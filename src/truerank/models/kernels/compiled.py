"""How inner loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def compiled(function: FunctionT) -> FunctionT:
    """Compile with IEEE arithmetic in the written order: a sum has the same bits however it is batched."""
    return cast(FunctionT, njit(cache=True, nogil=True)(function))


def compiled_fused(function: FunctionT) -> FunctionT:
    """Compile so that ``a * b + c`` may be rounded once; the order of operations stays as written."""
    return cast(FunctionT, njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")(function))
