"""Resampled users: the same draws for all models and data, so that differences are paired."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truerank.core.blas import single_threaded_blas
from truerank.core.stream import stream
from truerank.core.types import FloatArray
from truerank.inference.resample import draw_counts

Counts = NDArray[np.uint16]
_BLOCK = 64


def draw_users(seed: int, n_users: int, n_resamples: int) -> Counts:
    """Return how often each user is in each bootstrap sample of as many users, (n_resamples, n_users).

    Examples
    --------
    >>> draw_users(0, 5, 3).sum(axis=1).tolist()
    [5, 5, 5]
    """
    counts = np.empty((n_resamples, n_users), dtype=np.uint16)
    for start in range(0, n_resamples, _BLOCK):
        numbers = range(start, min(start + _BLOCK, n_resamples))
        counts[start : numbers.stop] = draw_counts(n_users, numbers, seed=seed, stage="agreement users")
    return counts


def resampled_means(totals: FloatArray, weights: FloatArray, counts: Counts) -> FloatArray:
    r"""Return the mean of each resample.

    .. math:: \bar x_b = \frac{\sum_u c_{bu} x_u}{\sum_u c_{bu} w_u}

    Parameters
    ----------
    totals : (n_users, n_metrics) sum over a user's targets, or the user's value
    weights : (n_users,) what the sum is divided by: targets of the user, or ones
    counts : (n_resamples, n_users)

    Returns
    -------
    (n_resamples, n_metrics)
    """
    both = np.column_stack([totals.astype(np.float64), weights])
    found = np.empty((len(counts), both.shape[1]))
    with single_threaded_blas():
        for start in range(0, len(counts), _BLOCK):
            found[start : start + _BLOCK] = counts[start : start + _BLOCK].astype(np.float64) @ both
    means: FloatArray = found[:, :-1] / found[:, -1:]
    return means


def draw_seeds(seed: int, n_seeds: int, n_resamples: int) -> NDArray[np.int64]:
    """Return which seeds each resample consists of, (n_resamples, n_seeds)."""
    return stream(seed, "agreement seeds").integers(n_seeds, size=(n_resamples, n_seeds))
