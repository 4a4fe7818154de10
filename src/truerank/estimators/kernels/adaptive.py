"""Rows of the law of adaptive samples: those of one round, times the chance that sampling got there.

Symbols: L candidates, J of them above the target, m sampled, j of those above the target.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.kernels.row import law_row


@compiled
def fill_round(
    above: IntArray,
    L: int,
    replacement: bool,
    odds: FloatArray,
    floor: float,
    first: int,
    factor: FloatArray,
    out: FloatArray,
) -> None:
    """Write P(j | J) factor[j - first] for each J of ``above`` and the j that have a factor into ``out``."""
    row = np.zeros(len(odds) + 1)
    for i in range(len(above)):
        start, end, scale = law_row(above[i], L, replacement, odds, floor, row)
        for j in range(max(start, first), min(end, first + len(factor))):
            out[i, j - first] = row[j] * scale * factor[j - first]
