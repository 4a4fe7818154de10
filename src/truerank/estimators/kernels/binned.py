"""Means of the law of sampled ranks over bins of global ranks.

Symbols: L candidates, J of them above the target, m sampled, j of those above the target.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.kernels.row import law_row


@compiled
def add_nodes(
    J: IntArray,
    bins: IntArray,
    weight: FloatArray,
    L: int,
    replacement: bool,
    odds: FloatArray,
    floor: float,
    columns: IntArray,
    out: FloatArray,
) -> None:
    """Add weight[i] P(columns[k] | J[i]) to out[k, bins[i]]; ``columns`` and J ascend.

    The first j of a row grows with J, so what follows a row beyond the last column is beyond it too.
    """
    row = np.zeros(len(odds) + 1)
    for i in range(len(J)):
        first, end, scale = law_row(J[i], L, replacement, odds, floor, row)
        if first > columns[-1]:
            break
        scale *= weight[i]
        start = np.searchsorted(columns, first)
        for k in range(start, len(columns)):
            j = columns[k]
            if j >= end:
                break
            out[k, bins[i]] += row[j] * scale
