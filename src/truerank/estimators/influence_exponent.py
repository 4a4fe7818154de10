"""Derivatives of the exponent of ``beta-binomial``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.estimators.beta_binomial import beta_masses
from truerank.estimators.influence_fit import LEAST, Sensitivity, mean_under
from truerank.estimators.likelihood import Likelihood


@dataclass(frozen=True, eq=False)
class ExponentSensitivity(Sensitivity):
    """Implicit differentiation of the one parameter at the maximum of the likelihood.

    Parameters
    ----------
    masses : (n_bins,) as fitted
    values : (n_bins, n_numbers) d log mass / d log a, times what a step of log a moves
    """

    masses: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, likelihood: Likelihood, a: float, is_inner: bool, slope: FloatArray) -> ExponentSensitivity:
        """Find the information; an exponent at the end of its range stays there.

        Parameters
        ----------
        likelihood : its first run was fitted
        a, is_inner : the exponent, and whether the likelihood has its maximum there
        slope : (n_bins, n_numbers) of the numbers in the masses
        """
        log_share = np.log(likelihood.grid.edges[1:] / likelihood.grid.n_ranks)
        masses, first, second = beta_masses(log_share, float(np.log(a)))
        if not is_inner:
            return cls(masses, np.zeros_like(slope))
        p = likelihood.shares[0]
        q, once, twice = (likelihood.matrix @ column for column in (masses, first, second))
        q = np.maximum(q, LEAST)
        information = float(p @ ((once / q) ** 2 - twice / q))
        score = np.divide(first, masses, out=np.zeros_like(first), where=masses > LEAST)
        return cls(masses, score[:, None] * (first @ slope) / information)

    def at(self, chances: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray) -> FloatArray:
        """Return the slopes, (n_outcomes, n_numbers)."""
        return mean_under(chances, self.masses, self.values)
