"""Resampled users: as many as there are, drawn with replacement."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable

import numpy as np

from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.random import stage_key, stream
from truerank.core.types import FloatArray

_MANY = 1 << 25  # draws for which it pays to load the compiled kernel
_HELD = 1 << 19  # counts that a thread holds at once: 4 MB
Fill = Callable[[range, FloatArray], None]


def resample_counts(n_users: int, numbers: range, *, seed: int, stage: str) -> FloatArray:
    """Return how often each user is in each resample, (len(numbers), n_users).

    Resample b is drawn from the stream (seed, stage, b): it depends on nothing but these and the number of
    users.

    Parameters
    ----------
    n_users : users there are, and users drawn
    numbers : which resamples, one after the other
    seed, stage : of the draws

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

    Each sum is formed on one thread, and for itself, so that its digits do not depend on how resamples are
    put together. O(len(numbers) x n_users x n_columns).

    Parameters
    ----------
    values : (n_users, n_columns)
    numbers, seed, stage : as in ``resample_counts``
    n_threads : None takes all processors where resamples are drawn without the interpreter lock

    Examples
    --------
    >>> resampled_means(np.ones((5, 1)), range(2), seed=0, stage="demo").tolist()
    [[1.0], [1.0]]
    """
    n_users, held = len(values), np.ascontiguousarray(values, dtype=np.float64)
    means = np.empty((len(numbers), held.shape[1]))
    is_compiled = _is_worth_loading(n_users * len(numbers))
    draw = (_compiled if is_compiled else _plain)(seed, stage)
    step = max(_HELD // n_users, 1)

    def fill(start: int) -> None:
        some = numbers[start : start + step]
        counts = np.empty((len(some), n_users))
        draw(some, counts)
        for place, row in enumerate(counts, start):
            means[place] = row @ held / n_users

    most = (n_threads or available_threads()) if is_compiled else 1
    with single_threaded_blas():
        deque(ordered_map(fill, range(0, len(numbers), step), n_threads=most), 0)
    return means


def _is_worth_loading(n_draws: int) -> bool:
    """Whether the compiled kernel, which draws the same users as NumPy, saves more time than it takes."""
    return "numba" in sys.modules or n_draws >= _MANY


def _plain(seed: int, stage: str) -> Fill:
    def fill(numbers: range, out: FloatArray) -> None:
        n_users = out.shape[1]
        for row, number in zip(out, numbers, strict=True):
            row[:] = np.bincount(stream(seed, stage, number).integers(0, n_users, n_users), minlength=n_users)

    return fill


def _compiled(seed: int, stage: str) -> Fill:
    from truerank.inference.resample_compiled import fill_resample_counts

    key_0, key_1 = (np.uint64(word) for word in stage_key(seed, stage))
    return lambda numbers, out: fill_resample_counts(key_0, key_1, numbers.start, out)
