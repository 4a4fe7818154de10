"""Derivatives of EM with a given number of steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimators.em import em
from truerank.estimators.influence_fit import LEAST, NEVER, Sensitivity, em_slope
from truerank.estimators.likelihood import Likelihood

_ROWS = 64  # outcomes next to each other that are probable in about the same bins


@dataclass(frozen=True, eq=False)
class EmSensitivity(Sensitivity):
    r"""The chain rule backwards through all steps.

    With masses :math:`\pi_t`, slopes :math:`\lambda_t` in them and :math:`q_o = \sum_b \pi_{tb} P(o \mid b)`,

    .. math:: \frac{d}{d p_o} = \sum_t \frac{\sum_b \lambda_{t+1,b} \, \pi_{tb} \, P(o \mid b)}{q_o}

    A step backwards costs as much as one of EM for each number. Steps times bins times numbers are kept.

    Parameters
    ----------
    parts : (n_bins, n_steps, 1 + n_numbers) the masses before each step, and their products with the slopes
        in those after it
    """

    parts: FloatArray

    @classmethod
    def of(cls, likelihood: Likelihood, iterations: int, slope: FloatArray) -> EmSensitivity:
        """Run EM again, keep the masses, and go back."""
        matrix, shares = likelihood.matrix, likelihood.shares[:1]
        masses = likelihood.grid.even[None]
        parts = np.empty((len(slope), iterations, 1 + slope.shape[1]))
        for step in range(iterations):
            parts[:, step, 0] = masses[0]
            masses = em(matrix, shares, masses, 1)
        for step in reversed(range(iterations)):
            before = np.ascontiguousarray(parts[:, step, 0])
            parts[:, step, 1:] = before[:, None] * slope
            slope = em_slope(matrix, shares[0], before, slope)
        return cls(parts)

    def at(self, chances: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray) -> FloatArray:
        """Return the slopes, (n_outcomes, n_numbers)."""
        n_steps, n_columns = self.parts.shape[1:]
        found = np.zeros((len(chances), n_columns - 1))
        for start in range(0, len(chances), _ROWS):
            rows = chances[start : start + _ROWS]
            bins = np.flatnonzero((rows > NEVER * rows.max(axis=1, keepdims=True)).any(axis=0))
            if len(bins) == 0:  # cannot occur
                continue
            window = slice(int(bins[0]), int(bins[-1]) + 1)
            own = self.parts[window].reshape(-1, n_steps * n_columns)
            sums = (rows[:, window] @ own).reshape(len(rows), n_steps, n_columns)
            predicted = np.maximum(sums[:, :, 0], LEAST)
            found[start : start + _ROWS] = np.einsum("otk,ot->ok", sums[:, :, 1:], 1.0 / predicted)
        return found
