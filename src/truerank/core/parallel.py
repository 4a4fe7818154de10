"""Work spread over Python threads; it pays where compiled functions and BLAS release the interpreter lock.

The number of threads changes no result: values come back in the order of the arguments, and blocks of rows
write to disjoint memory. BLAS itself is kept on one thread, because its matrices are small here and the order
of its sums depends on its number of threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import islice, pairwise
from typing import Any, TypeVar

import numpy as np

from truerank.core.errors import MOST_THREADS, check_at_least
from truerank.core.types import IntArray

ArgumentT = TypeVar("ArgumentT")
ReturnT = TypeVar("ReturnT")


def available_threads() -> int:
    """Return the number of processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chosen_threads(n_threads: int | None) -> int:
    """Return how many threads a caller asked for; None takes all processors.

    Raises
    ------
    InvalidParameter
        When the number is below 1 or above ``MOST_THREADS``.

    Examples
    --------
    >>> chosen_threads(3), chosen_threads(None) == available_threads()
    (3, True)
    """
    if n_threads is None:
        return available_threads()
    check_at_least("n_threads", n_threads, 1, MOST_THREADS)
    return n_threads


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
    return worker_map(lambda _: function, arguments, n_threads=n_threads)


def worker_map(
    make_worker: Callable[[threading.Event], Callable[[ArgumentT], ReturnT]],
    arguments: Sequence[ArgumentT],
    *,
    n_threads: int,
    ahead: int = 2,
) -> Generator[ReturnT, None, None]:
    """Do as ``ordered_map`` with a function that each thread makes for itself, with its own scratch memory.

    Parameters
    ----------
    make_worker : called once in every thread that computes anything. The event it is given is set when an
        error, an interrupt or the caller ends the map; a worker whose calls take longer than about a tenth of
        a second should look at it and return early, and its value is then dropped.
    arguments : of the calls
    n_threads : largest number of threads; with 1 everything runs in the calling thread
    ahead : at most ``ahead * n_threads`` calls are submitted and not yet yielded; more keep the threads busy
        while the calling thread waits for a processor, and suit small results

    Examples
    --------
    >>> list(worker_map(lambda stop: str, [3, 1, 2], n_threads=2))
    ['3', '1', '2']
    """
    n_threads = min(n_threads, len(arguments))
    stop = threading.Event()
    if n_threads <= 1:
        if arguments:
            yield from map(make_worker(stop), arguments)
        return
    own = threading.local()

    def call(argument: ArgumentT) -> ReturnT:
        if not hasattr(own, "worker"):
            own.worker = make_worker(stop)
        value: ReturnT = own.worker(argument)
        return value

    pool = ThreadPoolExecutor(n_threads)
    try:
        waiting = iter(arguments)
        running: deque[Future[ReturnT]] = deque(
            pool.submit(call, argument) for argument in islice(waiting, ahead * n_threads)
        )
        while running:
            done = running.popleft().result()
            running.extend(pool.submit(call, argument) for argument in islice(waiting, 1))
            yield done
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def run_row_blocks(
    work: Callable[[int, int], object], blocks: Iterable[tuple[int, int]], *, n_threads: int | None = None
) -> None:
    """Call ``work(first, last)`` for each block of rows, by default on all processors.

    Blocks must write to disjoint memory, so that the number of threads cannot change a result. An error or
    an interrupt drops the blocks that have not begun and is raised again.
    """
    calls = ordered_map(lambda block: work(*block), list(blocks), n_threads=n_threads or available_threads())
    deque(calls, maxlen=0)


def even_blocks(n: int, size: int) -> list[tuple[int, int]]:
    """Cut 0..n into blocks of ``size`` rows.

    Examples
    --------
    >>> even_blocks(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(first, min(first + size, n)) for first in range(0, n, size)]


def balanced_blocks(indptr: IntArray, entries: int) -> list[tuple[int, int]]:
    """Cut the rows of a CSR matrix into blocks of about ``entries`` entries; a row counts as one more.

    Examples
    --------
    >>> balanced_blocks(np.array([0, 3, 4, 5, 9]), 4)
    [(0, 1), (1, 3), (3, 4)]
    """
    work = np.asarray(indptr) + np.arange(len(indptr))
    edges = [0]
    while edges[-1] < len(indptr) - 1:
        reach = int(np.searchsorted(work, work[edges[-1]] + entries, side="right")) - 1
        edges.append(max(reach, edges[-1] + 1))
    return list(pairwise(edges))


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
