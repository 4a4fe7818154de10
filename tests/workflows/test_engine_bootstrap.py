"""Resamples as tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import truerank
from tests.distributed.cluster import CallOnce, kill, loopback
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.parallel import single_threaded_blas
from truerank.core.random import stream
from truerank.core.types import FloatArray
from truerank.data.demo import demo
from truerank.distributed.dask import Dask
from truerank.distributed.engine import ENGINES
from truerank.inference.user_interval import INTERVALS
from truerank.split.base import SPLITS
from truerank.workflows import evaluate_on_engine as interval
from truerank.workflows.evaluate_on_engine import ResampledBy, resampled_means_on


@pytest.fixture(scope="module")
def values() -> FloatArray:
    return np.random.default_rng(0).random((700, 3)) ** 3


def literal(values: FloatArray, resamples: int, seed: int) -> FloatArray:
    """The loop of the bca interval."""
    n = len(values)
    with single_threaded_blas():
        return np.stack(
            [
                np.bincount(stream(seed, "bca", index).integers(0, n, n), minlength=n) @ values / n
                for index in range(resamples)
            ]
        )


@pytest.mark.parametrize("engine", ["local(threads=1)", "local(threads=3)"])
@pytest.mark.parametrize("resamples", [1, 50, 130])
def test_equals_the_loop(values: FloatArray, engine: str, resamples: int) -> None:
    found = resampled_means_on(engine, values, resamples=resamples, seed=4)
    np.testing.assert_array_equal(found, literal(values, resamples, 4), strict=True)


def test_a_work_folder(values: FloatArray, tmp_path: Path) -> None:
    found = resampled_means_on("local", values, resamples=60, work_dir=tmp_path)
    np.testing.assert_array_equal(found, literal(values, 60, 0))
    assert len(list(tmp_path.glob("values-*.npy"))) == 1


def test_means_of_other_resamples_differ(values: FloatArray) -> None:
    first, second = (resampled_means_on("local", values, resamples=5, seed=seed) for seed in (0, 1))
    assert not np.isclose(first, second).any()


@pytest.mark.parametrize("engine", ["local(threads=1)", "local(threads=3)"])
@pytest.mark.parametrize("asked", ["auto", "bca", "bca(resamples=150)", "normal"])
def test_intervals_are_those_of_one_thread(
    values: FloatArray, engine: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A constant column stands between two that vary; the resamples of bca come from the engine."""
    monkeypatch.setattr(interval, "LEAST_USERS", 2)
    given = np.column_stack([values[:, 0], np.full(len(values), 0.5), values[:, 1]])
    made = INTERVALS.make(asked)
    found = ResampledBy(ENGINES.make(engine), str(tmp_path), made).band(given, level=0.9, seed=3)
    known = made.band(given, level=0.9, seed=3)
    np.testing.assert_array_equal(found.low, known.low)
    np.testing.assert_array_equal(found.high, known.high)
    assert found.method == known.method
    assert len(list(tmp_path.glob("values-*.npy"))) == (asked != "normal")


def test_few_users_are_resampled_here(values: FloatArray, tmp_path: Path) -> None:
    ResampledBy(ENGINES.make("local"), str(tmp_path), INTERVALS.make("bca")).band(values)
    assert not list(tmp_path.iterdir())


def test_evaluation_resamples_on_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    split = SPLITS.make("leave-last-out").split(demo(n_users=60, n_items=80))
    known = truerank.evaluate("popularity", split, "ndcg@10", interval="bca", users=0.5)
    monkeypatch.setattr(interval, "LEAST_USERS", 2)
    found = truerank.evaluate(
        "popularity", split, "ndcg@10", interval="bca", users=0.5, engine="local", work_dir=tmp_path
    )
    assert found.estimates == known.estimates
    assert found.provenance["interval"] == known.provenance["interval"]
    assert len(list(tmp_path.glob("values-*.npy"))) == 1


@pytest.mark.cluster
def test_a_cluster_of_which_a_worker_is_killed(
    values: FloatArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.setattr(interval, "LEAST_USERS", 2)
    known = INTERVALS.make("bca").band(values, seed=3)
    with loopback() as cluster:
        worker = cluster.workers[0].process
        rows = CallOnce(lambda: kill(worker.pid))
        by = ResampledBy(Dask(cluster.scheduler_address), str(tmp_path), INTERVALS.make("bca"), rows)
        found = by.band(values, seed=3)
        assert worker.returncode == -9
    assert rows.rows == 2000
    np.testing.assert_array_equal(found.low, known.low)
    np.testing.assert_array_equal(found.high, known.high)


def test_bad_input(values: FloatArray) -> None:
    with pytest.raises(InvalidData, match=r"values of at least one user, got shape \(0, 2\)"):
        resampled_means_on("local", np.zeros((0, 2)))
    with pytest.raises(InvalidParameter, match="resamples must be at least 1"):
        resampled_means_on("local", values, resamples=0)
