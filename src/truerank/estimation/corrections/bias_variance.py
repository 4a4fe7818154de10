"""BV: the correction that minimises squared bias plus gamma times variance, under a prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from truerank.core.errors import InvalidParameter
from truerank.core.plugin import Source
from truerank.core.types import FloatArray
from truerank.estimation.corrections.base import Correction
from truerank.estimation.corrections.equations import NormalEquations, ScaledEquations
from truerank.estimation.corrections.least_squares import LeastSquares, truncated_solve


@dataclass(frozen=True)
class BiasVariance(Correction):
    r"""Corrected values that minimise squared bias plus gamma times variance under a prior.

    The correction to start with. Small gamma: less bias, more variance; gamma = 1 is the mean of the metric
    given the sampled rank under the prior. Fit O(N sqrt(m) + m^3) with replacement, memory O(N + m^2).

    .. math:: x = \big( (1 - \gamma) A^\top D A + \gamma \,\mathrm{diag}(c) \big)^{-1} A^\top D b, \qquad
              c = A^\top P

    Parameters
    ----------
    prior : weights of global ranks in the error
    gamma : weight of the variance in [0, 1]; 0 is ``ls``

    Notes
    -----
    Implements Eq. (26) of [krichene2020]_ with symmetric scaling by 1/sqrt(c), after which eigenvalues lie in
    [gamma, 1], and a Cholesky factorisation.

    Examples
    --------
    >>> BiasVariance(gamma=0.01)
    BiasVariance(prior=UniformPrior(), gamma=0.01)
    """

    gamma: float = 0.1
    key: ClassVar[str] = "bv"
    source: ClassVar[Source] = Source("krichene2020", "Eq. 26")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.gamma <= 1:
            raise InvalidParameter(f"gamma must lie in [0, 1], got {self.gamma!r}. Use for example 0.1.")

    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x."""
        scaled = ScaledEquations.of(equations)
        return scaled.leave(self._solve(scaled, equations, scaled.enter(moments)))

    def solve_dual(self, equations: NormalEquations, counts: FloatArray) -> FloatArray:
        """Return the dual."""
        scaled = ScaledEquations.of(equations)
        return scaled.scatter(self._solve(scaled, equations, scaled.gather(counts)))

    def _solve(self, scaled: ScaledEquations, equations: NormalEquations, columns: FloatArray) -> FloatArray:
        if self.gamma == 1:
            return columns
        matrix = scaled.matrix(equations.gram)
        if self.gamma == 0:
            return truncated_solve(matrix, columns, LeastSquares.rcond)
        matrix *= 1 - self.gamma
        matrix[np.diag_indices_from(matrix)] += self.gamma
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # gamma is below rounding error: eigenvalues near gamma came out negative
            eigenvalues, vectors = eigh(scaled.matrix(equations.gram))
            damped = (1 - self.gamma) * np.maximum(eigenvalues, 0) + self.gamma
            solution: FloatArray = vectors @ ((vectors.T @ columns) / damped[:, None])
            return solution
        solved: FloatArray = cho_solve(factor, columns, check_finite=False)
        return solved
