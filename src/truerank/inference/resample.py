"""Bootstrap resamples of users: counts per user, and means of columns over each resample.

Resample b is a pure function of (seed, stage, b) and the number of users. A compiled kernel that reproduces
NumPy's random numbers is loaded where there are many to draw.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

import numpy as np

from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.random import stage_key, stream
from truerank.core.types import FloatArray

_MANY = 1 << 25  # draws from which loading the compiled kernel pays off
_BLOCK = 1 << 19  # counts in memory per thread: 4 MB
FillCounts = Callable[[range, FloatArray], None]


def resample_counts(n_users: int, numbers: range, *, seed: int, stage: str) -> FloatArray:
    """Return how often each user is in each resample, (len(numbers), n_users).

    Parameters
    ----------
    n_users : users in the sample, and in each resample
    numbers : which resamples b
    seed, stage : of the random stream (seed, stage, b)

    Examples
    --------
    >>> resample_counts(5, range(3), seed=0, stage="demo").sum(axis=1).tolist()
    [5.0, 5.0, 5.0]
    """
    counts = np.empty((len(numbers), n_users))
    fill = _compiled if _is_worth_loading(counts.size) else _plain
    fill(seed, stage)(numbers, counts)
    return counts


def resampled_means(
    values: FloatArray, numbers: range, *, seed: int, stage: str, n_threads: int | None = None
) -> FloatArray:
    """Return the mean of each column over each resample of the users, (len(numbers), n_columns).

    Each mean is a sum of its own, formed on one thread, so that its digits depend neither on the number of
    threads nor on which resamples are computed together. O(len(numbers) x n_users x n_columns).

    Parameters
    ----------
    values : (n_users, n_columns)
    numbers, seed, stage : as in ``resample_counts``
    n_threads : None uses all processors where the compiled kernel, which releases the interpreter lock, runs

    Examples
    --------
    >>> resampled_means(np.ones((5, 1)), range(2), seed=0, stage="demo").tolist()
    [[1.0], [1.0]]
    """
    n_users, columns = len(values), np.ascontiguousarray(values, dtype=np.float64)
    means = np.empty((len(numbers), columns.shape[1]))
    is_compiled = _is_worth_loading(n_users * len(numbers))
    fill_counts = (_compiled if is_compiled else _plain)(seed, stage)
    step = max(_BLOCK // n_users, 1)

    def fill(start: int) -> None:
        block = numbers[start : start + step]
        counts = np.empty((len(block), n_users))
        fill_counts(block, counts)
        for index, row in enumerate(counts, start):
            means[index] = row @ columns / n_users

    n_used = (n_threads or available_threads()) if is_compiled else 1
    with single_threaded_blas():
        deque(ordered_map(fill, range(0, len(numbers), step), n_threads=n_used), 0)
    return means


def _is_worth_loading(n_draws: int) -> bool:
    """Whether the compiled kernel, which draws the same users as NumPy, saves more time than loading it."""
    return "numba" in sys.modules or n_draws >= _MANY


def _plain(seed: int, stage: str) -> FillCounts:
    def fill(numbers: range, out: FloatArray) -> None:
        n_users = out.shape[1]
        for row, number in zip(out, numbers, strict=True):
            row[:] = np.bincount(stream(seed, stage, number).integers(0, n_users, n_users), minlength=n_users)

    return fill


def _compiled(seed: int, stage: str) -> FillCounts:
    from truerank.inference.resample_compiled import fill_resample_counts

    key_0, key_1 = (np.uint64(word) for word in stage_key(seed, stage))
    return lambda numbers, out: fill_resample_counts(key_0, key_1, numbers.start, out)
