"""Least squares: the correction with the smallest squared bias under a prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from scipy.linalg import eigh

from truerank.core.errors import InvalidParameter
from truerank.core.plugin import Source
from truerank.core.types import FloatArray
from truerank.estimation.corrections.base import Correction
from truerank.estimation.corrections.equations import NormalEquations, ScaledEquations


@dataclass(frozen=True)
class LeastSquares(Correction):
    r"""Corrected values whose expectation is closest to the metric in mean square, whatever the variance.

    Shows how far bias can be removed; the values oscillate wildly and the variance is huge, so for an
    estimate use ``bv``.

    .. math:: x = \arg\min_x \sum_R P(R) \big( E[x(r) \mid R] - M(R) \big)^2

    Parameters
    ----------
    prior : weights of global ranks in the error
    rcond : eigenvalues of the normal matrix, scaled so that the largest is 1, below this are taken for 0 and
        the solution with the smallest norm is returned. The matrix is numerically singular for samples above
        about ten; its smallest eigenvalue is near 4^-n.

    Notes
    -----
    Implements Eq. (21) of [krichene2020]_ as an over-determined system, N equations for n unknowns. Their
    Eq. (22) must not be evaluated literally.
    """

    rcond: float = 1e-8
    key: ClassVar[str] = "ls"
    source: ClassVar[Source] = Source("krichene2020", "Eq. 21")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rcond < 1:
            raise InvalidParameter(
                f"rcond must lie between 0 and 1, got {self.rcond!r}. Use for example 1e-8."
            )

    def solve(self, equations: NormalEquations, moments: FloatArray) -> FloatArray:
        """Return x by a truncated eigenvalue decomposition."""
        scaled = ScaledEquations.of(equations)
        return scaled.leave(truncated_solve(scaled.matrix(equations.gram), scaled.enter(moments), self.rcond))

    def solve_dual(self, equations: NormalEquations, counts: FloatArray) -> FloatArray:
        """Return the dual by the same decomposition."""
        scaled = ScaledEquations.of(equations)
        return scaled.scatter(
            truncated_solve(scaled.matrix(equations.gram), scaled.gather(counts), self.rcond)
        )


def truncated_solve(matrix: FloatArray, columns: FloatArray, rcond: float) -> FloatArray:
    """Return the least-norm solution that leaves out directions of small eigenvalues.

    Examples
    --------
    >>> import numpy as np
    >>> truncated_solve(np.diag([2.0, 1e-14]), np.array([[1.0], [1.0]]), 1e-10).ravel().tolist()
    [0.5, 0.0]
    """
    eigenvalues, vectors = eigh(matrix)
    is_kept = eigenvalues > rcond * eigenvalues[-1]
    kept = vectors[:, is_kept]
    solution: FloatArray = kept @ ((kept.T @ columns) / eigenvalues[is_kept, None])
    return solution
