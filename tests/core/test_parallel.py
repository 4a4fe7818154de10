"""Threads keep order, have a worker each, and stop on errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from truerank.core.parallel import available_threads, ordered_map, worker_map


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_order_is_kept(n_threads: int) -> None:
    assert list(ordered_map(lambda x: x * x, range(50), n_threads=n_threads)) == [x * x for x in range(50)]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_stops_the_rest(n_threads: int) -> None:
    called: list[int] = []

    def fail_at_three(x: int) -> int:
        called.append(x)
        if x == 3:
            raise ValueError("three")
        return x

    with pytest.raises(ValueError, match="three"):
        list(ordered_map(fail_at_three, range(100), n_threads=n_threads))
    assert len(called) < 20


def test_several_threads_are_used() -> None:
    """Two calls that wait for each other can only finish side by side."""
    barrier = threading.Barrier(2, timeout=10)
    assert len(list(ordered_map(lambda _: barrier.wait(), range(2), n_threads=2))) == 2


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_blocks", [0, 1, 3, 40])
def test_every_block_is_done_once_by_a_worker_of_its_thread(n_threads: int, n_blocks: int) -> None:
    made: list[int] = []
    done: list[int] = []

    def make_worker(stop: threading.Event) -> Callable[[int], int]:
        thread = threading.get_ident()
        made.append(thread)

        def work(block: int) -> int:
            assert threading.get_ident() == thread
            assert not stop.is_set()
            done.append(block)
            return 2 * block

        return work

    values = list(worker_map(make_worker, range(n_blocks), n_threads=n_threads))
    assert values == [2 * block for block in range(n_blocks)]
    assert sorted(done) == list(range(n_blocks))
    assert len(made) == len(set(made)) <= n_threads
    assert bool(made) == bool(n_blocks)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_first_error_is_raised_and_stops_the_others(n_threads: int) -> None:
    before = threading.active_count()

    def make_worker(_: threading.Event) -> Callable[[int], int]:
        def work(block: int) -> int:
            if block == 3:
                raise ValueError("block 3 is bad")
            return 1

        return work

    with pytest.raises(ValueError, match="block 3 is bad"):
        list(worker_map(make_worker, range(10**6), n_threads=n_threads))
    assert threading.active_count() == before


def test_a_worker_that_cannot_be_made_is_an_error() -> None:
    def make_worker(_: threading.Event) -> Callable[[int], int]:
        raise MemoryError("no scratch")

    for n_threads in (1, 2):
        with pytest.raises(MemoryError, match="no scratch"):
            list(worker_map(make_worker, range(10), n_threads=n_threads))


def test_long_calls_are_told_to_stop() -> None:
    """Without a look at the event the second call would wait for ten seconds."""
    before, start = threading.active_count(), time.monotonic()

    def make_worker(stop: threading.Event) -> Callable[[int], bool]:
        def work(block: int) -> bool:
            if block == 0:
                raise ValueError("block 0 is bad")
            return stop.wait(10)

        return work

    with pytest.raises(ValueError, match="block 0 is bad"):
        list(worker_map(make_worker, range(2), n_threads=2))
    assert time.monotonic() - start < 9
    assert threading.active_count() == before


def test_there_is_a_processor() -> None:
    assert available_threads() >= 1
