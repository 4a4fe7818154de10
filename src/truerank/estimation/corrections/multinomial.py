"""MN: the correction that minimises squared bias plus the variance of multinomial counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpocon

from truerank.core.errors import InvalidParameter
from truerank.core.plugin import Source
from truerank.core.types import FloatArray
from truerank.estimation.corrections.base import Correction, MetricContexts, ResultCache
from truerank.estimation.corrections.equations import (
    NormalEquations,
    ScaledEquations,
    StackedLeastSquares,
    laplacian,
)
from truerank.estimation.corrections.priors import UniformPrior
from truerank.estimation.tally import Tally

_NOISE: ResultCache[FloatArray] = ResultCache(1 << 26)
_ILL = 1e-8  # below this reciprocal condition number the stacked matrix is factorised instead


@dataclass(frozen=True)
class Multinomial(Correction):
    r"""Corrected values that minimise squared bias plus the variance at all ranks over the number of users.

    Needs no gamma: the more users, the less variance matters. It shrinks strongly towards the prior, so
    it is as good as its prior; with ``uniform`` it is ``bv`` with gamma = N/M. Fit O(N sqrt(m) + m^3) with
    replacement, memory O(N + m^2).

    .. math:: x = \Big( A^\top D A + \tfrac1M (\Lambda - A^\top A) \Big)^{-1} A^\top D b, \qquad
              \Lambda = \mathrm{diag} \sum_R A_{R \cdot}

    Parameters
    ----------
    prior : weights of global ranks in the error
    users : M, the targets that the mean is over; none takes the rows of the sample. Pools of several sizes
        have a law each but one M, that of all rows: the variance of their common mean is over all of them

    Notes
    -----
    Implements Eq. (11) of [li2023]_. The second term is the sum over ranks of the variance of x; it has no
    prior in it, because Jensen's inequality is applied a second time. The matrix is positive definite for any
    prior and any M >= 1: the second term vanishes for constants only, for which the first is 1. So the
    objective is convex, contrary to the paper. The exception are samples of all candidates, whose
    rank is certain: a rank without mass under the prior takes the value of the nearest with mass.

    The second term is formed from its off-diagonal entries, without cancellation. Where M is so large against
    N that the matrix is ill-conditioned, the problem is solved by an orthogonal factorisation of the stacked
    matrix of both terms instead; O(N m^2).

    Examples
    --------
    >>> Multinomial(users=6040)
    Multinomial(prior=UniformPrior(), users=6040)
    """

    users: int | None = None
    key: ClassVar[str] = "mn"
    source: ClassVar[Source] = Source("li2023", "Eq. 11")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.users is not None and self.users < 1:
            raise InvalidParameter(
                f"users must be an integer >= 1, got {self.users!r}. Leave it out for those of the sample."
            )

    def resolve(self, tally: Tally) -> Self:
        """Return the correction for a sample, with its prior and its number of rows."""
        fixed = super().resolve(tally)
        if fixed.users is not None:
            return fixed
        if tally.n_rows == 0:
            raise InvalidParameter(
                f"'{self}' needs the number of users. Give it, for example mn(users=1000)."
            )
        return replace(fixed, users=tally.n_rows)

    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x by Cholesky, or from the triangle of the stacked matrix."""
        scaled, factor = self._factor(equations)
        columns = scaled.enter(moments)
        if factor is None:
            return scaled.leave(self._stacked(equations, scaled).solve(columns))
        return scaled.leave(cho_solve(factor, columns, check_finite=False))

    def solve_metrics(self, equations: NormalEquations, wanted: MetricContexts) -> FloatArray:
        """Return x; ill-conditioned problems are solved from the gains themselves, not from A'Db."""
        scaled, factor = self._factor(equations)
        if factor is None:
            return scaled.leave(self._stacked(equations, scaled).solve_metrics(wanted))
        moments = [equations.moment(metric, contexts) for metric, contexts in wanted]
        columns = scaled.enter(np.concatenate(moments, axis=1))
        return scaled.leave(cho_solve(factor, columns, check_finite=False))

    def solve_dual(self, equations: NormalEquations, counts: FloatArray) -> FloatArray:
        """Return the dual."""
        scaled, factor = self._factor(equations)
        columns = scaled.gather(counts)
        if factor is None:
            return scaled.scatter(self._stacked(equations, scaled).solve(columns))
        return scaled.scatter(cho_solve(factor, columns, check_finite=False))

    def matrix(self, equations: NormalEquations) -> FloatArray:
        """Return A'DA + (Lambda - A'A)/M."""
        matrix = self._penalty(equations)
        matrix += equations.gram
        return matrix

    def _factor(self, equations: NormalEquations) -> tuple[ScaledEquations, tuple[FloatArray, bool] | None]:
        """Return the scaling and the Cholesky factor; None where the matrix is nearly singular."""
        matrix = self.matrix(equations)
        scaled = ScaledEquations.by(np.diag(matrix), equations.locations)
        matrix = scaled.matrix(matrix)
        norm = np.abs(matrix).sum(axis=0).max()
        try:
            factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return scaled, None
        reciprocal, _ = dpocon(factor[0], norm, uplo="L")
        return scaled, factor if reciprocal >= _ILL else None

    def _stacked(self, equations: NormalEquations, scaled: ScaledEquations) -> StackedLeastSquares:
        return StackedLeastSquares(equations, self._penalty(equations), scaled)

    def _penalty(self, equations: NormalEquations) -> FloatArray:
        penalty: FloatArray = self._noise(equations) / float(self.users or 1)
        return penalty

    def _noise(self, equations: NormalEquations) -> FloatArray:
        """Return Lambda - A'A, which is the same for all priors."""
        law = equations.law
        return _NOISE.get(law, partial(_noise_of, self.equations(law, UniformPrior())))


def _noise_of(even: NormalEquations) -> FloatArray:
    return laplacian(even.gram * len(even.prior))
