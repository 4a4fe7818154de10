"""Forecast of how many of the next items of partially scored rows rank above their targets.

It decides how deep screening goes, and so what an evaluation costs, never what it finds.
"""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.workflows.precision.partial_rows import PartialRows

_OLDER = 0.25  # weight of what was found earlier in a row beside the last pass
_UNSEEN = 0.1  # items above that a pass is expected to find where none was found before
_LEAST = 1e-9  # probability of an item to rank above a target that is told from 0
_START = (0.0, 0.5, 0.5)  # weights before anything is learnt: the geometric mean of both forecasts
_PRECISION = (4.0, 16.0, 16.0)  # of these weights
_FORGETS = 0.4  # of what is known of the weights is kept from pass to pass
_STEPS = 8  # of Newton's method, which begins where it ended before
_FALLS = 0.5  # of what items that are found could take away at most does, before anything is learnt
_PRIOR_FALL = 5.0  # drops that this counts for


class FindsForecast:
    r"""Items above targets that further passes find, learnt from those that they found so far.

    Two rates per item are known of a row: c, what the last pass found and, with less weight, what the row
    held in all; and s, by Student's law that the scores of the last pass predict for the next one
    (``PartialRows.expected_above``). Of n further items

    .. math:: n \exp(w_0 + w_1 \log c + w_2 \log s)

    are expected to rank above a target. The weights are those of a Poisson regression on what the last pass
    found, shrunk towards what they were before.
    """

    def __init__(self) -> None:
        self.weights: FloatArray = np.array(_START)
        self.precision: FloatArray = np.diag(_PRECISION)
        self.falls = _FALLS

    def finds(self, rows: PartialRows, row: IntArray, n_items: FloatArray | IntArray) -> FloatArray:
        """Return how many of the next items of rows are expected to rank above their targets."""
        log_rate = np.minimum(self.features(rows, row) @ self.weights, 0.0)
        finds: FloatArray = np.exp(log_rate) * np.asarray(n_items, np.float64)
        return finds

    def learn(
        self,
        features: FloatArray,
        n_items: FloatArray | IntArray,
        found: FloatArray,
        fallen: float,
        most: float,
    ) -> None:
        """Take in a pass.

        Parameters
        ----------
        features : (n, 3) as they were before it
        n_items, found : (n,) items that were scored in each row, and how many of them ranked above
        fallen, most : how far values fell in all, and could have fallen by what was found
        """
        before, curvature = self.weights, self.precision
        for _ in range(_STEPS):
            expected = np.exp(np.minimum(features @ self.weights, 0.0)) * n_items
            slope = features.T @ (found - expected) - self.precision @ (self.weights - before)
            curvature = (features * expected[:, None]).T @ features + self.precision
            self.weights = self.weights + np.clip(np.linalg.solve(curvature, slope), -1.0, 1.0)
        self.weights[1:] = np.clip(self.weights[1:], 0.0, 2.0)
        self.precision = _FORGETS * curvature
        self.falls = float(np.clip((fallen + _FALLS * _PRIOR_FALL) / (most + _PRIOR_FALL), 0.05, 1.0))

    @staticmethod
    def features(rows: PartialRows, row: IntArray) -> FloatArray:
        """Return what is known of rows, (len(row), 3): 1, log c and log s."""
        asked, found = rows.recent[:, row]
        overall = rows.found_above(row) / np.maximum(rows.depth[row], 1)
        rate = (found + _OLDER * overall * asked + _UNSEEN) / ((1 + _OLDER) * np.maximum(asked, 1))
        by_scores = np.where(rows.scored[0, row] > 0, rows.expected_above(row), rate)
        logs = [np.log(np.maximum(one, _LEAST)) for one in (rate, by_scores)]
        return np.stack([np.ones(len(row)), *logs], axis=1)
