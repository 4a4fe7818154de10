"""Outcomes that say nearly the same, put together."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimators.likelihood import Likelihood

#: Width of a group of sampled ranks in standard deviations; it adds 2 % to their variance.
_WIDTH = 0.5
_SINGLES = 8  # so many first sampled ranks are kept apart
_POOLS = 1.25  # pools up to this ratio are put together: their ranks are compared by R/N alone


def grouped(likelihood: Likelihood, run: int) -> tuple[FloatArray, FloatArray]:
    """Return P(outcome | bin) up to factors, and shares, of the groups of outcomes that a run has.

    Within a group the probabilities as functions of the bin are proportional but for shifts of at most a
    quarter of their width; factors do not matter to a likelihood, so a group is given their mean, each
    scaled to have the maximum 1. Only what the run itself has enters, so its fit does not depend on others.
    """
    seen = np.flatnonzero(likelihood.shares[run] > 0)
    p, j, m = likelihood.shares[run, seen], likelihood.n_above[seen], likelihood.n_negatives[seen]
    _, which = np.unique(group_keys(m, likelihood.n_candidates[seen], j), axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    shares: FloatArray = np.bincount(which, weights=p).astype(np.float64)
    rows = likelihood.matrix[seen[order]]
    rows *= (p[order] / (shares[which[order]] * rows.max(axis=1)))[:, None]
    return np.add.reduceat(rows, starts, axis=0), shares


def group_keys(n_negatives: IntArray, n_candidates: IntArray, n_above: IntArray) -> IntArray:
    """Return what tells the groups of outcomes apart, (n, 3); groups are numbered in the order of their keys.

    Examples
    --------
    >>> group_keys(np.array([99, 99, 99]), np.array([999, 999, 999]), np.array([0, 50, 51])).tolist()
    [[99, 30, 0], [99, 30, 39], [99, 30, 39]]
    """
    m, j = n_negatives, n_above
    angle = 2 * np.sqrt(m) * np.arcsin(np.sqrt(j / m))
    place = np.where(j < _SINGLES, j, _SINGLES + np.floor(angle / _WIDTH)).astype(np.int64)
    pool = np.floor(np.log(n_candidates) / np.log(_POOLS)).astype(np.int64)
    return np.stack([m, pool, place], axis=1)
