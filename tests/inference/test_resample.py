"""Resampled users: the compiled draws are NumPy's, and sums do not depend on how they are put together."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.random import stream
from truerank.inference import resample
from truerank.inference.resample import resample_counts, resampled_means


def literal(n_users: int, numbers: range, seed: int, stage: str) -> np.ndarray:
    """Draw by NumPy, count one by one."""
    counts = np.zeros((len(numbers), n_users))
    for row, number in zip(counts, numbers, strict=True):
        np.add.at(row, stream(seed, stage, number).integers(0, n_users, n_users), 1)
    return counts


@settings(deadline=None)  # the first call compiles
@given(
    n_users=st.integers(1, 300),
    first=st.integers(0, 2**40),
    seed=st.integers(0, 2**64 - 1),
    stage=st.text(max_size=5),
)
def test_the_kernel_draws_what_numpy_draws(n_users: int, first: int, seed: int, stage: str) -> None:
    numbers = range(first, first + 3)
    expected = literal(n_users, numbers, seed, stage)
    for way in (resample._compiled, resample._plain):
        found = np.full((3, n_users), np.nan)
        way(seed, stage)(numbers, found)
        assert np.array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("n_users", [65_535, 65_537, 3_000_017])
def test_draws_that_are_rejected_are_drawn_again(n_users: int) -> None:
    """With three million users, 2**32 mod n of 2**32 halves of words are rejected: hundreds of draws."""
    rejected = 2**32 % n_users / 2**32 * n_users
    assert n_users < 1e6 or rejected > 100
    found = np.empty((1, n_users))
    resample._compiled(7, "bca")(range(5, 6), found)
    assert np.array_equal(found, literal(n_users, range(5, 6), 7, "bca"))


def test_narrow_integers_are_the_same_draws() -> None:
    """Comparisons and bootstraps once drew 32-bit integers; they still draw the same users."""
    drawn = stream(3, "bootstrap/users", 9).integers(0, 1000, 1000, dtype=np.int32)
    (counts,) = resample_counts(1000, range(9, 10), seed=3, stage="bootstrap/users")
    assert np.array_equal(counts, np.bincount(drawn, minlength=1000))


def test_means_are_those_of_the_drawn_users() -> None:
    values = np.random.default_rng(0).random((57, 3))
    found = resampled_means(values, range(4, 40), seed=1, stage="demo")
    for row, number in zip(found, range(4, 40), strict=True):
        chosen = stream(1, "demo", number).integers(0, 57, 57)
        assert np.allclose(row, values[chosen].mean(axis=0), rtol=1e-13, atol=0)


def test_digits_do_not_depend_on_threads_nor_on_how_resamples_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.asfortranarray(np.random.default_rng(0).random((101, 2)))
    whole = resampled_means(values, range(60), seed=1, stage="demo")
    parts = [resampled_means(values, range(i, i + 7), seed=1, stage="demo", n_threads=1) for i in range(53)]
    assert all(np.array_equal(whole[i : i + 7], part) for i, part in enumerate(parts))
    monkeypatch.setattr(resample, "_BLOCK", 101 * 8)
    assert np.array_equal(resampled_means(values, range(60), seed=1, stage="demo", n_threads=3), whole)
    monkeypatch.setattr(resample, "_is_worth_loading", lambda n_draws: False)
    assert np.array_equal(resampled_means(values, range(60), seed=1, stage="demo"), whole)


@pytest.mark.slow
def test_small_jobs_do_not_load_the_compiler() -> None:
    code = (
        "import sys; import numpy as np; from truerank.inference.resample import resampled_means as means;"
        "means(np.ones((500, 1)), range(100), seed=0, stage='x'); assert 'numba' not in sys.modules;"
        "means(np.ones((500_000, 1)), range(70), seed=0, stage='x'); assert 'numba' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
