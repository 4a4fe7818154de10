"""How inner loops are compiled: without the interpreter lock, cached on disk, on first use.

Only modules that are themselves imported on first use may import this one, because it imports numba. They may
call compiled functions of their own folder and of ``core``, and of no other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import event

from truerank.core.progress import COMPILATION

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Stamp = tuple[tuple[str, float, int], ...]


class _Announcement(event.Listener):
    """Tells of every function that no cache holds; numba asks the caches first."""

    def on_start(self, event: Any) -> None:
        COMPILATION.start()

    def on_end(self, event: Any) -> None:
        COMPILATION.end()


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]


def compiled(function: FunctionT) -> FunctionT:
    """Compile for the host with strict IEEE arithmetic in the written order: no reordering, no contraction.

    A sum then has the same bits however it is batched. Divisions by zero give infinities, as in NumPy.
    """
    return cast(FunctionT, _cached(function))


def fused(function: FunctionT) -> FunctionT:
    """Compile so that ``a * b + c`` may be rounded once; the order of operations stays as written."""
    return cast(FunctionT, _cached(function, fastmath={"contract"}))


def reassociated(function: FunctionT) -> FunctionT:
    """Compile so that sums may be reordered; only for what a proven bound covers, never for exact scores."""
    return cast(FunctionT, _cached(function, fastmath={"reassoc", "contract"}))


def inlined(function: FunctionT) -> FunctionT:
    """Compile as a part of each caller."""
    return cast(FunctionT, njit(inline="always")(function))


@cache
def source_stamp(folder: Path) -> Stamp:
    """Return what changes whenever a module of the folder or of ``core`` that compiles anything does."""
    core = Path(__file__).resolve().parent
    files = sorted(path for path in {*folder.glob("*.py"), *core.glob("*.py")} if _compiles(path))
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in files)


def _compiles(path: Path) -> bool:
    source = path.read_text(encoding="utf-8")
    return "from truerank.core.jit import" in source or "from numba" in source


def _cached(function: FunctionT, **options: Any) -> Any:
    options = {"nogil": True, "error_model": "numpy", **options}
    try:
        dispatcher = njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written to: compile in every process
        COMPILATION.is_kept = False
        return njit(**options)(function)
    # numba looks only at the file of the function itself; what it calls lies in other files here.
    folder = Path(function.__code__.co_filename).resolve().parent
    dispatcher._cache._cache_file._source_stamp = source_stamp(folder)
    dispatcher._cache.save_overload = _unless_refused(dispatcher._cache.save_overload)
    return dispatcher


def _unless_refused(save: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Let a function be compiled again in the next process where the disk is full now."""

    def try_to_save(signature: Any, made: Any) -> None:
        try:
            save(signature, made)
        except OSError:
            COMPILATION.is_kept = False

    return try_to_save
