"""How kernels are compiled: without the interpreter lock, cached on disk, on first use.

Only modules that are themselves imported on first use may import this one, because it imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def source_stamp() -> tuple[tuple[str, float, int], ...]:
    """Return what changes whenever a file of this folder does."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in files)


STAMP = source_stamp()


def compiled(function: Function) -> Function:
    """Compile for the host, with strict IEEE arithmetic: no reordering and no contraction."""
    return cast(Function, _cached(function, nogil=True))


def reassociated(function: Function) -> Function:
    """Compile as ``compiled`` but let sums be reordered; only for bounds, never for scores."""
    return cast(Function, _cached(function, nogil=True, fastmath={"reassoc", "contract"}))


def _cached(function: Function, **options: Any) -> Any:
    try:
        dispatcher = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written to: compile in every process
        return njit(**options)(function)
    # numba looks only at the file of the function itself; what it calls lies in other files here.
    dispatcher._cache._cache_file._source_stamp = STAMP
    return dispatcher
