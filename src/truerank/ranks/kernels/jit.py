"""How kernels are compiled: without the interpreter lock, cached on disk, on first use.

Only modules that are themselves imported on first use may import this one, because it imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile for the host, with strict IEEE arithmetic: no reordering and no contraction."""
    return cast(Function, njit(nogil=True, cache=True)(function))


def reassociated(function: Function) -> Function:
    """Compile as ``compiled`` but let sums be reordered; only for bounds, never for scores."""
    flags = {"reassoc", "contract"}
    return cast(Function, njit(nogil=True, cache=True, fastmath=flags)(function))
