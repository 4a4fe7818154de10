r"""The law of the first relevant item in a tied block, for metrics that stop there.

Of b tied items s are relevant, in uniformly random order. The first relevant one lies in slot J with

.. math:: P(J = j) = \binom{b - j}{s - 1} \Big/ \binom{b}{s}, \qquad
          P(J > q) = \binom{b - q}{s} \Big/ \binom{b}{s}.
"""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.metrics.harmonic import reciprocal_sum

_DIRECT = 64  # terms worth adding one by one
_TAIL = 45  # exp(-45) is far below the last bit of any sum here
_GROWTH = 7  # exp(7) times the rounding error is still negligible


def miss_probability(size: IntArray, relevant: IntArray, slots: IntArray) -> FloatArray:
    """Return P(J > slots): no relevant item in the first slots of the block.

    A product of min(relevant, slots) factors.

    Examples
    --------
    >>> float(miss_probability(np.array(4), np.array(2), np.array(1)))
    0.5
    """
    size, few, many = np.broadcast_arrays(size, np.minimum(relevant, slots), np.maximum(relevant, slots))
    product = np.ones(size.shape)
    for i in range(int(few.max(initial=0))):
        factor = np.maximum(size - many - i, 0) / np.maximum(size - i, 1)
        product = np.where(i < few, product * factor, product)
    return product


def mean_reciprocal(n_above: IntArray, size: IntArray, relevant: IntArray, slots: IntArray) -> FloatArray:
    """Return the mean of 1/(n_above + J) where J <= slots, and of 0 elsewhere.

    Arrays of equal length. Time O(1) per block with one relevant item. Otherwise min(slots, 64) terms, or a
    three-term recurrence over the number of relevant items, forward or backward, whichever is stable: at most
    of the order of sqrt(size) steps, whatever the block.

    Examples
    --------
    >>> block = (np.array([0]), np.array([3]), np.array([2]), np.array([3]))
    >>> mean_reciprocal(*block).round(6).tolist()  # 2/3 * 1 + 1/3 * 1/2
    [0.833333]
    """
    result = reciprocal_sum(n_above, slots) / size
    several = np.flatnonzero(relevant > 1)
    if len(several):
        columns = [column[several] for column in (n_above, size, relevant, slots)]
        first, inverse = _distinct(columns)
        result[several] = _of_distinct(*(column[first] for column in columns))[inverse]
    return result


def _distinct(columns: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct block, and which of them each row is."""
    codes = columns[0]
    for column in columns[1:]:  # codes stay below the number of rows, so the product cannot overflow
        keys = codes * (int(column.max()) + 1) + column
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return first, codes


def _of_distinct(n_above: IntArray, size: IntArray, relevant: IntArray, slots: IntArray) -> FloatArray:
    slots = np.minimum(slots, size - relevant + 1)  # the first relevant item lies no deeper
    result = np.zeros(len(size))
    short = slots <= _DIRECT
    result[short] = _direct(n_above[short], size[short], relevant[short], slots[short])
    deep = ~short
    if deep.any():
        result[deep] = _whole(n_above[deep], size[deep], relevant[deep])
    cut = deep & (size - slots >= relevant)
    if cut.any():  # what lies below the cut-off is a smaller block of the same kind
        above, block, s, q = n_above[cut], size[cut], relevant[cut], slots[cut]
        result[cut] -= miss_probability(block, s, q) * _whole(above + q, block - q, s)
    return result


def _whole(n_above: IntArray, size: IntArray, relevant: IntArray) -> FloatArray:
    """Return the mean of 1/(n_above + J) over the whole block by the cheapest stable way."""
    # paper: none; A items above, b in the block, s relevant, M(s) the mean sought
    terms = np.minimum(size - relevant + 1, np.ceil(_TAIL * size / relevant).astype(np.int64))
    drift = np.log1p(n_above / size)
    with np.errstate(divide="ignore"):
        needed = np.minimum(np.ceil(_TAIL / drift), size)
    back = np.minimum(size - relevant, needed.astype(np.int64))
    is_direct = terms <= np.minimum(_DIRECT, back)
    is_forward = ~is_direct & (relevant * drift <= _GROWTH) & (2 * relevant <= size)
    is_backward = ~is_direct & ~is_forward & (back <= terms)
    is_direct = ~is_forward & ~is_backward
    result = np.zeros(len(size))
    for chosen, ends, way in (
        (is_direct, terms, _direct),
        (is_forward, relevant, _forward),
        (is_backward, relevant + back, _backward),
    ):
        if chosen.any():
            result[chosen] = way(n_above[chosen], size[chosen], relevant[chosen], ends[chosen])
    return result


def _direct(A: IntArray, b: IntArray, s: IntArray, terms: IntArray) -> FloatArray:
    """Add P(J = j)/(A + j) for j = 1..terms; P(J = j + 1) = P(J = j) (b - s - j + 1)/(b - j)."""
    total = np.zeros(len(b))
    chance = s / b
    for j in range(1, int(terms.max(initial=0)) + 1):
        total += np.where(j <= terms, chance / (A + j), 0.0)
        chance = chance * np.maximum(b - s - j + 1, 0) / np.maximum(b - j, 1)
    return total


def _forward(A: IntArray, b: IntArray, s: IntArray, ends: IntArray) -> FloatArray:
    """Climb from one relevant item: M(t) = t ((A + b - t + 2) M(t - 1) - 1) / ((t - 1)(b - t + 1))."""
    mean = reciprocal_sum(A, b) / b
    for t in range(2, int(ends.max()) + 1):
        step = t * ((A + b - t + 2) * mean - 1) / ((t - 1) * np.maximum(b - t + 1, 1))
        mean = np.where(t <= s, step, mean)
    return mean


def _backward(A: IntArray, b: IntArray, s: IntArray, ends: IntArray) -> FloatArray:
    """Descend from many relevant items, which forgets the start by a factor b/(A + b) per step."""
    mean = 1 / (A + (b + 1) / (ends + 1))  # exact where ends = b, else a guess to be forgotten
    for k in range(int((ends - s).max())):
        t = np.maximum(ends - k, s)
        step = (mean * (t - 1) * (b - t + 1) / t + 1) / (A + b - t + 2)
        mean = np.where(t > s, step, mean)
    return mean
