"""Blocks of work spread over threads that each pull the next one."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeAlias

Worker: TypeAlias = Callable[[int], Iterator[int]]


def run_blocks(
    n_blocks: int,
    make_worker: Callable[[], Worker],
    *,
    n_threads: int,
    on_rows: Callable[[int], None] | None,
) -> None:
    """Run ``worker(block)`` for every block, in any order; each thread makes a worker of its own.

    A worker yields the number of rows it has just finished (0 is fine) at least every tenth of a second or
    so: between two yields nothing can be stopped. ``on_rows`` is called in the calling thread. The first
    error, or an interrupt, stops all threads and is raised here.
    """
    if n_threads == 1 or n_blocks < 2:
        worker = make_worker()
        for block in range(n_blocks):
            for done in worker(block):
                _report(on_rows, done)
        return
    blocks, stop = iter(range(n_blocks)), threading.Event()
    messages: queue.SimpleQueue[int | BaseException | None] = queue.SimpleQueue()
    threads = [
        threading.Thread(target=_pull, args=(blocks, make_worker, stop, messages), daemon=True)
        for _ in range(min(n_threads, n_blocks))
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in itertools.repeat(None, len(threads)):
            while (message := messages.get()) is not None:
                if isinstance(message, BaseException):
                    raise message
                _report(on_rows, message)
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _pull(
    blocks: Iterator[int],
    make_worker: Callable[[], Worker],
    stop: threading.Event,
    messages: queue.SimpleQueue[int | BaseException | None],
) -> None:
    try:
        worker = make_worker()
        for block in blocks:
            for done in worker(block):
                if stop.is_set():
                    return
                messages.put(done)
    except BaseException as error:  # handed to the calling thread, which raises it
        messages.put(error)
    finally:
        messages.put(None)


def _report(on_rows: Callable[[int], None] | None, done: int) -> None:
    if on_rows is not None and done:
        on_rows(done)
