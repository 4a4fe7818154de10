"""Compiled float64 scores of pairs; imported on first use because it imports numba.

The sum of a pair runs in the order of its coordinates, one addition waiting for the other. Four pairs side by
side hide that: each has the bits it would have alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled
from truerank.ranks.draw.prefetch import fetch

Array = Any

LANES = 4
AHEAD = 16


@compiled
def score_pairs(users: Array, items: Array, bias: Array, rows: Array, codes: Array, out: Array) -> None:
    """Write the scores of the pairs (rows[p], codes[p]) (see ``kernels.pair_score``)."""
    base, stride = np.uint64(items.ctypes.data), np.uint64(items.itemsize * items.shape[1])
    last = rows.shape[0] - 1
    for first in range(0, rows.shape[0], LANES):
        for ahead in range(first + AHEAD, first + AHEAD + LANES):
            fetch(base, stride, codes[min(ahead, last)])
        p0, p1, p2, p3 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last)
        u0, u1, u2, u3 = rows[p0], rows[p1], rows[p2], rows[p3]
        v0, v1, v2, v3 = codes[p0], codes[p1], codes[p2], codes[p3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for k in range(users.shape[1]):
            s0 += np.float64(users[u0, k]) * np.float64(items[v0, k])
            s1 += np.float64(users[u1, k]) * np.float64(items[v1, k])
            s2 += np.float64(users[u2, k]) * np.float64(items[v2, k])
            s3 += np.float64(users[u3, k]) * np.float64(items[v3, k])
        out[p3], out[p2], out[p1], out[p0] = s3, s2, s1, s0
    if bias.shape[0] > 0:
        for pair in range(rows.shape[0]):
            out[pair] += bias[codes[pair]]
