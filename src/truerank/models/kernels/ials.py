"""The least-squares step of alternating least squares."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import fused
from truerank.core.types import FloatArray, IntArray

CHUNK = 128  # vectors gathered for one product: fixed, so that a row's sums do not depend on anything else


@fused
def solve_cholesky(system: FloatArray, right: FloatArray) -> None:
    """Solve U^T U x = right in place, with U the Cholesky factor of the upper triangle of ``system``."""
    d = len(right)
    for start in range(0, d, 4):  # four rows of U at a time: the rest is read and written once for four
        stop = min(start + 4, d)
        for k in range(start, stop):
            line = system[k]
            pivot = 1.0 / np.sqrt(line[k])
            for c in range(k, d):
                line[c] *= pivot
            for r in range(k + 1, stop):
                below, factor = system[r], line[r]
                for c in range(r, d):
                    below[c] -= factor * line[c]
            right[k] *= pivot
            for c in range(k + 1, d):
                right[c] -= line[c] * right[k]
        if stop < d:
            u0, u1, u2, u3 = system[start], system[start + 1], system[start + 2], system[start + 3]
            for r in range(stop, d):
                below = system[r]
                f0, f1, f2, f3 = u0[r], u1[r], u2[r], u3[r]
                for c in range(r, d):
                    below[c] = below[c] - f0 * u0[c] - f1 * u1[c] - f2 * u2[c] - f3 * u3[c]
    for k in range(d - 1, -1, -1):
        total = right[k]
        for c in range(k + 1, d):
            total -= system[k, c] * right[c]
        right[k] = total / system[k, k]


@fused
def solve_rows(
    indptr: IntArray,
    indices: IntArray,
    fixed: FloatArray,
    base: FloatArray,
    reg: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None:
    """Solve (base + sum v v^T + reg I) x = sum v for rows first..last.

    The sums run over the row's entries in stored order, chunk by chunk; ``base`` is (d, d), ``reg``
    (n_rows,). A row without entries gets zeros.
    """
    d = fixed.shape[1]
    system, product, right = np.empty((d, d)), np.empty((d, d)), np.empty(d)
    gathered = np.empty((CHUNK, d))
    for row in range(first, last):
        start, end = indptr[row], indptr[row + 1]
        if start == end:
            out[row] = 0.0
            continue
        system[:] = base
        right[:] = 0.0
        for r in range(d):
            system[r, r] += reg[row]
        while start < end:
            n = min(CHUNK, end - start)
            for k in range(n):
                gathered[k] = fixed[indices[start + k]]
                right += gathered[k]
            chunk = gathered[:n]
            np.dot(chunk.T, chunk, product)
            system += product
            start += n
        solve_cholesky(system, right)
        out[row] = right
