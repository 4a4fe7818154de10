"""Outcomes that say nearly the same, put together."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray
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
    angle = 2 * np.sqrt(m) * np.arcsin(np.sqrt(j / m))
    place = np.where(j < _SINGLES, j, _SINGLES + np.floor(angle / _WIDTH)).astype(np.int64)
    pool = np.floor(np.log(likelihood.n_candidates[seen]) / np.log(_POOLS)).astype(np.int64)
    _, which = np.unique(np.stack([m, pool, place], axis=1), axis=0, return_inverse=True)
    which = which.ravel()
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    shares: FloatArray = np.bincount(which, weights=p).astype(np.float64)
    rows = likelihood.matrix[seen[order]]
    rows *= (p[order] / (shares[which[order]] * rows.max(axis=1)))[:, None]
    return np.add.reduceat(rows, starts, axis=0), shares
