"""The cost model."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.distributed.cost import (
    MEASURED,
    Bytes,
    Rates,
    Seconds,
    Work,
    bytes_of,
    fit_bytes,
    fit_seconds,
    predict,
    seconds_of,
)

SIZES = [
    Work(users, items, dims, negatives, seen=seen)
    for users, items, dims, seen in [
        (1_000, 5_000, 16, 3),
        (20_000, 2_000, 64, 50),
        (3_000, 900_000, 128, 9),
        (70_000, 300_000, 32, 200),
        (500_000, 10_000, 96, 1),
    ]
    for negatives in (None, 99, 1000)
]


def test_fitting_finds_the_rates_that_made_the_seconds() -> None:
    true = Seconds(*(np.arange(1, 9) * 1e-9))
    found = fit_seconds([(work, true.total(seconds_of(work))) for work in SIZES])
    for work in SIZES:
        assert found.total(seconds_of(work)) == pytest.approx(true.total(seconds_of(work)), rel=1e-6)


def test_fitting_finds_the_rates_that_made_the_bytes() -> None:
    true = Bytes(2e8, 1.1, 5.0, 300.0)
    found = fit_bytes([(work, true.total(bytes_of(work))) for work in SIZES])
    for work in SIZES:
        assert found.total(bytes_of(work)) == pytest.approx(true.total(bytes_of(work)), rel=1e-6)


def test_noise_is_not_fitted() -> None:
    """Ten percent of noise on the runs: others are predicted within thirty."""
    rng = np.random.default_rng(0)
    true = MEASURED.seconds
    noisy = [(work, true.total(seconds_of(work)) * rng.uniform(0.9, 1.1)) for work in SIZES]
    found = fit_seconds(noisy)
    for work in (Work(9_000, 40_000, 80), Work(60_000, 100_000, 48, 300)):
        assert found.total(seconds_of(work)) == pytest.approx(true.total(seconds_of(work)), rel=0.3)


def test_counts_by_hand() -> None:
    exact = seconds_of(Work(10, 1000, 4, seen=5, workers=3))
    assert (exact.pair, exact.product, exact.look) == (10_000, 40_000, 12_000)
    assert (exact.user, exact.listed, exact.draw, exact.fetch) == (10, 60, 0, 0)
    sampled = seconds_of(Work(10, 1000, 4, 99, seen=5))
    assert (sampled.draw, sampled.draw_product, sampled.pair, sampled.fetch) == (990, 3960, 0, 0)
    assert seconds_of(Work(1, 2**20, 64, 99)).fetch == 99 * 4 * (1 - 2**24 / 2**28)


def test_workers_share_the_time_and_not_the_memory() -> None:
    one, many = (predict(Work(10**8, 10**6, workers=workers)) for workers in (1, 100))
    assert many.seconds == pytest.approx(one.seconds / 100, rel=0.02)
    assert many.core_seconds == pytest.approx(one.core_seconds, rel=0.01)
    assert (many.worker_bytes, many.driver_bytes) == (one.worker_bytes, one.driver_bytes)
    assert predict(Work(10**8, 10**6), keep_ranks=False).driver_bytes < one.driver_bytes


def test_more_workers_than_tasks_do_not_help() -> None:
    work = Work(1000, 1000)
    assert work.tasks == 4
    rates = Rates(Seconds(user=1.0), start=0.0, task=0.0)
    few, many = (predict(Work(1000, 1000, workers=workers), rates).seconds for workers in (4, 400))
    assert few == many == pytest.approx(250)


def test_sampling_is_cheaper_only_for_large_catalogues() -> None:
    for items, is_cheaper in ((1_000, False), (1_000_000, True)):
        exact, sampled = (predict(Work(10**6, items, 64, m)).core_seconds for m in (None, 999))
        assert (sampled < exact) is is_cheaper


def test_bad_sizes() -> None:
    with pytest.raises(InvalidParameter, match="users must be at least 1"):
        Work(0, 10)
    with pytest.raises(InvalidParameter, match="negatives must be at least 1"):
        Work(10, 10, negatives=0)
    with pytest.raises(InvalidData, match="rates are fitted to runs with positive measurements"):
        fit_seconds([])
