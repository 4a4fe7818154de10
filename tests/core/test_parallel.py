"""Threads keep order and stop on errors."""

from __future__ import annotations

import threading

import pytest

from truerank.core.parallel import available_threads, ordered_map


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


def test_there_is_a_processor() -> None:
    assert available_threads() >= 1
