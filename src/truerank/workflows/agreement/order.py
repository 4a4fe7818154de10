"""Rank correlation of two orders of models, and bootstrap resamples of users and seeds.

The last axis of every array is that of the models. Resampled users are the same for all models and train
sets, so that differences are paired.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from truerank.core.parallel import single_threaded_blas
from truerank.core.random import stream
from truerank.core.types import BoolArray, FloatArray
from truerank.inference.resample import resample_counts


def pair_signs(values: FloatArray) -> FloatArray:
    """Return the sign of the difference of each pair of models, (..., n (n - 1) / 2); NaN where one is NaN.

    Examples
    --------
    >>> pair_signs(np.array([0.3, 0.1, 0.3])).tolist()
    [1.0, 0.0, -1.0]
    """
    first, second = np.triu_indices(values.shape[-1], k=1)
    signs: FloatArray = np.sign(values[..., first] - values[..., second])
    return signs


def kendall(x: FloatArray, y: FloatArray) -> FloatArray:
    r"""Return Kendall's tau-b of two sets of values, along the last axis; leading axes broadcast.

    .. math:: \tau_b = \frac{\sum_{a<b} s_{ab} t_{ab}}{\sqrt{\sum_{a<b} s_{ab}^2 \sum_{a<b} t_{ab}^2}},
              \qquad s_{ab} = \mathrm{sign}(x_a - x_b),\ t_{ab} = \mathrm{sign}(y_a - y_b)

    NaN where all values of one side are equal (there is no order to agree with) or one is NaN.

    Examples
    --------
    >>> kendall(np.array([1.0, 2.0, 3.0]), np.array([[4.0, 5.0, 6.0], [6.0, 5.0, 4.0]])).tolist()
    [1.0, -1.0]
    """
    s, t = pair_signs(x), pair_signs(y)
    size = np.sqrt((s * s).sum(axis=-1) * (t * t).sum(axis=-1))
    total = (s * t).sum(axis=-1)
    tau: FloatArray = np.divide(total, size, out=np.full(np.shape(total), np.nan), where=size > 0)
    return tau


def certain_signs(resampled: FloatArray, level: float) -> FloatArray:
    """Return the sign of each pair whose order is certain, 0 for the others, (n_pairs,).

    A pair is certain when a fraction of at least 1 - (1 - level) / 2 of the resamples has it in the same
    strict order: the two-sided interval of its difference does not contain 0.

    Parameters
    ----------
    resampled : (n_resamples, n_models)
    level : such as 0.95

    Examples
    --------
    >>> certain_signs(np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]]), 0.95).tolist()
    [1.0, 1.0, 0.0]
    """
    signs = pair_signs(resampled)
    needed = 1 - (1 - level) / 2
    certain: FloatArray = 1.0 * ((signs > 0).mean(axis=0) >= needed) - 1.0 * (
        (signs < 0).mean(axis=0) >= needed
    )
    return certain


def certain_tau(certain: FloatArray, values: FloatArray) -> FloatArray:
    r"""Return the agreement over the pairs whose order is certain.

    .. math:: \tau_c = \frac{1}{|C|} \sum_{(a, b) \in C} c_{ab}\, \mathrm{sign}(y_a - y_b)

    with C the certain pairs and c their signs. 1 when all of them keep their order, -1 when all are reversed;
    a pair that is tied now counts 0. NaN when no pair is certain.

    Parameters
    ----------
    certain : (n_pairs,) from `certain_signs`
    values : (..., n_models)
    """
    is_certain: BoolArray = certain != 0
    if not is_certain.any():
        return np.full(values.shape[:-1], np.nan)
    tau: FloatArray = (pair_signs(values)[..., is_certain] * certain[is_certain]).mean(axis=-1)
    return tau


def average_ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each model, 1 for the largest value; tied models share the mean of their ranks.

    Examples
    --------
    >>> average_ranks(np.array([0.2, 0.5, 0.2])).tolist()
    [2.5, 1.0, 2.5]
    """
    value, others = values[..., :, None], values[..., None, :]
    ranks: FloatArray = 0.5 + (others > value).sum(axis=-1) + 0.5 * (others == value).sum(axis=-1)
    ranks[np.isnan(values).any(axis=-1)] = np.nan
    return ranks


def move_up_terms(full: FloatArray, small: FloatArray) -> FloatArray:
    r"""Return the terms of the probability that a model moves up, each in [0, 1].

    .. math:: \frac12 + \frac{R_{\text{full}}(r) - R_{\text{small}}(r)}{2 (n - 1)}

    with R the rank among n models, 1 the best; the mean over strategies, metrics and seeds is the P_MLE of
    [sachdeva2021]_, Sec. 4. It is one half where the rank stays the same, and larger where the model ranks
    better on the small data than on the full data.

    Examples
    --------
    >>> move_up_terms(np.array([0.3, 0.2, 0.1]), np.array([0.3, 0.1, 0.2])).tolist()
    [0.5, 0.25, 0.75]
    """
    n = full.shape[-1]
    terms: FloatArray = 0.5 + (average_ranks(full) - average_ranks(small)) / (2 * (n - 1))
    return terms


def mean_ignoring_nan(values: FloatArray, axis: int | tuple[int, ...] | None = None) -> FloatArray:
    """Return the mean of all values that are not NaN; NaN where all are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: FloatArray = np.asarray(np.nanmean(values, axis=axis))
    return mean


def psi(tau: FloatArray) -> float:
    r"""Return Psi: the mean of all taus of a strategy that are not NaN.

    .. math:: \Psi = \frac{1}{|F| |M| |P|} \sum_{f, m, p} \tau(R_{fm}, R_{fm}^p)

    over scenarios f, their metrics m and fractions p (and seeds), Sec. 3.4 of [sachdeva2021]_.

    Examples
    --------
    >>> psi(np.array([1.0, 0.5, np.nan]))
    0.75
    """
    return float(mean_ignoring_nan(tau))


Counts = NDArray[np.uint16]
_BLOCK = 64


def resample_users(seed: int, n_users: int, n_resamples: int) -> Counts:
    """Return how often each user occurs in each bootstrap sample of users, (n_resamples, n_users).

    Examples
    --------
    >>> resample_users(0, 5, 3).sum(axis=1).tolist()
    [5, 5, 5]
    """
    counts = np.empty((n_resamples, n_users), dtype=np.uint16)
    for start in range(0, n_resamples, _BLOCK):
        numbers = range(start, min(start + _BLOCK, n_resamples))
        counts[start : numbers.stop] = resample_counts(n_users, numbers, seed=seed, stage="agreement users")
    return counts


def means_of_resamples(totals: FloatArray, weights: FloatArray, counts: Counts) -> FloatArray:
    r"""Return the mean over the users of each resample.

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
    sums = np.empty((len(counts), both.shape[1]))
    with single_threaded_blas():
        for start in range(0, len(counts), _BLOCK):
            sums[start : start + _BLOCK] = counts[start : start + _BLOCK].astype(np.float64) @ both
    means: FloatArray = sums[:, :-1] / sums[:, -1:]
    return means


def resample_seeds(seed: int, n_seeds: int, n_resamples: int) -> NDArray[np.int64]:
    """Return the indices of the seeds in each bootstrap sample of seeds, (n_resamples, n_seeds)."""
    return stream(seed, "agreement seeds").integers(n_seeds, size=(n_resamples, n_seeds))
