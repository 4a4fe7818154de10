"""Blocks are spread over threads: each is done once, errors and interrupts come back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from truerank.ranking.cpu.factor_job import Worker, run_blocks


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n_blocks", [0, 1, 3, 40])
def test_every_block_is_done_once(n_threads: int, n_blocks: int) -> None:
    done: list[int] = []
    reported: list[int] = []

    def make_worker() -> Worker:
        def work(block: int) -> Iterator[int]:
            yield 0
            done.append(block)
            yield 2

        return work

    run_blocks(n_blocks, make_worker, n_threads=n_threads, on_rows=reported.append)
    assert sorted(done) == list(range(n_blocks))
    assert reported == [2] * n_blocks


@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_first_error_is_raised_and_stops_the_others(n_threads: int) -> None:
    before = threading.active_count()

    def make_worker() -> Worker:
        def work(block: int) -> Iterator[int]:
            if block == 3:
                raise ValueError("block 3 is bad")
            yield 1

        return work

    with pytest.raises(ValueError, match="block 3 is bad"):
        run_blocks(10**6, make_worker, n_threads=n_threads, on_rows=None)
    assert threading.active_count() == before
