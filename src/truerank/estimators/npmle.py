"""The non-parametric maximum of the likelihood of a mixture, with a bound on its distance to the optimum.

Symbols: A is P(outcome | bin), p the shares of the outcomes, w the masses, q = Aw, g = A'(p/q) the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from truerank.core.errors import NotConverged
from truerank.core.types import BoolArray, FloatArray, IntArray

TOLERANCE = 1e-9  #: on the gap that is reported
_GOAL = 1e-11  # asked of each sub-problem
_ROUNDS = 60
_STEPS = 80
_FIRST = 64  # bins to start from
_STALLED = 6  # steps without progress after which a sub-problem is left as it is


@dataclass(frozen=True, eq=False)
class Maximum:
    """Masses of the largest likelihood.

    Parameters
    ----------
    masses : (n_bins,) non-negative, they sum to 1
    gap : by how much at most the optimum has more log-likelihood per row
    iterations : Newton steps
    """

    masses: FloatArray
    gap: float
    iterations: int


def maximise(matrix: FloatArray, shares: FloatArray) -> Maximum:
    r"""Return the masses that maximise :math:`\sum_o p_o \log \sum_b w_b P(o \mid b)`.

    Few bins have mass at the optimum. A part of the bins is solved by Newton steps of an interior-point
    method; then bins where the gradient exceeds 1, at and around each of its peaks, join those with mass,
    until there is none. A step costs O(n_outcomes k^2) with k bins in play, mostly fewer than a hundred.

    Parameters
    ----------
    matrix : (n_outcomes, n_bins) P(outcome | bin)
    shares : (n_outcomes,) p

    Raises
    ------
    NotConverged
        When the gap stays above 1e-9; ``last`` holds the best ``Maximum``.

    Notes
    -----
    The gap is that of the general mixture theorem: the likelihood of any masses is below that of w by no more
    than the largest gradient - 1. Scaling w is free in the problem that is solved, with the sum of the masses
    as a price, and the optimum has sum 1.

    Examples
    --------
    >>> maximise(np.array([[0.9, 0.5], [0.1, 0.5]]), np.array([0.8, 0.2])).masses.round(6).tolist()
    [0.75, 0.25]
    """
    seen = shares > 0
    A, p = matrix[seen], shares[seen] / shares[seen].sum()
    n_bins = A.shape[1]
    is_used = _first_bins(A)
    best, steps = Maximum(np.zeros(n_bins), np.inf, 0), 0
    for _ in range(_ROUNDS):
        bins = np.flatnonzero(is_used)
        found, taken = _interior(np.ascontiguousarray(A[:, bins]), p)
        steps += taken
        masses = np.zeros(n_bins)
        masses[bins] = found
        slope = A.T @ (p / (A @ masses))
        gap = max(float(slope.max()) - 1.0, 0.0)
        if gap < best.gap:
            best = Maximum(masses, gap, steps)
        joining = _peaks(slope, 1.0 + 10 * _GOAL) & ~is_used
        if gap <= 10 * _GOAL or not joining.any():
            break
        is_used = joining | (masses > 1e-9)
        is_used[1:] |= masses[:-1] > 1e-6
        is_used[:-1] |= masses[1:] > 1e-6
    best = Maximum(best.masses, best.gap, steps)
    if best.gap > TOLERANCE:
        raise NotConverged(
            f"the likelihood could only be brought to within {best.gap:.1e} of its maximum, not {TOLERANCE}. "
            f"Use solver=em.",
            best,
        )
    return best


def _first_bins(A: FloatArray) -> BoolArray:
    """Return bins spread evenly, and for outcomes that are rare in all of them the best one."""
    n_bins = A.shape[1]
    chosen = np.unique(np.linspace(0, n_bins - 1, min(n_bins, _FIRST)).astype(np.int64))
    is_used = np.zeros(n_bins, dtype=np.bool_)
    is_used[chosen] = True
    best: IntArray = np.argmax(A, axis=1)
    is_used[best[A[:, chosen].max(axis=1) < 1e-3 * A[np.arange(len(A)), best]]] = True
    return is_used


def _peaks(slope: FloatArray, level: float) -> BoolArray:
    """Return the places above a level that no neighbour exceeds, with their neighbours."""
    padded = np.concatenate([[-np.inf], slope, [-np.inf]])
    is_peak = (slope > level) & (slope >= padded[:-2]) & (slope >= padded[2:])
    near = is_peak.copy()
    near[1:] |= is_peak[:-1]
    near[:-1] |= is_peak[1:]
    return near


def _interior(A: FloatArray, p: FloatArray) -> tuple[FloatArray, int]:
    """Return the optimal masses over the columns of A and the steps taken, by predictor and corrector.

    With prices z >= 0 of the bounds w >= 0 the conditions are g + z = 1 and w z = 0. Eliminating z leaves
    (H + z/w) dw = g - 1 + c/w, with H the Hessian; in units of sqrt(w/z) its eigenvalues are at least 1.
    """
    size, root = A.shape[1], np.sqrt(p)
    w, z = np.full(size, 1.0 / size), np.ones(size)
    best, least, stalled, taken = w, np.inf, 0, 0
    while taken < _STEPS:
        scaled = A * (root / (A @ w))[:, None]
        g = scaled.T @ root
        gap = g.max() * w.sum() - 1.0
        stalled = 0 if gap < 0.5 * least else stalled + 1
        if gap < least:
            best, least = w, gap
        if least <= _GOAL or stalled > _STALLED:
            break
        unit = np.sqrt(w / z)
        scaled *= unit
        newton = scaled.T @ scaled
        newton[np.diag_indices(size)] += 1.0
        try:
            factor = cho_factor(newton, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # beyond the precision of numbers
            break
        taken += 1
        mean = w @ z / size
        dw = unit * cho_solve(factor, unit * (g - 1.0), check_finite=False)
        dz = -z - z / w * dw
        after = (w + min(_reach(w, dw), 1.0) * dw) @ (z + min(_reach(z, dz), 1.0) * dz) / size
        centre = (after / mean) ** 3 * mean - dw * dz
        dw = unit * cho_solve(factor, unit * (g - 1.0 + centre / w), check_finite=False)
        dz = centre / w - z - z / w * dw
        w = w + min(0.995 * _reach(w, dw), 1.0) * dw
        z = z + min(0.995 * _reach(z, dz), 1.0) * dz
    return best / best.sum(), taken


def _reach(value: FloatArray, step: FloatArray) -> float:
    """Return how much of a step keeps all values >= 0."""
    falling = step < 0
    return float((value[falling] / -step[falling]).min()) if falling.any() else np.inf
