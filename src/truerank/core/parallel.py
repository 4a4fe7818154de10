"""Python threads for work that releases the interpreter lock.

Linear algebra on one thread: the matrices are small, and sums keep one order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any, TypeVar

ArgumentT = TypeVar("ArgumentT")
ReturnT = TypeVar("ReturnT")


def available_threads() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ordered_map(
    function: Callable[[ArgumentT], ReturnT], arguments: Sequence[ArgumentT], *, n_threads: int
) -> Iterator[ReturnT]:
    """Yield ``function(argument)`` in the order of the arguments, computed on several threads.

    At most ``2 n_threads`` calls are under way, so results do not pile up. An error or an interrupt drops the
    calls that have not begun and is raised here.

    Examples
    --------
    >>> list(ordered_map(str, [3, 1, 2], n_threads=2))
    ['3', '1', '2']
    """
    n_threads = min(n_threads, len(arguments))
    if n_threads <= 1:
        yield from map(function, arguments)
        return
    pool = ThreadPoolExecutor(n_threads)
    try:
        waiting = iter(arguments)
        running: deque[Future[ReturnT]] = deque(
            pool.submit(function, argument) for argument in islice(waiting, 2 * n_threads)
        )
        while running:
            done = running.popleft().result()
            running.extend(pool.submit(function, argument) for argument in islice(waiting, 1))
            yield done
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


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
