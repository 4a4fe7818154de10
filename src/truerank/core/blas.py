"""Linear algebra on one thread: the matrices are small, and sums keep one order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Keep BLAS on one thread for the length of a ``with`` block."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    """Return the controller of the libraries that are loaded; finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401 - a library must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
