"""Resamples as tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from truerank.cluster import resampled_means
from truerank.core.blas import single_threaded_blas
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.stream import stream
from truerank.core.types import FloatArray


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
    found = resampled_means(engine, values, resamples=resamples, seed=4)
    np.testing.assert_array_equal(found, literal(values, resamples, 4), strict=True)


def test_a_work_folder(values: FloatArray, tmp_path: Path) -> None:
    found = resampled_means("local", values, resamples=60, work_dir=tmp_path)
    np.testing.assert_array_equal(found, literal(values, 60, 0))
    assert len(list(tmp_path.glob("values-*.npy"))) == 1


def test_means_of_other_resamples_differ(values: FloatArray) -> None:
    first, second = (resampled_means("local", values, resamples=5, seed=seed) for seed in (0, 1))
    assert not np.isclose(first, second).any()


def test_bad_input(values: FloatArray) -> None:
    with pytest.raises(InvalidData, match=r"values of at least one user, got shape \(0, 2\)"):
        resampled_means("local", np.zeros((0, 2)))
    with pytest.raises(InvalidParameter, match="resamples must be at least 1"):
        resampled_means("local", values, resamples=0)
