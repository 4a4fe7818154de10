"""Large symmetric matrices in place, with the same bits on any number of threads."""

from __future__ import annotations

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.errors import InvalidParameter
from truerank.core.progress import Task
from truerank.core.types import FloatArray
from truerank.models.threads import even_blocks, run_blocks

_BLOCK = 256  # wide enough for BLAS to reach its peak, fine enough to share among threads


def mirror_lower(matrix: FloatArray) -> None:
    """Copy the lower triangle onto the upper one, in place."""
    blocks = even_blocks(len(matrix), _BLOCK)

    def mirror(first: int, last: int) -> None:
        corner = matrix[first:last, first:last]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
        for start, stop in blocks:
            if start < first:
                matrix[start:stop, first:last] = matrix[first:last, start:stop].T

    run_blocks(mirror, blocks)


def negate_inverse_lower(matrix: FloatArray, task: Task) -> None:
    """Replace the lower triangle of a positive definite matrix by that of minus its inverse.

    The block form of the sweep operator: n^3 operations like a Cholesky factor and its inverse, no
    second matrix, and only products of blocks with one fixed shape each. Those are computed by BLAS on one
    thread each, and the blocks are shared among Python threads, so the number of threads cannot change a
    bit. The task advances by one per row.

    Raises
    ------
    InvalidParameter
        When the matrix is not positive definite to working precision.
    """
    blocks = even_blocks(len(matrix), _BLOCK)
    with single_threaded_blas():
        for first, last in blocks:
            _sweep(matrix, first, last, blocks)
            task.advance(last - first)


def _sweep(matrix: FloatArray, first: int, last: int, blocks: list[tuple[int, int]]) -> None:
    """Sweep one diagonal block: A_KK <- -1/A_KK, A_iK <- A_iK/A_KK, A_ij <- A_ij - A_iK/A_KK A_Kj."""
    pivot = _inverse(matrix[first:last, first:last])
    column = np.concatenate([matrix[first:last, :first].T, matrix[first:, first:last]])
    column[first:last] = 0.0
    scaled = np.empty_like(column)

    def update(start: int, stop: int) -> None:
        scaled[start:stop] = column[start:stop] @ pivot
        matrix[start:stop, :stop] -= scaled[start:stop] @ column[:stop].T

    run_blocks(update, blocks[::-1])  # the longest first
    matrix[first:last, :first] = scaled[:first].T
    matrix[last:, first:last] = scaled[last:]
    matrix[first:last, first:last] = -pivot


def _inverse(block: FloatArray) -> FloatArray:
    """Return the inverse of a positive definite block, of which the lower triangle is read."""
    from scipy.linalg import LinAlgError, cho_solve, cholesky

    try:
        factor = cholesky(block, lower=True, check_finite=False)
    except LinAlgError:
        raise InvalidParameter(
            "reg is too small to invert the item-item matrix in float64. Use a larger reg."
        ) from None
    inverse: FloatArray = cho_solve((factor, True), np.eye(len(block)))
    return (inverse + inverse.T) / 2
