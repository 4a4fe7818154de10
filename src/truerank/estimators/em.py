"""Expectation maximisation for mixtures with fixed components."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray


def em(matrix: FloatArray, shares: FloatArray, masses: FloatArray, iterations: int) -> FloatArray:
    r"""Return the masses after some steps of EM, one row per run.

    .. math:: \pi_b \leftarrow \pi_b \sum_o p_o P(o \mid b) / q_o, \qquad q_o = \sum_b \pi_b P(o \mid b)

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin)
    shares : (n_runs, n_outcomes) p
    masses : (n_runs, n_bins) where to start
    """
    masses = np.array(masses, dtype=np.float64)
    for _ in range(iterations):
        predicted = masses @ matrix.T
        ratio = np.divide(shares, predicted, out=np.zeros_like(predicted), where=shares > 0)
        masses *= ratio @ matrix
    return masses
