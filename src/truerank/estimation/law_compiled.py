"""Compiled kernels of the sampling laws: rows P(j | J), sums over rows, and means over bins of ranks.

A row is computed by recurrence from its mode: terms start at 1 at the mode and follow their ratios outwards,
in both directions at once, until they fall below ``floor``; the caller multiplies by the scale that is
returned. No logarithm, no gamma function, one multiplication per term in each of two chains. Rows of adaptive
samples are those of one round times the probability that sampling got there.

Symbols: L candidates, J of them above the target, m sampled, j of those above the target.
"""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import FloatArray, IntArray


@compiled
def binomial_row(J: int, L: int, odds: FloatArray, floor: float, row: FloatArray) -> tuple[int, int, float]:
    """Write the terms of Bin(m, J/L) to ``row``; return first index, the one after the last, and the scale.

    ``odds[j]`` is (m - j)/(j + 1), so the ratio of term j + 1 to term j is ``odds[j]`` J/(L - J).
    """
    m = len(odds)
    if J == 0 or J == L:
        at = 0 if J == 0 else m
        row[at] = 1.0
        return at, at + 1, 1.0
    mode = min(int((m + 1) * (J / L)), m)
    raising, lowering = J / (L - J), (L - J) / J
    up, down, total = 1.0, 1.0, 1.0
    row[mode] = 1.0
    first, last = mode, mode
    while last < m and first > 0:  # two independent chains of multiplications
        up *= odds[last] * raising
        down *= odds[m - first] * lowering  # 1/odds[j - 1] is odds[m - j]
        if up < floor or down < floor:
            up /= odds[last] * raising
            down /= odds[m - first] * lowering
            break
        last += 1
        first -= 1
        row[last] = up
        row[first] = down
        total += up + down
    while last < m:
        up *= odds[last] * raising
        if up < floor:
            break
        last += 1
        row[last] = up
        total += up
    while first > 0:
        down *= odds[m - first] * lowering
        if down < floor:
            break
        first -= 1
        row[first] = down
        total += down
    return first, last + 1, 1.0 / total


@compiled
def hypergeometric_row(
    J: int, L: int, odds: FloatArray, floor: float, row: FloatArray
) -> tuple[int, int, float]:
    """Write the terms of the hypergeometric law to ``row``; return first index, one past the last, and scale.

    The ratio of term j + 1 to term j is ``odds[j]`` (J - j)/(L - J - m + j + 1).
    """
    m = len(odds)
    lowest, highest = max(0, m - (L - J)), min(m, J)
    mode = int((m + 1.0) * (J + 1.0) / (L + 2.0))
    mode = min(max(mode, lowest), highest)
    rest = L - J - m
    up, down, total = 1.0, 1.0, 1.0
    row[mode] = 1.0
    first, last = mode, mode
    while last < highest and first > lowest:
        raising = odds[last] * ((J - last) / (rest + last + 1.0))
        lowering = odds[m - first] * ((rest + first) / (J - first + 1.0))
        up *= raising
        down *= lowering
        if up < floor or down < floor:
            up /= raising
            down /= lowering
            break
        last += 1
        first -= 1
        row[last] = up
        row[first] = down
        total += up + down
    while last < highest:
        up *= odds[last] * ((J - last) / (rest + last + 1.0))
        if up < floor:
            break
        last += 1
        row[last] = up
        total += up
    while first > lowest:
        down *= odds[m - first] * ((rest + first) / (J - first + 1.0))
        if down < floor:
            break
        first -= 1
        row[first] = down
        total += down
    return first, last + 1, 1.0 / total


@compiled
def law_row(
    J: int, L: int, replacement: bool, odds: FloatArray, floor: float, row: FloatArray
) -> tuple[int, int, float]:
    """Write a row of either law."""
    if replacement:
        return binomial_row(J, L, odds, floor, row)
    return hypergeometric_row(J, L, odds, floor, row)


@compiled
def fill_law(
    above: IntArray, L: int, replacement: bool, odds: FloatArray, floor: float, out: FloatArray
) -> None:
    """Write P(j | J) for each J of ``above`` into the rows of ``out``, which holds zeros."""
    row = np.zeros(len(odds) + 1)
    for i in range(len(above)):
        first, end, scale = law_row(above[i], L, replacement, odds, floor, row)
        for j in range(first, end):
            out[i, j] = row[j] * scale


@compiled
def add_rows(
    start: int, L: int, replacement: bool, odds: FloatArray, floor: float, values: FloatArray, out: FloatArray
) -> None:
    """Add P(j | J) values[c, J - start] to out[c, j] for the rows J = start.. that values has."""
    row = np.zeros(len(odds) + 1)
    for i in range(values.shape[1]):
        first, end, scale = law_row(start + i, L, replacement, odds, floor, row)
        for c in range(values.shape[0]):
            weight = values[c, i] * scale
            for j in range(first, end):
                out[c, j] += weight * row[j]


@compiled
def dot_rows(
    start: int, L: int, replacement: bool, odds: FloatArray, floor: float, dual: FloatArray, out: FloatArray
) -> None:
    """Set out[i] to the sum over j of P(j | start + i) dual[j]."""
    row = np.zeros(len(odds) + 1)
    for i in range(len(out)):
        first, end, scale = law_row(start + i, L, replacement, odds, floor, row)
        total = 0.0
        for j in range(first, end):
            total += row[j] * dual[j]
        out[i] = total * scale


@compiled
def moments(
    above: IntArray, L: int, replacement: bool, odds: FloatArray, floor: float, x: FloatArray
) -> FloatArray:
    """Return the mean and the variance of x[j] for each of ``above``, (n, 2)."""
    row = np.zeros(len(odds) + 1)
    result = np.empty((len(above), 2))
    for i in range(len(above)):
        first, end, scale = law_row(above[i], L, replacement, odds, floor, row)
        mean = 0.0
        for j in range(first, end):
            mean += row[j] * x[j]
        mean *= scale
        variance = 0.0
        for j in range(first, end):
            variance += row[j] * (x[j] - mean) * (x[j] - mean)
        result[i, 0] = mean
        result[i, 1] = variance * scale
    return result


@compiled
def add_split(joint: FloatArray, odds: FloatArray, floor: float, gram: FloatArray) -> None:
    """Add to gram[r + v, s + v] the probability of v common items and r, s others in two halves of size k.

    ``joint[v, t]`` is the probability of v common and t other items above the target; the t others fall into
    the halves at random, so the number r in the first is hypergeometric: k drawn from 2k.
    """
    k = len(odds)
    row = np.zeros(k + 1)
    for t in range(2 * k + 1):
        first, end, scale = hypergeometric_row(t, 2 * k, odds, floor, row)
        for v in range(joint.shape[0]):
            weight = joint[v, t] * scale
            if weight > 0.0:
                for r in range(first, end):
                    gram[r + v, t - r + v] += weight * row[r]


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

    The first j of a row grows with J, so all rows after one that starts beyond the last column do too.
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
