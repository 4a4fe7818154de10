"""New outcomes of targets whose ranks are given."""

from __future__ import annotations

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray


@compiled
def add_outcomes(
    uniform: FloatArray,
    user: IntArray,
    weight: FloatArray,
    table: IntArray,
    base: IntArray,
    sums: FloatArray,
    starts: IntArray,
    cells: IntArray,
    out: FloatArray,
) -> None:
    """Add the weight of each entry to the cell that its user's uniform number falls into.

    Entry i reads the ascending sums[starts[t]:starts[t + 1]] with t = table[i]; the k-th of them stands for
    cells[base[i] + k].
    """
    for i in range(len(user)):
        u = uniform[user[i]]
        first = starts[table[i]]
        low, high = first, starts[table[i] + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if sums[middle] > u:
                high = middle
            else:
                low = middle + 1
        out[cells[base[i] + low - first]] += weight[i]
