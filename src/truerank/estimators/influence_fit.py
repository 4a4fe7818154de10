"""Derivatives of fitted masses in the shares of outcomes: what all fits have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from truerank.core.types import FloatArray, IntArray

NEVER = 1e-40  #: of the largest chance: what is less is left out
LEAST = 1e-300  #: stands in for probabilities that are 0 in floating point


class Sensitivity(ABC):
    """The slope of numbers that depend linearly on fitted masses, in the share of an outcome."""

    @abstractmethod
    def at(self, chances: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray) -> FloatArray:
        """Return the slopes for outcomes that were seen or not, (n_outcomes, n_numbers).

        They are those of a fit to shares that need not sum to 1; a constant that all outcomes have in common
        means nothing.

        Parameters
        ----------
        chances : (n_outcomes, n_bins) P(outcome | bin)
        n_negatives, n_candidates : m and L of the outcomes
        n_above : (n_outcomes,) their j, ascending
        """


def mean_under(chances: FloatArray, masses: FloatArray, values: FloatArray) -> FloatArray:
    """Return the mean of values over bins given each outcome, (n_outcomes, n_numbers).

    Parameters
    ----------
    chances : (n_outcomes, n_bins)
    masses : (n_bins,)
    values : (n_bins, n_numbers)

    Examples
    --------
    >>> mean_under(np.array([[1.0, 0.5]]), np.array([0.5, 0.5]), np.array([[0.0], [3.0]])).tolist()
    [[1.0]]
    """
    found: FloatArray = chances @ (masses[:, None] * values)
    found /= np.maximum(chances @ masses, LEAST)[:, None]
    return found


def em_slope(matrix: FloatArray, shares: FloatArray, masses: FloatArray, after: FloatArray) -> FloatArray:
    """Return the slopes in the masses before a step of EM, given those in the masses after it.

    Parameters
    ----------
    matrix, shares, masses : of the step, as in ``em``
    after : (n_bins, n_numbers)

    Examples
    --------
    >>> em_slope(np.eye(2), np.array([0.25, 0.75]), np.array([0.5, 0.5]), np.array([[1.0], [0.0]])).tolist()
    [[0.0], [0.0]]
    """
    predicted = np.maximum(matrix @ masses, LEAST)
    ratio = shares / predicted
    inner = matrix @ (masses[:, None] * after) * (ratio / predicted)[:, None]
    found: FloatArray = (ratio @ matrix)[:, None] * after - matrix.T @ inner
    return found
