"""How the functions of this folder are compiled: like the exact kernels, and anew when a file changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

from truerank.ranks import kernels

Function = TypeVar("Function", bound=Callable[..., Any])


def source_stamp() -> tuple[tuple[str, float, int], ...]:
    """Return what changes whenever a file of this folder, or of the kernels it calls, does."""
    folders = (Path(__file__).parent, Path(kernels.__file__).parent)
    files = sorted(path for folder in folders for path in folder.glob("*.py"))
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in files)


STAMP = source_stamp()


def compiled(function: Function) -> Function:
    """Compile for the host, with strict IEEE arithmetic: no reordering and no contraction."""
    return cast(Function, _cached(function, nogil=True))


def reassociated(function: Function) -> Function:
    """Compile as ``compiled`` but let sums be reordered; only for float32 scores with a bound."""
    return cast(Function, _cached(function, nogil=True, fastmath={"reassoc", "contract"}))


def inlined(function: Function) -> Function:
    """Compile as a part of each caller."""
    return cast(Function, njit(inline="always")(function))


def _cached(function: Function, **options: Any) -> Any:
    try:
        dispatcher = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written to: compile in every process
        return njit(**options)(function)
    # numba looks only at the file of the function itself; what it calls lies in other files here.
    dispatcher._cache._cache_file._source_stamp = STAMP
    return dispatcher
