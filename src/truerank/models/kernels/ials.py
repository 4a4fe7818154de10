"""The least-squares step of alternating least squares."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.models.kernels.compiled import compiled_fused


@compiled_fused
def gram(vectors: FloatArray, first: int, last: int, out: FloatArray) -> None:
    """Write the upper triangle of V^T V over rows first..last into ``out``, (d, d)."""
    d = vectors.shape[1]
    out[:] = 0.0
    for row in range(first, last):
        for r in range(d):
            left = vectors[row, r]
            for c in range(r, d):
                out[r, c] += left * vectors[row, c]


@compiled_fused
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

    The sums run over the row's entries in stored order; ``base`` is (d, d) with its upper triangle filled,
    ``reg`` (n_rows,). A row without entries gets zeros.
    """
    d = fixed.shape[1]
    system, right = np.empty((d, d)), np.empty(d)
    for row in range(first, last):
        p, end = indptr[row], indptr[row + 1]
        if p == end:
            out[row] = 0.0
            continue
        for r in range(d):
            right[r] = 0.0
            for c in range(r, d):
                system[r, c] = base[r, c]
            system[r, r] += reg[row]
        while p + 8 <= end:  # eight at a time: the system is read and written once for eight vectors
            v0, v1, v2, v3 = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]
            v4, v5, v6, v7 = indices[p + 4], indices[p + 5], indices[p + 6], indices[p + 7]
            x0, x1, x2, x3 = fixed[v0], fixed[v1], fixed[v2], fixed[v3]
            x4, x5, x6, x7 = fixed[v4], fixed[v5], fixed[v6], fixed[v7]
            for r in range(d):
                a0, a1, a2, a3 = x0[r], x1[r], x2[r], x3[r]
                a4, a5, a6, a7 = x4[r], x5[r], x6[r], x7[r]
                right[r] += ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))
                line = system[r]
                for c in range(r, d):
                    total = line[c] + a0 * x0[c] + a1 * x1[c] + a2 * x2[c] + a3 * x3[c]
                    line[c] = total + a4 * x4[c] + a5 * x5[c] + a6 * x6[c] + a7 * x7[c]
            p += 8
        while p < end:
            x0 = fixed[indices[p]]
            for r in range(d):
                a0 = x0[r]
                right[r] += a0
                line = system[r]
                for c in range(r, d):
                    line[c] += a0 * x0[c]
            p += 1
        _solve(system, right)
        out[row] = right


@compiled_fused
def _solve(system: FloatArray, right: FloatArray) -> None:
    """Solve U^T U x = right in place, with U the Cholesky factor of the upper triangle."""
    d = len(right)
    for k in range(d):
        pivot = 1.0 / np.sqrt(system[k, k])
        line = system[k]
        for c in range(k, d):
            line[c] *= pivot
        for r in range(k + 1, d):
            factor, below = line[r], system[r]
            for c in range(r, d):
                below[c] -= factor * line[c]
        right[k] *= pivot
        for c in range(k + 1, d):
            right[c] -= line[c] * right[k]
    for k in range(d - 1, -1, -1):
        total = right[k]
        for c in range(k + 1, d):
            total -= system[k, c] * right[c]
        right[k] = total / system[k, k]
