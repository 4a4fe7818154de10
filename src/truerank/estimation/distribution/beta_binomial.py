"""Beta-binomial: relative ranks with a Beta(a, 1) distribution, a by maximum likelihood.

One parameter, found by Newton's method within a bracket; its derivatives in the fractions of outcomes by
implicit differentiation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import (
    LEAST,
    FittedMasses,
    MixtureEstimator,
    Sensitivity,
    mean_under,
)
from truerank.estimation.distribution.likelihood import Likelihood
from truerank.estimation.distribution.mle import log_likelihood
from truerank.estimation.tally import Tally

_LOG_A = np.linspace(np.log(1e-4), np.log(1e4), 93)  # where the likelihood is evaluated first
_LEAST = 1e-300
_STEPS = 60


@dataclass(frozen=True)
class BetaBinomial(MixtureEstimator):
    r"""Distribution of global ranks with R/N ~ Beta(a, 1), a by maximum likelihood.

    Consistent where the ranks have that law, unlike the plug-in exponent of ``mapping(beta-p)``. Ranks of
    real recommenders deviate from it, and then one parameter is too few: use ``smooth``. Useful for small
    samples.

    .. math:: \max_a \sum_o p_o \log \sum_R \big( (R/N)^a - ((R - 1)/N)^a \big) P(o \mid R)

    Parameters
    ----------
    grid : width of the bins of ranks in standard deviations of the sampled rank; 0 keeps every rank apart

    Notes
    -----
    With replacement and a continuum of ranks the sampled rank is beta-binomial(m, a, 1), hence the name; here
    the masses of ranks are exact, and any mixture of sizes, pools and laws can be treated. The exponent is
    sought between 1e-4 and 1e4. Diagnostics: ``a``; ``standard_error`` of a from the observed
    information, NaN at an end of that range; ``log_likelihood`` (mean per target); ``iterations``.

    Examples
    --------
    >>> BetaBinomial()
    BetaBinomial(grid=0.1)
    """

    key: ClassVar[str] = "beta-binomial"
    source: ClassVar[Source] = Source("li2020", "Eq. 14")

    def fit(self, likelihood: Likelihood, tallies: Sequence[Tally]) -> FittedMasses:
        """Return masses for each run."""
        matrix, fractions = likelihood.matrix, likelihood.fractions
        log_fraction = np.log(likelihood.grid.edges[1:] / likelihood.grid.n_ranks)
        tried = np.stack([beta_masses(log_fraction, u)[0] for u in _LOG_A])
        heights = fractions @ np.log(np.maximum(tried @ matrix.T, _LEAST)).T
        solved = [
            _climb(matrix, p, log_fraction, int(best))
            for p, best in zip(fractions, heights.argmax(axis=1), strict=True)
        ]
        masses = np.stack([beta_masses(log_fraction, u)[0] for u, _, _ in solved])
        return FittedMasses(
            masses,
            [
                {
                    "a": float(np.exp(u)),
                    "standard_error": float(np.exp(u) / np.sqrt(tally.n_rows * information)),
                    "log_likelihood": float(height),
                    "iterations": float(steps),
                }
                for (u, information, steps), tally, height in zip(
                    solved, tallies, log_likelihood(matrix, fractions, masses), strict=True
                )
            ],
        )

    @property
    def em_steps(self) -> int:
        """The CPU time of one fit, in steps of EM, roughly."""
        return 50

    @property
    def has_influence(self) -> bool:
        """The exponent solves one smooth equation."""
        return True

    def sensitivity(
        self, likelihood: Likelihood, fit: FittedMasses, tally: Tally, slope: FloatArray
    ) -> Sensitivity:
        """Return the derivatives of the fit in the fractions of outcomes."""
        diagnostics = fit.diagnostics[0]
        is_inner = bool(np.isfinite(diagnostics["standard_error"]))
        return ExponentSensitivity.of(likelihood, diagnostics["a"], is_inner, slope)


def beta_masses(log_fraction: FloatArray, u: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the masses of the bins for a = exp(u), and their first and second derivatives in u."""
    power = np.exp(u) * log_fraction
    cdf = np.exp(power)
    columns = (cdf, cdf * power, cdf * power * (1 + power))
    first, second, third = (np.diff(column, prepend=0.0) for column in columns)
    return first, second, third


def _climb(
    matrix: FloatArray, p: FloatArray, log_fraction: FloatArray, best: int
) -> tuple[float, float, int]:
    """Return log a, the information per row about it, and the steps: Newton's method kept in a bracket.

    The information is NaN where the likelihood still rises at an end of the range.
    """
    if best in (0, len(_LOG_A) - 1):
        return float(_LOG_A[best]), float("nan"), 0
    seen = np.flatnonzero(p > 0)
    rows, p = matrix[seen], p[seen]
    low, high, u = float(_LOG_A[best - 1]), float(_LOG_A[best + 1]), float(_LOG_A[best])
    information, steps = float("nan"), 0
    while steps < _STEPS:
        steps += 1
        q, first, second = (rows @ column for column in beta_masses(log_fraction, u))
        q = np.maximum(q, _LEAST)
        score = float(p @ (first / q))
        information = float(p @ ((first / q) ** 2 - second / q))
        step = score / information if information > 0 else np.inf
        if abs(step) <= 1e-11:
            break
        low, high = (u, high) if score > 0 else (low, u)
        u = u + step if low < u + step < high else (low + high) / 2
    return u, information, steps


@dataclass(frozen=True, eq=False)
class ExponentSensitivity(Sensitivity):
    """Implicit differentiation of the one parameter at the maximum of the likelihood.

    Parameters
    ----------
    masses : (n_bins,) as fitted
    values : (n_bins, n_numbers) d log mass / d log a, times the derivatives of the numbers in log a over the
        information
    """

    masses: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, likelihood: Likelihood, a: float, is_inner: bool, slope: FloatArray) -> ExponentSensitivity:
        """Differentiate at the maximum; an exponent at a limit of its range stays there.

        Parameters
        ----------
        likelihood : its first run was fitted
        a, is_inner : the exponent, and whether the likelihood has its maximum there
        slope : (n_bins, n_numbers) derivatives of the numbers in the masses
        """
        log_fraction = np.log(likelihood.grid.edges[1:] / likelihood.grid.n_ranks)
        masses, first, second = beta_masses(log_fraction, float(np.log(a)))
        if not is_inner:
            return cls(masses, np.zeros_like(slope))
        p = likelihood.fractions[0]
        q, once, twice = (likelihood.matrix @ column for column in (masses, first, second))
        q = np.maximum(q, LEAST)
        information = float(p @ ((once / q) ** 2 - twice / q))
        score = np.divide(first, masses, out=np.zeros_like(first), where=masses > LEAST)
        return cls(masses, score[:, None] * (first @ slope) / information)

    def at(
        self, probabilities: FloatArray, n_negatives: int, n_candidates: int, n_above: IntArray
    ) -> FloatArray:
        """Return the derivatives, (n_outcomes, n_numbers)."""
        return mean_under(probabilities, self.masses, self.values)
