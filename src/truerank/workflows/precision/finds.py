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
_KEPT = 0.4  # of what passes told about the weights, from pass to pass
_SMALLEST = (-np.inf, 0.0, 0.0)  # weights: a higher rate never makes a row look as if it held less
_LARGEST = (np.inf, 2.0, 2.0)
_STEPS = 50  # of Newton's method, at most; a few are enough
_HALVINGS = 30  # of a step, at most
_CONVERGED = 1e-9  # fall of the loss that ends them
_FALLS = 0.5  # of what items that are found could take away at most does, before anything is learnt
_PRIOR_FALL = 5.0  # drops that this counts for


class FindsForecast:
    r"""Items above targets that further passes find, learnt from those that they found so far.

    Two rates per item are known of a row: c, what the last pass found and, with less weight, what the row
    held in all; and s, by Student's law that the scores of the last pass predict for the next one
    (``PartialRows.expected_above``). Of n further items

    .. math:: n \exp(w_0 + w_1 \log c + w_2 \log s)

    are expected to rank above a target. The weights are those of a Poisson regression on what the last pass
    found, shrunk towards what they were before. A pass goes over the rows where most is expected, which say
    little about the others; so the shrinking never falls below what it was at the beginning.
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
        self.weights, curvature = _fit(features, n_items, found, self.weights, self.precision)
        self.precision = _KEPT * curvature + (1 - _KEPT) * np.diag(_PRECISION)
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


def _fit(
    features: FloatArray,
    n_items: FloatArray | IntArray,
    found: FloatArray,
    before: FloatArray,
    precision: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the weights of the Poisson regression within their limits, and the curvature there.

    The loss is convex. Newton's method leaves out weights that are at a limit and would go beyond it; steps
    are cut at the limits, and halved until the loss falls.
    """

    def loss(weights: FloatArray) -> float:
        log_rate, change = features @ weights, weights - before
        with np.errstate(over="ignore"):
            expected = np.exp(log_rate) @ n_items
        return float(expected - found @ log_rate + change @ precision @ change / 2)

    weights = before
    least = loss(weights)
    for _ in range(_STEPS):
        expected = np.exp(features @ weights) * n_items
        slope = features.T @ (found - expected) - precision @ (weights - before)
        curvature = (features * expected[:, None]).T @ features + precision
        is_held = ((weights <= _SMALLEST) & (slope < 0)) | ((weights >= _LARGEST) & (slope > 0))
        free = np.flatnonzero(~is_held)
        step = np.zeros_like(weights)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        for _ in range(_HALVINGS):
            candidate = np.clip(weights + step, _SMALLEST, _LARGEST)
            new = loss(candidate)
            if new < least:
                break
            step = step / 2
        else:
            break
        weights, is_done, least = candidate, least - new < _CONVERGED, new
        if is_done:
            break
    return weights, curvature
