"""Expectation maximisation for mixtures with fixed components."""

from __future__ import annotations

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray

_RUNS = 25  # a thread takes so many at once; fixed, so that sums do not depend on the number of threads
_NONE = 1e-200  # masses below this are 0: numbers without full precision would slow every product down
_LEAST = 1e-300  # stands in for the probability of outcomes a run has not seen


def em(matrix: FloatArray, shares: FloatArray, masses: FloatArray, iterations: int) -> FloatArray:
    r"""Return the masses after some steps of EM, one row per run.

    .. math:: \pi_b \leftarrow \pi_b \sum_o p_o P(o \mid b) / q_o, \qquad q_o = \sum_b \pi_b P(o \mid b)

    A step is two matrix products over all runs, O(n_runs n_outcomes n_bins). A run alone and the same run
    among others agree to about 1e-14, not to the bit: products of other shapes are added in another order.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin)
    shares : (n_runs, n_outcomes) p
    masses : (n_runs, n_bins) where to start
    iterations : how many steps; there is no other stopping rule

    Examples
    --------
    >>> em(np.eye(2), np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]]), 1).tolist()
    [[0.25, 0.75]]
    """
    start = np.array(masses, dtype=np.float64)

    def part(first: int) -> FloatArray:
        runs = slice(first, first + _RUNS)
        found, p = start[runs], shares[runs]
        for _ in range(iterations):
            found *= gradient(matrix, p, found)
            found[found < _NONE] = 0.0
        return found

    with single_threaded_blas():
        blocks = ordered_map(part, range(0, len(start), _RUNS), n_threads=available_threads())
        return np.concatenate(list(blocks))


def gradient(matrix: FloatArray, shares: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Return :math:`g_b = \sum_o p_o P(o \mid b) / q_o`, one row per run; its mean under the masses is 1."""
    ratio = masses @ matrix.T
    np.maximum(ratio, _LEAST, out=ratio)
    np.divide(shares, ratio, out=ratio)
    return ratio @ matrix


def log_likelihood(matrix: FloatArray, shares: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Return the mean log-likelihood :math:`\sum_o p_o \log q_o` of each run."""
    predicted = np.maximum(masses @ matrix.T, _LEAST)
    found: FloatArray = np.einsum("ro,ro->r", shares, np.log(predicted))
    return found


def gap(matrix: FloatArray, shares: FloatArray, masses: FloatArray) -> FloatArray:
    r"""Return by how much, at most, other masses could raise the mean log-likelihood of each run.

    The likelihood is concave, so it rises by no more than :math:`\max_b g_b - 1`; 0 at the optimum.

    Examples
    --------
    >>> gap(np.eye(2), np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])).tolist()
    [0.5]
    """
    bound: FloatArray = np.maximum(gradient(matrix, shares, masses).max(axis=1) - 1.0, 0.0)
    return bound
